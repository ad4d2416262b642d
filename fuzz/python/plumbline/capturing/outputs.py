# SPDX-License-Identifier: Apache-2.0
"""What a call returned: which of its values is the log-probability, the entropy, the logsumexp or the loss."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from typing import Any

from .arguments import Call, Inputs, RefusedError

_COLUMNS = 4096  # of the logits that are computed at a time
_PROBED = 4  # rows by which entropy and logsumexp are told apart
# An output is taken for what it is nearer to than this, relative to 1 + its magnitude. Nothing is judged by it.
_NEAR = 0.1
# More products than this are not made to tell a sum from a mean.
_MOST_PRODUCTS = 1 << 33
_FORWARD = ("logprob", "entropy", "lse", "loss")


def listed(returned: Any) -> list[tuple[str, Any]]:
    """The tensors of numbers that a call returned, with their names where it has any."""
    torch = sys.modules["torch"]
    if isinstance(returned, torch.Tensor):
        named: list[tuple[str, Any]] = [("", returned)]
    elif isinstance(returned, Mapping):
        named = [(str(name), value) for name, value in returned.items()]
    elif dataclasses.is_dataclass(returned):
        named = [(field.name, getattr(returned, field.name)) for field in dataclasses.fields(returned)]
    elif hasattr(returned, "_fields"):
        named = list(zip(returned._fields, returned, strict=True))
    elif isinstance(returned, (tuple, list)):
        named = [("", value) for value in returned]
    else:
        named = []
    return [(name, value) for name, value in named if isinstance(value, torch.Tensor) and value.is_floating_point()]


@dataclasses.dataclass
class Told:
    """An output by what it is; `sign` is -1 of a loss of each row, which is stored as logprob."""

    role: str
    index: int
    sign: int = 1


def is_of_rows(call: Call, value: Any) -> bool:
    shape = tuple(value.shape)
    return value.dim() > 0 and (shape == call.shape or shape == (call.rows,) or call.shift and shape == call.labels.shape)


def _logits(inputs: Inputs, rows: list[int]) -> tuple[Any, Any]:
    """logsumexp and entropy of rows, in fp64, without their logits in one piece."""
    torch = sys.modules["torch"]
    hidden = inputs.hidden[rows].double()
    temperature = 1.0 if inputs.temperature is None else inputs.temperature.double()
    scale = temperature[rows][:, None] if inputs.temperature is not None and inputs.temperature.dim() else temperature
    lse = torch.full((len(rows),), -math.inf, dtype=torch.float64)
    mean = torch.zeros(len(rows), dtype=torch.float64)  # of the logits, under the softmax so far
    for begin in range(0, inputs.weight.shape[0], _COLUMNS):
        x = hidden @ inputs.weight[begin : begin + _COLUMNS].double().t() / scale
        part = x.logsumexp(1)
        total = torch.logaddexp(lse, part)
        mean = (lse - total).exp() * mean + ((x - total[:, None]).exp() * x).sum(1)
        lse = total
    return lse, lse - mean


def _unnamed(inputs: Inputs, values: dict[int, Any], wanted: list[str]) -> dict[str, int]:
    """Which outputs are the entropy and the logsumexp, by their values."""
    rows = [row for row, label in enumerate(inputs.labels.tolist()) if label != inputs.ignored][:_PROBED]
    if not rows or not values or not wanted:
        return {}
    lse, entropy = _logits(inputs, rows)
    exact = {"lse": lse, "entropy": entropy}
    distance = {}
    for index, value in values.items():
        for role in wanted:
            off = (value[rows].double() - exact[role]).abs() / (1 + exact[role].abs())
            distance[float(off.median().nan_to_num(math.inf)), index, role] = None
    found: dict[str, int] = {}
    for off, index, role in sorted(distance):
        if off < _NEAR and role not in found and index not in found.values():
            found[role] = index
    return found


def _reduction(call: Call, inputs: Inputs, loss: float) -> str:
    """Whether a loss is a sum or a mean, by its value. Raises RefusedError."""
    rows = inputs.hidden.shape[0]
    if call.shard is None and inputs.chosen is None and rows * inputs.weight.numel() <= _MOST_PRODUCTS and inputs.counted:
        torch = sys.modules["torch"]
        lse, _ = _logits(inputs, list(range(rows)))
        kept = (inputs.labels != inputs.ignored) & (inputs.labels >= 0) & (inputs.labels < inputs.weight.shape[0])
        scale = torch.ones(()) if inputs.temperature is None else inputs.temperature
        chosen = (inputs.hidden.double() * inputs.weight[inputs.labels.where(kept, 0)].double()).sum(1) / scale.double()
        total = float((lse - chosen)[kept].sum())
        for reduction, value in (("sum", total), ("mean", total / inputs.counted)):
            if abs(loss - value) < _NEAR * abs(value):
                return reduction
    raise RefusedError(f"the loss is {loss!r}: no argument says whether that is a sum or a mean, and no value that was tried "
                       "tells it; rows=all may")


def _by_name(name: str) -> str | None:
    # A program of its own: `python -m plumbline.dump` warns where the package has imported it.
    from .. import dump

    role = dump._role_of(name) if name else None
    return role if role in _FORWARD else None


def tell(call: Call, inputs: Inputs, returned: list[tuple[str, Any]], taken: dict[int, Any]) -> list[Told]:
    """The outputs that are known; `taken` has the copies of those of one value a row, and of scalars."""
    found: dict[str, Told] = {}
    of_rows = {index: value for index, value in taken.items() if value.dim()}
    named = {index: _by_name(returned[index][0]) for index in taken}
    scalar = next((index for index in taken if index not in of_rows and named[index] in (None, "loss")), None)
    first = next((index for index in of_rows if named[index] in (None, "logprob", "loss")), None)
    reduced = scalar is not None and (inputs.reduction in ("sum", "mean") or first is None or scalar < first)
    if first is not None and not reduced:
        numbers = of_rows[first][~of_rows[first].isnan()]
        is_loss = named[first] == "loss" or named[first] is None and float(numbers.sum()) > 0
        found["logprob"] = Told("logprob", first, -1 if is_loss else 1)
        inputs.reduction = "none"
    for index, role in named.items():
        if role in ("entropy", "lse") and index in of_rows:
            found.setdefault(role, Told(role, index))
    used = {told.index for told in found.values()}
    left = {index: value for index, value in of_rows.items() if index not in used and named[index] is None}
    wanted = [role for role in ("entropy", "lse") if role not in found]
    if call.shard is not None and "row_start" not in call.shard.starts:
        # A shard of the weight tells no value: what comes second is the entropy, unless the logsumexp was asked for.
        by_value = dict(zip(["lse" if call.returns_lse else "entropy"], left, strict=False))
    else:
        by_value = _unnamed(inputs, left, wanted)
    for role, index in by_value.items():
        found[role] = Told(role, index)
    if reduced:
        if inputs.reduction not in ("sum", "mean"):
            inputs.reduction = _reduction(call, inputs, float(taken[scalar]))
        found["loss"] = Told("loss", scalar)
    return list(found.values())
