# SPDX-License-Identifier: Apache-2.0
"""Sets a curve of losses beside five that differ only in the order of a batch's rows.

Share: the steps at which the curve lies between the least and the largest of the five. A sixth curve of their kind does so at
2/3 of the steps in expectation, since each of six is equally likely to be the least or the largest.

Test: the mean of a part of the steps is one number a run, so that steps need not be independent. With d the curve's mean less
the five's, and s their standard deviation, d / (s √(6/5)) of a sixth run has Student's distribution with 4 degrees of freedom
if means are normal with one variance. The steps are cut into four parts. In the last three a curve differs where the least of
the probabilities, times three, is below LEVEL: one of the same kind with a probability of LEVEL at most. In the first part
runs have not drifted apart: they differ by a few roundings, and no mean is normal. There a curve differs where d is more than
the five lie apart at any later step.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

YARDSTICKS = 5
EXPECTED_SHARE = 1 - 2 / (YARDSTICKS + 1)
PARTS = 4
LEVEL = 0.001

Curve = Sequence[float]


def share_within(curve: Curve, others: Sequence[Curve]) -> float:
    """The share of steps at which the curve is within the others."""
    held = [min(each) <= here <= max(each) for here, each in zip(curve, zip(*others, strict=True), strict=True)]
    return sum(held) / len(held)


def probability(student: float) -> float:
    """That of a value at least as far from 0, by Student's distribution with 4 degrees of freedom."""
    if math.isnan(student):
        return 0.0
    # 1 - sine (1 + far / 2), where sine^2 = 1 - far; its first term far out, where the difference cancels.
    far = 4 / (4 + student * student) if math.isfinite(student) else 0.0
    sine = math.sqrt(1 - far)
    return max(0.0, min(1.0, 1 - sine - sine * far / 2)) if far > 1e-3 else 3 * far * far / 8


def parts_of(steps: int) -> list[range]:
    """The parts of the steps."""
    ends = [steps * part // PARTS for part in range(PARTS + 1)]
    return [range(first, last) for first, last in itertools.pairwise(ends)]


def test(curve: Curve, others: Sequence[Curve], steps: range) -> dict[str, float]:
    """Over these steps: the share within the five, the mean difference, the deviation of the five's means, and the
    probability."""
    def mean(which: Curve) -> float:
        return statistics.fmean(which[step] for step in steps)

    means = [mean(each) for each in others]
    difference, deviation = mean(curve) - statistics.fmean(means), statistics.stdev(means)
    if deviation == 0:
        student = 0.0 if difference == 0 else math.inf
    else:
        student = difference / (deviation * math.sqrt(1 + 1 / len(others)))
    inside = share_within(curve[steps.start:steps.stop], [each[steps.start:steps.stop] for each in others])
    return {"first": steps.start, "steps": len(steps), "share_within": round(inside, 4), "difference": difference,
            "deviation": deviation, "probability": probability(student)}


def first_outside(curve: Curve, others: Sequence[Curve]) -> int | None:
    """The first step at which the curve is not within the others."""
    places = enumerate(zip(curve, zip(*others, strict=True), strict=True))
    return next((step for step, (here, each) in places if not min(each) <= here <= max(each)), None)


def compared(curve: Curve, others: Sequence[Curve]) -> dict[str, Any]:
    """What is said of one curve. ValueError where there are not five others of its length."""
    if len(others) != YARDSTICKS or len(curve) < PARTS:
        raise ValueError(f"{len(others)} curves to compare {len(curve)} steps with: {YARDSTICKS} and {PARTS} at least")
    if len({*map(len, others), len(curve)}) > 1:
        raise ValueError("the curves have other numbers of steps")
    parts = [test(curve, others, steps) for steps in parts_of(len(curve))]
    early, later = parts[0], parts[1:]
    least = min(1.0, len(later) * min(part["probability"] for part in later))
    apart = max(max(each) - min(each) for each in list(zip(*others, strict=True))[later[0]["first"]:])
    within = all(map(math.isfinite, curve)) and least >= LEVEL and abs(early["difference"]) <= apart
    start = [each[0] for each in others]
    return {"share_within": round(share_within(curve, others), 4), "first_outside": first_outside(curve, others),
            "at_first_step": {"difference": curve[0] - statistics.fmean(start), "spread": max(start) - min(start)},
            "parts": parts, "probability": least, "apart_later": apart, "within": within}


def among_themselves(others: Sequence[Curve]) -> dict[str, Any]:
    """How each of the five lies among the other four: 1 - 2/5 of the steps are expected within them."""
    shares = [share_within(each, [other for other in others if other is not each]) for each in others]
    return {"share_within": [round(each, 4) for each in shares], "expected": 1 - 2 / len(others)}
