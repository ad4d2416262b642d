# SPDX-License-Identifier: Apache-2.0
"""The arguments of a call as the inputs of a dump, or the reason why it is none."""

from __future__ import annotations

import dataclasses
import math
import random
import re
import sys
from collections.abc import Sequence
from typing import Any

from . import sharding
from .recognise import Place

# Options that change what is computed, and the values at which they do not. A dump holds none of them.
_CHANGES = re.compile(
    r"(.*_)?bias|.*soft_?cap.*|label_smoothing|lse_square_scale|z_loss.*|(ce|class)_weights?|.*l2_?warp|logit_scal.*|"
    r"scale|scaling|use_token_scaling|n_items|num_items.*|.*weights?|(.*_)?(top_k|top_p|min_p)"
)
_OF_NONE_OR_ONE = re.compile(r"logit_scal.*|scale|scaling|n_items|num_items.*|(.*_)?top_p")
_LARGEST_TEMPERATURE = 3.0e38


class NotOneError(Exception):
    """The arguments are not those of a linear cross-entropy: another function with such names."""


class RefusedError(Exception):
    """A linear cross-entropy whose dump would not say what was computed; the text names the argument and its value."""


def ignored_label(ignore_index: int | None) -> int:
    """PyTorch's default where none is given."""
    return -100 if ignore_index is None else ignore_index


@dataclasses.dataclass
class Inputs:
    """Copies in the memory of the host, made before the call: those of the chosen rows, and the weight."""

    hidden: Any  # [K, H]
    weight: Any  # [V, H]
    labels: Any  # [K]
    temperature: Any  # None, [] or [K]
    ignore_index: int | None
    reduction: str | None
    counted: int  # rows of the call that are not ignored
    rows: int  # rows of the call
    chosen: tuple[int, ...] | None  # None: all
    notes: list[str]

    @property
    def ignored(self) -> int:
        """The label of rows that are ignored."""
        return ignored_label(self.ignore_index)


