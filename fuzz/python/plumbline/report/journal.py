# SPDX-License-Identifier: Apache-2.0
"""What a campaign's journal says beyond its summary: when what was first seen, and how near each case came to its bounds
(fuzz/campaign/journal.h describes its lines)."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections import Counter

from ..stored import MALFORMED, FormatError
from .shapes import joined, places, told

OUTPUTS = {"p": "logprob", "l": "loss", "e": "entropy", "s": "lse", "h": "grad_hidden", "w": "grad_weight"}
# Powers of two of error over bound, from 2^-20 and below to beyond 2^4.
FIRST, LAST = -20, 4
# The same of an error in units of honest kernels'; above 2^3 an output is suspect.
HONEST_FIRST, HONEST_LAST, HONEST_SUSPECT = -6, 12, 3


@dataclasses.dataclass
class Journal:
    """Series of a campaign."""

    # By output: cases whose largest error over bound lies in [2^k, 2^(k + 1)), by k from FIRST to LAST.
    tightness: dict[str, Counter[int]] = dataclasses.field(default_factory=dict)
    # By output: cases whose error in units of an honest kernel's lies there, from HONEST_FIRST to HONEST_LAST.
    honest: dict[str, Counter[int]] = dataclasses.field(default_factory=dict)
    # By output: cases without any error.
    exact: Counter[str] = dataclasses.field(default_factory=Counter)
    # (seconds, signature) of everything that was seen for the first time.
    sighted: list[tuple[float, str]] = dataclasses.field(default_factory=list)
    # (regime, dtype): cases.
    drawn: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    # By regime: cases by group and column of their shapes' table (fuzz/python/plumbline/report/shapes.py).
    shapes: dict[str, Counter[tuple[str, str]]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class _Names:
    """What the numbers in the lines of cases mean."""

    kinds: dict[int, tuple[str, str]] = dataclasses.field(default_factory=dict)  # regime and dtype
    joined: list[int] = dataclasses.field(default_factory=lambda: [1])  # by target: how many are judged together


def _bin(value: float, first: int, last: int) -> int:
    return last if math.isinf(value) else first if value == 0 else max(first, min(last, math.floor(math.log2(value))))


def _take(journal: Journal, line: dict, names: _Names) -> None:
    if "campaign" in line:
        names.joined = [joined(target) for target in line["campaign"]["targets"]]
    elif "kind" in line and "regime" in line:
        names.kinds[line["kind"]] = (line["regime"], line["class"][2])
    elif "sighting" in line:
        seen = line["sighting"]
        journal.sighted.append((float(seen["seconds"]), seen["signature"]))
    elif "done" in line:
        item, *_, kind = line["done"]
        regime, dtype = names.kinds.get(kind, ("?", "?"))
        journal.drawn[regime, dtype] += 1
        extents = told(line, names.joined[item % len(names.joined)])
        journal.shapes.setdefault(regime, Counter()).update(places(extents))
        for letter, numbers in line.get("o", {}).items():
            if len(numbers) not in (2, 5):
                continue  # counts alone: no element of it was judged
            output, tightness = OUTPUTS[letter], float(numbers[-1])
            if tightness > 0:
                journal.tightness.setdefault(output, Counter())[_bin(tightness, FIRST, LAST)] += 1
            elif tightness == 0:
                journal.exact[output] += 1
        for letter, ratio in line.get("u", {}).items():
            journal.honest.setdefault(OUTPUTS[letter], Counter())[_bin(float(ratio), HONEST_FIRST, HONEST_LAST)] += 1


def read_journal(path: pathlib.Path) -> Journal:
    """Reads a journal. A torn last line is dropped, as `plumb --resume` does; any other that cannot be read is a
    FormatError that names it."""
    journal, names = Journal(), _Names()
    with path.open("rb") as lines:
        fault = None
        for number, text in enumerate(lines, 1):
            if fault:
                raise fault
            try:
                _take(journal, json.loads(text.decode("utf-8")), names)
            except MALFORMED as error:
                fault = FormatError(f"{path}: line {number}: no line of a journal: {type(error).__name__}: {error}")
    return journal
