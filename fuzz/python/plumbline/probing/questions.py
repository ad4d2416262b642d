# SPDX-License-Identifier: Apache-2.0
"""What is asked of a function, each question alone, and what the answers mean as capabilities."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..call import Kernel
from .attempt import DIED, FAILED, REFUSED, RIGHT, UNASKED
from .problems import Problem

# Every power of two up to a common tile, so that a multiple is told exactly.
ROWS = (1, 2, 3, 4, 7, 8, 15, 16, 17, 32, 64, 128)
DEPTHS = (1, 2, 4, 7, 8, 16, 17, 32, 64, 100, 128, 256)
VOCABS = (2, 4, 8, 16, 17, 32, 64, 100, 128, 1000, 1024, 4097)
# What a target may decline by its death: a label outside the vocabulary, an extent of 0, and strides that most libraries have
# not. Each such case would end a process, whose successor imports the target anew. A death on any other problem is a finding.
CORNERS = ("invalid_labels", "empty_extents", "negative_strides")
# Capabilities that are lists: the axis of a problem that each is about, and how many values there are.
_LISTS = {
    "dtypes": ("dtype", 3),
    "label_dtypes": ("label_dtype", 2),
    "weight_layouts": ("layout", 2),
    "reductions": ("reduction", 3),
}


@dataclasses.dataclass(frozen=True)
class Question:
    """One change of the base problem; `key` says what it is about."""

    key: str
    value: Any
    problem: Problem

    @property
    def name(self) -> str:
        return f"{self.key}={self.value}"


def questions(kernel: Kernel, base: Problem) -> Iterator[Question]:
    """All questions, in order."""

    def ask(key: str, value: Any, **changes: Any) -> Question:
        return Question(key, value, dataclasses.replace(base, **changes))

    yield ask("base", True)
    for dtype in ("fp32", "fp16", "bf16"):
        yield ask("dtypes", dtype, dtype=dtype)
    for label_dtype in ("int32", "int64"):
        yield ask("label_dtypes", label_dtype, label_dtype=label_dtype)
    for layout in ("vocab_major", "hidden_major"):
        yield ask("weight_layouts", layout, layout=layout)
    reductions = ("none", "sum", "mean") if kernel.signature.has("reduction") else (base.reduction,)
    for reduction in reductions:
        yield ask("reductions", reduction, reduction=reduction)
    if kernel.signature.has("temperature"):
        for temperature in ("scalar", "row"):
            yield ask("temperature", temperature, temperature=temperature)
    if kernel.signature.has("ignore_index"):
        yield ask("ignore_index", True, ignored=True)
    yield ask("strided_inputs", True, padding=8, vector_stride=2)
    yield ask("zero_stride_grads", True, vector_stride=0)
    if kernel.framework.negative_strides:
        yield ask("negative_strides", True, reversed_rows=True)
    if kernel.declaration.device == "cuda":
        yield ask("invalid_labels", True, invalid_label=True)  # the device's assertion ends the process
    for key, changes in (("rows", {"rows": 0}), ("depth", {"depth": 0})):
        yield ask("empty_extents", key, **changes)
    for rows in ROWS:
        yield ask("rows_multiple", rows, rows=rows)
    for depth in DEPTHS:
        yield ask("hidden_multiple", depth, depth=depth)
    for vocab in VOCABS:
        yield ask("vocab_multiple", vocab, vocab=vocab)


def _multiple(answers: Mapping[int, str], base: int) -> int | None:
    """The number that divides all that is taken and nothing that is refused; None if there is none."""
    refused = [extent for extent, kind in answers.items() if kind == REFUSED]
    if not refused:
        return 1
    taken = [extent for extent, kind in answers.items() if kind not in (REFUSED, UNASKED)] + [base]
    common = math.gcd(*taken)
    while common > 1 and all(extent % (common // 2) for extent in refused) and common % 2 == 0:
        common //= 2
    return None if any(extent % common == 0 for extent in refused) else common


def capabilities(kernel: Kernel, base: Problem, answers: Mapping[str, Mapping[Any, str]]) -> dict[str, Any]:
    """Capabilities that the answers, kinds by key and value, speak of; those at their default are left out."""
    found: dict[str, Any] = {}
    for key, (axis, full) in _LISTS.items():
        taken = [value for value, kind in answers.get(key, {}).items() if kind != REFUSED]
        if len(taken) < full:
            found[key] = taken or [getattr(base, axis)]
    if not kernel.signature.has("temperature"):
        found["temperature"] = "none"
    else:
        asked = answers["temperature"]
        if asked["row"] in (REFUSED, FAILED):
            found["temperature"] = "none" if asked["scalar"] == REFUSED else "scalar"
    for key in ("strided_inputs", "zero_stride_grads", "ignore_index", "negative_strides", "invalid_labels"):
        if any(kind == REFUSED or (kind == DIED and key in CORNERS) for kind in answers.get(key, {}).values()):
            found[key] = False
    if not kernel.signature.has("ignore_index"):
        found["ignore_index"] = False
    if not kernel.framework.negative_strides:
        found["negative_strides"] = False
    # A loud failure on nothing at all harms nobody: it counts as a refusal.
    if any(kind in (REFUSED, FAILED, DIED) for kind in answers.get("empty_extents", {}).values()):
        found["empty_extents"] = False
    for key, extent in (("rows_multiple", "rows"), ("hidden_multiple", "depth"), ("vocab_multiple", "vocab")):
        multiple = _multiple(answers.get(key, {}), getattr(base, extent))
        if multiple is not None and multiple > 1:
            found[key] = multiple
    return found


def not_explained(answers: Mapping[str, Mapping[Any, str]], found: Mapping[str, Any]) -> list[str]:
    """Refusals that no capability describes: such cases are skipped when they come."""
    lines = []
    for key in ("rows_multiple", "hidden_multiple", "vocab_multiple"):
        multiple = found.get(key, 1)
        lines += [
            f"{key.split('_')[0]} {extent}"
            for extent, kind in answers.get(key, {}).items()
            if kind == REFUSED and extent % multiple == 0
        ]
    return lines


def right(answers: Mapping[str, Mapping[Any, str]]) -> int:
    return sum(kind == RIGHT for kinds in answers.values() for kind in kinds.values())
