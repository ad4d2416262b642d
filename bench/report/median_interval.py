# SPDX-License-Identifier: Apache-2.0
"""Gives the median of measurements and how well it is known, as bench/timing/median.h does for the programs."""


def median_interval(values: list[float]) -> tuple[float, float | None, float | None]:
    """Returns (median, low, high): the order statistics that hold the true median with a probability of 95 %, whatever the
    distribution (W. J. Conover, Practical Nonparametric Statistics, 3.2). Fewer than 6 values have none: None, None.
    """
    values, n = sorted(values), len(values)
    middle = (values[(n - 1) // 2] + values[n // 2]) / 2
    if n < 6:
        return middle, None, None
    chance = below = 0.5 ** n  # of fewer than `rank` + 1 values lying below the median
    rank = 0
    while below <= 0.025:
        rank += 1
        chance *= (n - rank + 1) / rank
        below += chance
    return middle, values[rank - 1], values[n - rank]


def spoken_interval(middle: float, low: float | None, high: float | None) -> str:
    """Returns a median with its interval as a page has them; the median alone where it has none."""
    return f"{middle:.3f}" + ("" if low is None else f" ({low:.3f} to {high:.3f})")
