# SPDX-License-Identifier: Apache-2.0
"""Arrays of a user's call as tensors of a dump. No array library is imported here."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from typing import Any

from .stored import Tensor

_DTYPES = {
    "bfloat16": "BF16",
    "float16": "F16",
    "float32": "F32",
    "int32": "I32",
    "int64": "I64",
}
_FLOATS = ("BF16", "F16", "F32")
# Dtypes and ranks of each tensor of a dump (fuzz/check/CHECK.md).
_INPUTS = {
    "hidden": (_FLOATS, (2,)),
    "weight": (_FLOATS, (2,)),
    "labels": (("I32", "I64"), (1,)),
    "temperature": (("F32",), (0, 1)),
    "grad_logprob": (("F32",), (0, 1)),
    "grad_entropy": (("F32",), (1,)),
    "rollout_logprob": (_FLOATS, (1,)),
    "old_logprob": (_FLOATS, (1,)),
}
_OUTPUTS = {
    "logprob": (_FLOATS, (1,)),
    "entropy": (_FLOATS, (1,)),
    "lse": (_FLOATS, (1,)),
    "loss": (_FLOATS, (0, 1)),
    "grad_hidden": (_FLOATS, (2,)),
    "grad_weight": (_FLOATS, (2,)),
}
_REQUIRED = ("hidden", "weight", "labels")


def _of_torch(value: Any, torch: Any, view: bool) -> Tensor:
    dense = value.detach().cpu().contiguous()
    size = dense.numel() * dense.element_size()
    if size and view:
        data: bytes | memoryview = memoryview(dense.reshape(-1).view(torch.uint8).numpy())
    else:
        data = ctypes.string_at(dense.data_ptr(), size) if size else b""
    dtype = str(dense.dtype).removeprefix("torch.")
    return Tensor(_DTYPES.get(dtype, dtype), tuple(dense.shape), data)


def tensor_of(name: str, value: Any, *, view: bool = False) -> Tensor:
    """An array, or a number, as a tensor; numbers become fp32. Raises TypeError.

    view: its bytes are not copied where they lie on this machine's memory densely; they must not change then.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_torch(value, torch, view)
    try:
        import numpy as np
    except ImportError:
        raise TypeError(f"{name} is a {type(value).__name__}: not a torch tensor, and there is no NumPy") from None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = np.float32(value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} is a {type(value).__name__}, which is no array: {error}") from None
    shape = array.shape
    array = np.ascontiguousarray(array)
    name_of_dtype = array.dtype.name
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    data = memoryview(array.reshape(-1).view(np.uint8)) if view and array.size else array.tobytes()
    return Tensor(_DTYPES.get(name_of_dtype, name_of_dtype), tuple(shape), data)


def _checked(role: str, name: str, value: Any, dtypes: tuple[str, ...], ranks: tuple[int, ...]) -> Tensor:
    tensor = tensor_of(f"{role}[{name!r}]", value)
    if tensor.dtype not in dtypes:
        spelt = {code: spelling for spelling, code in _DTYPES.items()}
        allowed = " or ".join(spelt[code] for code in dtypes)
        found = spelt.get(tensor.dtype, tensor.dtype)
        raise ValueError(f"{role}[{name!r}] is {found} where {allowed} is required: pass what the kernel saw")
    if len(tensor.shape) not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise ValueError(f"{role}[{name!r}] has shape {list(tensor.shape)} where rank {wanted} is required")
    return tensor


def dump_of(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a dump. Raises ValueError or TypeError naming the argument and its value."""
    for role, given, known in (("inputs", inputs, _INPUTS), ("outputs", outputs, _OUTPUTS)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{role} is {given!r}: it must be a dict of arrays by name")
        more = ("ignore_index", "vocabulary_size", "reduction") if role == "inputs" else ()
        for name in given:
            if name not in known and name not in more:
                raise ValueError(f"{role} has {name!r}; there are {', '.join([*known, *more])}")
    missing = [name for name in _REQUIRED if inputs.get(name) is None]
    if missing:
        raise ValueError(f"inputs lacks {', '.join(missing)}")
    if all(outputs.get(name) is None for name in outputs):
        raise ValueError(f"outputs is empty: nothing can be judged; there are {', '.join(_OUTPUTS)}")
    tensors = {}
    for role, given, known in (("inputs", inputs, _INPUTS), ("outputs", outputs, _OUTPUTS)):
        for name, value in given.items():
            if name in known and value is not None:
                tensors[name] = _checked(role, name, value, *known[name])
    metadata = {}
    for key in ("ignore_index", "vocabulary_size"):
        number = inputs.get(key)
        if number is None:
            continue
        if isinstance(number, bool) or not hasattr(number, "__index__"):
            raise ValueError(f"inputs[{key!r}] is {number!r}: it must be an integer")
        metadata[key] = str(number.__index__())
    reduction = inputs.get("reduction")
    if reduction is not None:
        if reduction not in ("none", "sum", "mean"):
            raise ValueError(f"inputs['reduction'] is {reduction!r}: none of 'none', 'sum', 'mean'")
        metadata["reduction"] = reduction
    return tensors, metadata
