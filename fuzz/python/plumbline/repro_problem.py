# SPDX-License-Identifier: Apache-2.0
"""The numbers of a stored case as Python literals, and its tensors' shapes and strides."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from collections.abc import Sequence
from typing import Any

from .stored import NAMES, Case
from .views import ITEM_SIZES

MOST_BYTES = 1 << 36  # of memory around a tensor; wider strides are left out
WIDTH = 116


@dataclasses.dataclass(frozen=True)
class Array:
    """One tensor of a problem: its values in row-major order, and how it lies in memory."""

    name: str  # "grad_logprob"
    dtype: str  # "fp32"
    shape: tuple[int, ...]
    values: list[Any]
    strides: tuple[int, ...] | None = None  # None: dense
    offset: int = 0


def literal(value: float) -> str:
    """An expression of exactly this value: a decimal that reads back as the same bits."""
    return repr(value)  # nan and inf are names in the script


def literals(values: Sequence[Any]) -> str:
    """A list of these values; what repeats is written once."""
    parts: list[str] = []
    single: list[str] = []
    for text, group in itertools.groupby(map(literal, values)):
        count = len(list(group))
        if count < 6:
            single += [text] * count
            continue
        if single:
            parts.append(f"[{', '.join(single)}]")
            single = []
        parts.append(f"[{text}] * {count}")
    if single or not parts:
        parts.append(f"[{', '.join(single)}]")
    return " + ".join(parts)


def assignment(name: str, expression: str) -> str:
    """`name = expression`, broken into lines."""
    line = f"{name} = {expression}"
    if len(line) <= WIDTH:
        return line
    body = textwrap.fill(expression, WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return f"{name} = (\n{textwrap.indent(body, '    ')}\n)"


def _repeat_first(values: list[Any], times: int) -> list[Any]:
    width = len(values) // times if times else 0
    return values[:width] * times


def _matrix(name: str, case: Case, lines: int, length: int, padding: int, transposed: bool) -> Array:
    layout, tensor = case.layout, case.tensors[name]
    if transposed:
        lines, length = length, lines
    pitch = length + padding
    broadcast = name == "hidden" and layout.get("hidden_broadcast", False)
    line = 0 if broadcast else -pitch if layout.get("reversed", False) else pitch
    values = tensor.values()
    if broadcast:
        values = _repeat_first(values, tensor.shape[0])
    strides = (1, line) if transposed else (line, 1)
    offset = layout.get("offset", 0)
    dense = not transposed and strides == (length, 1) and offset == 0
    return Array(name, NAMES[tensor.dtype], tensor.shape, values, None if dense else strides, offset)


def _vector(name: str, case: Case, stride: int, offset: int, reverses: bool = True) -> Array:
    tensor = case.tensors[name]
    values = tensor.values()
    if not tensor.shape:
        return Array(name, NAMES[tensor.dtype], (), values)
    if stride == 0:
        values = _repeat_first(values, len(values))
    if reverses and case.layout.get("reversed", False):
        stride = -stride
    dense = stride == 1 and offset == 0
    return Array(name, NAMES[tensor.dtype], tensor.shape, values, None if dense else (stride,), offset)


def arrays(case: Case) -> tuple[dict[str, Array], list[str]]:
    """The tensors of a case as a target sees them, and what of their layout was left out."""
    rows, vocab, hidden = case.shape
    layout = case.layout
    offset, grad_stride = layout.get("offset", 0), layout.get("grad_stride", 1)
    found = [
        _matrix("hidden", case, rows, hidden, layout.get("hidden_padding", 0), False),
        _matrix(
            "weight", case, vocab, hidden, layout.get("weight_padding", 0), layout.get("weight_hidden_major", False)
        ),
        _vector("labels", case, layout.get("label_stride", 1), layout.get("label_offset", 0)),
    ]
    for name in ("grad_logprob", "grad_entropy"):
        if name in case.tensors:
            found.append(_vector(name, case, grad_stride, offset))
    if "temperature" in case.tensors:
        found.append(_vector("temperature", case, layout.get("temperature_stride", 1), offset, False))
    left_out = []
    for i, array in enumerate(found):
        reach = sum(abs(s) * (n - 1) for s, n in zip(array.strides or (), array.shape) if n)
        if (reach + array.offset) * ITEM_SIZES[array.dtype] > MOST_BYTES:
            left_out.append(f"{array.name} has strides {list(array.strides)}; here it is dense")
            found[i] = dataclasses.replace(array, strides=None, offset=0)
    if layout.get("output_stride", 1) != 1:
        left_out.append(f"outputs by row lay {layout['output_stride']} elements apart")
    if layout.get("gradient_step", 1) != 1:
        left_out.append(f"elements of the gradients lie {layout['gradient_step']} apart")
    if layout.get("single_stride", 1) != 1:
        left_out.append(f"dimensions of one element have a stride of {layout['single_stride']}")
    return {array.name: array for array in found}, left_out


def constants(case: Case, given: dict[str, Array]) -> list[str]:
    """Assignments of everything that the definition reads."""
    rows, vocab, hidden = case.shape
    reduced = case.reduction != "none"

    def by_row(name: str, absent: float) -> list[Any]:
        if name not in given:
            return [absent] * rows
        array = given[name]
        return array.values if array.shape else array.values * rows

    lines = [f"N, V, H = {rows}, {vocab}, {hidden}"]
    lines += [f'# [N, H] and [V, H] {given["hidden"].dtype}, row by row: each decimal reads back as the same bits']
    lines += [assignment("HIDDEN", literals(given["hidden"].values))]
    lines += [assignment("WEIGHT", literals(given["weight"].values))]
    lines += [assignment("LABELS", literals(given["labels"].values))]
    lines += [f"IGNORE_INDEX, REDUCTION = {case.ignore_index}, {case.reduction!r}"]
    lines += [assignment("T", literals(by_row("temperature", 1.0))) + "  # temperature"]
    upstream = given["grad_logprob"].values if "grad_logprob" in given else [0.0]
    lines += [f"GRAD_LOSS = {literal(upstream[0] if reduced else 0.0)}"]
    lines += [assignment("GRAD_LOGPROB", literals([0.0] * rows if reduced else by_row("grad_logprob", 0.0)))]
    lines += [assignment("GRAD_ENTROPY", literals(by_row("grad_entropy", 0.0)))]
    return lines