@dataclasses.dataclass
class Call:
    """The tensors of a call, as they were passed."""

    hidden: Any
    weight: Any
    labels: Any
    temperature: Any
    ignore_index: int | None
    reduction: str | None
    transposed: bool  # weight is [H, V]
    shift: bool  # row i belongs to label i + 1 of its sequence
    shard: sharding.Shard | None
    given: tuple[Any, Any]  # hidden and weight as autograd knows them
    returns_lse: bool  # an argument asks for it
    edges: list[Any] | None = None  # where the gradients of both go, if not where these tensors' own do

    @property
    def rows(self) -> int:
        return math.prod(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        shape = tuple(self.labels.shape)
        return (*shape[:-1], max(shape[-1] - 1, 0)) if self.shift else shape

    def of_rows(self, tensor: Any, width: bool) -> Any:
        """[N, H] or [N] of a tensor like hidden, or like labels; rows without a label left out."""
        if self.shift:
            tensor = tensor[..., :-1, :] if width else tensor
        return tensor.reshape(-1, tensor.shape[-1]) if width else tensor.reshape(-1)

    def of_weight(self, tensor: Any) -> Any:
        return tensor.t() if self.transposed else tensor


def _is_tensor(value: Any) -> bool:
    return isinstance(value, sys.modules["torch"].Tensor)


def neutral(name: str, value: Any) -> bool:
    if value is None or value is False or value == "":
        return True
    return isinstance(value, (int, float)) and value in ((0, 1) if _OF_NONE_OR_ONE.fullmatch(name) else (0,))


def told(value: Any) -> str:
    return f"a tensor {list(value.shape)}" if _is_tensor(value) else f"{value!r:.60}"


def _options(place: Place, given: dict[str, Any], module: Any) -> dict[str, Any]:
    """What is no role: parameters, what **options took, and what a module keeps as attributes of its own."""
    roles = set(place.roles.values())
    found: dict[str, Any] = {}
    for name, parameter in place.reads.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= given.get(name, {})
        elif parameter.kind is not parameter.VAR_POSITIONAL and name not in roles:
            found[name] = given.get(name)
    kept = {} if module is None else {name: value for name, value in vars(module).items() if name[:1] != "_"}
    return {**kept, **found}


def temperature_of(value: Any) -> Any:
    if value is None or _is_tensor(value) and value.is_floating_point():
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < abs(value) < _LARGEST_TEMPERATURE:
        raise RefusedError(f"temperature is {told(value)}")
    return float(value)


def _shifted(options: dict[str, Any], labels: Any) -> tuple[bool, Any]:
    """Whether a row belongs to the next label, and the labels: a function that takes `shift_labels` shifts them itself unless
    it is given shifted ones, or told not to."""
    shift = options.get("shift")
    if shift not in (None, False, 0, True, 1):
        raise RefusedError(f"shift is {shift!r}")
    if "shift_labels" not in options:
        return bool(shift), labels
    shift = options.pop("shift_labels")
    return (False, shift) if _is_tensor(shift) else (shift in (None, True), labels)


def _of_group(options: dict[str, Any]) -> sharding.Shard | None:
    for name, value in options.items():
        if re.fullmatch(r"(.*_)?group|vocab_parallel_options", name) and value is not None:
            return sharding.of_group(name, value)
    return None


def bind(place: Place, args: Sequence[Any], given: dict[str, Any]) -> Call:
    """The tensors of a call. Raises NotOneError, RefusedError."""
    module = args[0] if place.is_method else place.module
    try:
        bound = place.reads.bind(*args[place.is_method :], **given)
    except TypeError as error:
        raise NotOneError(str(error)) from None
    bound.apply_defaults()
    values = {role: bound.arguments.get(name) for role, name in place.roles.items()}
    options = _options(place, bound.arguments, module)
    for role in ("ignore_index", "reduction", "temperature"):
        values.setdefault(role, options.pop(role, None))
    hidden, weight, labels = (values[role] for role in ("hidden", "weight", "labels"))
    if not all(map(_is_tensor, (hidden, weight, labels))):
        raise NotOneError("hidden, weight and labels are not all tensors")
    shift, labels = _shifted(options, labels)
    size = hidden.shape[-1] if hidden.dim() else 0
    if not (hidden.is_floating_point() and weight.is_floating_point() and hidden.dim() >= 2 and weight.dim() == 2
            and size in weight.shape and not labels.is_floating_point() and labels.dim() >= 1):
        shapes = ", ".join(f"{name} {list(value.shape)} {value.dtype}" for name, value in
                           (("hidden", hidden), ("weight", weight), ("labels", labels)))
        raise NotOneError(shapes)
    for name, value in options.items():
        changes = _is_tensor(value) or _CHANGES.fullmatch(name.lower())
        if changes and not callable(value) and not neutral(name.lower(), value):
            raise RefusedError(f"{name} is {told(value)}, and a dump has no place for it")
    rows = math.prod(hidden.shape[:-1])
    if labels.numel() != rows or shift and labels.shape != hidden.shape[:-1]:
        raise RefusedError(f"hidden {list(hidden.shape)} has {rows} rows, and labels {list(labels.shape)} has {labels.numel()}")
    shard = _of_group(options)
    asked = (hidden, weight)
    if sharding.is_sharded(hidden, weight, labels):
        shard, (hidden, weight, labels) = sharding.of_tensors(hidden, weight, labels)
    ignore_index = values["ignore_index"]
    if ignore_index is not None and (isinstance(ignore_index, bool) or not isinstance(ignore_index, int)):
        raise RefusedError(f"ignore_index is {told(ignore_index)}")
    reduction = values["reduction"]
    if reduction not in (None, "none", "sum", "mean"):
        raise RefusedError(f"reduction is {told(reduction)}, none of none, sum, mean")
    transposed = weight.shape[1] != size
    return Call(hidden, weight, labels, temperature_of(values["temperature"]), ignore_index, reduction, transposed, shift,
                shard, asked, bool(options.get("return_lse")))


def _choose(labels: Sequence[int], ignored: int, count: int | None, seed: int) -> tuple[int, ...] | None:
    """The first row, the last, two that are ignored, others drawn of those that are not; None for all."""
    if count is None or count >= len(labels):
        return None
    drawn = random.Random(seed)  # of its own: the job's stays as it was
    kept = [row for row, label in enumerate(labels) if label != ignored]
    rest = [row for row, label in enumerate(labels) if label == ignored]
    order = [0, len(labels) - 1, *drawn.sample(rest, min(2, len(rest))), *drawn.sample(kept, min(count, len(kept))), *rest]
    return tuple(sorted(list(dict.fromkeys(order))[:count]))


def take(tensor: Any, chosen: tuple[int, ...] | None) -> Any:
    """A dense copy of rows on the host."""
    torch = sys.modules["torch"]
    tensor = tensor.detach()
    if chosen is not None:
        tensor = tensor.index_select(0, torch.tensor(chosen, device=tensor.device))
    return tensor.to("cpu", copy=True).contiguous()


def _read_in(call: Call, notes: list[str]) -> Any:
    """The dtype in which the products read their inputs. Raises RefusedError where that is not known."""
    torch = sys.modules["torch"]
    dtypes = {call.hidden.dtype, call.weight.dtype}
    device = call.hidden.device.type
    if torch.is_autocast_enabled(device) and dtypes & {torch.float32}:
        dtype = torch.get_autocast_dtype(device)
        notes.append(f"under autocast: hidden and weight are taken as {dtype}, to which torch rounds what it multiplies")
        return dtype
    if len(dtypes) > 1:
        raise RefusedError(f"hidden is {call.hidden.dtype} and weight {call.weight.dtype}: a dump holds one dtype")
    dtype = dtypes.pop()
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise RefusedError(f"hidden is {dtype}, none of torch.float32, torch.bfloat16, torch.float16")
    return dtype


def copied(call: Call, count: int | None, seed: int) -> Inputs:
    """The inputs before the call. Raises RefusedError."""
    torch = sys.modules["torch"]
    notes: list[str] = []
    dtype = _read_in(call, notes)
    given = call.labels.detach()
    labels = call.of_rows(given[..., 1:] if call.shift else given, False).to("cpu", copy=True)
    if labels.dtype not in (torch.int32, torch.int64):
        labels = labels.long()
    ignored = ignored_label(call.ignore_index)
    listed = labels.tolist()
    chosen = _choose(listed, ignored, count, seed)
    temperature = call.temperature
    if _is_tensor(temperature):
        temperature = temperature.detach().float().cpu().reshape(-1)
        if temperature.numel() not in (1, call.rows):
            raise RefusedError(f"temperature is {told(call.temperature)}, and there are {call.rows} rows")
        temperature = temperature.reshape(()) if temperature.numel() == 1 else take(temperature, chosen)
    elif temperature is not None:
        temperature = torch.tensor(temperature, dtype=torch.float32)
    return Inputs(
        hidden=take(call.of_rows(call.hidden.detach(), True), chosen).to(dtype),
        weight=take(call.of_weight(call.weight.detach()), None).to(dtype),
        labels=take(labels, chosen), temperature=temperature, ignore_index=call.ignore_index, reduction=call.reduction,
        counted=sum(label != ignored for label in listed), rows=len(listed), chosen=chosen, notes=notes,
    )  # fmt: skip
