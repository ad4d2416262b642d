# SPDX-License-Identifier: Apache-2.0
"""NumPy: views of host memory. bf16 is there where ml_dtypes is."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import Any

import numpy as np

from ..errors import Unsupported
from ..views import View

try:
    import ml_dtypes

    _BF16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    _BF16 = None

_DTYPES = {
    "bf16": _BF16,
    "fp16": np.dtype(np.float16),
    "fp32": np.dtype(np.float32),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items() if dtype is not None}
_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def array_of(view: View, dtype: np.dtype | None = None) -> np.ndarray:
    """The view as an array that owns nothing, in `dtype` or its own."""
    dtype = dtype or _DTYPES[view.dtype]
    if dtype is None:
        raise Unsupported("bf16 needs the package ml_dtypes")
    low, size = view.span
    if size == 0:
        return np.empty(view.shape, dtype)
    memory = (ctypes.c_byte * size).from_address(low)
    strides = [stride * view.item_size for stride in view.strides]
    return np.ndarray(view.shape, dtype, memory, view.address - low, strides)


class NumpyFramework:
    """NumPy's arrays."""

    name = "numpy"
    negative_strides = True
    differentiates = False

    def __init__(self) -> None:
        self._taken: list[Any] = []

    def take(self, view: View) -> np.ndarray:
        array = array_of(view)
        # The memory object outlives the array where a view of it does: NumPy lets `base` skip arrays.
        base = array.base
        if base is not None:
            self._taken.append(base.obj if isinstance(base, memoryview) else base)
        return array

    def held(self) -> int:
        held = []
        while self._taken:
            memory = self._taken.pop()
            if sys.getrefcount(memory) > 2:  # this name, and the call's argument
                held.append(memory)
        self._taken = held
        return len(held)

    def on_stream(self, stream: int | None) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def lost(self) -> bool:
        return False

    def forget(self) -> None:
        self._taken = []

    def kind(self, value: Any) -> str | None:
        if isinstance(value, (np.ndarray, np.generic)):
            return None
        return f"a {type(value).__module__}.{type(value).__name__}, not a NumPy array"

    def dtype(self, value: Any) -> str:
        return _NAMES.get(value.dtype, str(value.dtype))

    def shape(self, value: Any) -> tuple[int, ...]:
        return tuple(np.shape(value))

    def device(self, value: Any) -> str:
        return "cpu"

    def address(self, value: Any) -> int:
        return value.ctypes.data if isinstance(value, np.ndarray) and value.size else 0

    def zeros(self, shape: tuple[int, ...], like: Any) -> np.ndarray:
        return np.zeros(shape, like.dtype)

    def give(self, value: Any, view: View, negate: bool, unwritten: int | None) -> bool:
        value = np.asarray(value)
        target = array_of(view)
        result = -value if negate else value
        size = value.dtype.itemsize
        if unwritten is None or size not in _BITS:
            target[...] = result
            return False
        bits = np.ascontiguousarray(value).view(_BITS[size]).reshape(value.shape)
        written = bits != int.from_bytes(bytes([unwritten]) * size, "little")
        if written.all():
            target[...] = result
            return False
        np.copyto(target, result.astype(target.dtype), where=written)
        return True

    def state(self) -> dict[str, object]:
        return {"numpy.geterr()": np.geterr()}

    def restore(self, state: dict[str, object]) -> None:
        np.seterr(**state["numpy.geterr()"])


FRAMEWORK = NumpyFramework()
