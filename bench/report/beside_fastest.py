# SPDX-License-Identifier: Apache-2.0
"""Makes tables of a result of `bench/peers` in which the newest build stands beside the fastest peers."""

from typing import NamedTuple

from . import markdown
from .median_interval import median_interval, spoken_interval
from .peer_tables import OURS, figure, measured, ours
from .stored import spoken

SAVED, IN_FORWARD = f"{OURS}, logits saved", f"{OURS}, gradients in forward"


class Goal(NamedTuple):
    """What a step may take at most of the fastest peer's; None: there is no goal."""
    sustained: float | None = None
    burst: float | None = None
    mean: bool = True  # ours may make its gradients in forward, as those peers do that take a mean alone


LARGE = Goal(0.96, 0.93, mean=False)
GOALS = {"8192x4096x131072": LARGE, "8192x4096x151936": LARGE, "8192x2304x256000": LARGE,
         "8192x4096x151936_half_ignored": LARGE, "8192x2048x131072": Goal(0.99), "8192x1024x151936": Goal(0.99),
         "4096x7168x129280": Goal(0.99, mean=False), "32768x4096x131072": Goal(0.99, mean=False),
         "128x4096x151936": Goal(0.92, 0.93, mean=False), "8192x4096x128256": Goal(1.00), "8192x2048x128256": Goal(1.00),
         "8192x3584x152064": Goal(1.00)}
# What gradients in forward with the default limit may take at most of quack's fastest, sustained.
GOALS_BESIDE_QUACK = {"32768x4096x131072": 1.00}
# Columns of a step: the result's key, the head, the format.
COLUMNS = [("step_ms", "in turns, ms", ".2f"), ("row_step_ms", "sustained", ".2f"), ("step_joules", "J", ".2f"),
           ("burst_step_ms", "burst", ".2f"), ("burst_forward_ms", "burst forward", ".2f"), ("step_MiB", "MiB", ".0f")]


def ratio(mine: dict, theirs: dict, what: str) -> tuple[float, float | None, float | None]:
    """Returns our time over a peer's (median, low, high): over the rounds, or without an interval where they were not kept."""
    if "by_round" in mine and "by_round" in theirs:
        return median_interval([a / b for a, b in zip(mine["by_round"][what], theirs["by_round"][what])])
    return mine[f"{what}_ms"] / theirs[f"{what}_ms"], None, None


def times(shapes: dict[str, list[dict]]) -> str:
    """Returns the times and joules of a step of everybody at every shape."""
    rows = [[spoken(shape), result["name"], result["contract"], *(figure(result.get(key), form) for key, _, form in COLUMNS)]
            for shape, results in shapes.items() for result in sorted(measured(results), key=lambda each: each["step_ms"])]
    return markdown.table(["step", "", "contract", *(head for _, head, _ in COLUMNS)], "lll" + "r" * len(COLUMNS), rows)


def fastest_in(results: list[dict], what: str) -> dict:
    return min(results, key=lambda result: result[f"{what}_ms"])


def row(shape: str, mine: list[dict], peers: list[dict], regime: str, what: str, most: float | None) -> list[str]:
    """Returns a row of figures()."""
    own, peer = fastest_in(mine, what), fastest_in(peers, what)
    middle, low, high = ratio(own, peer, what)
    upper = middle if high is None else high
    reached = "" if most is None else "yes" if upper <= most else "no"
    return [spoken(shape), regime, own["name"], peer["name"], figure(most, ".2f"), spoken_interval(middle, low, high), reached]


def figures(shapes: dict[str, list[dict]]) -> list[list[str]]:
    """Returns (step, regime, ours, the fastest peer, goal, measured, reached) of every shape where both were measured: in
    either regime, or in turns where a run was without regimes, and of gradients in forward beside quack
    where that is the goal. The upper end of an interval counts."""
    found = []
    for shape, results in shapes.items():
        goal = GOALS.get(shape, Goal())
        everybody = measured(results)
        mine = [each for each in everybody if each["name"] == SAVED or (goal.mean and each["name"] == IN_FORWARD)]
        peers = [each for each in everybody if not ours(each)]
        if not (mine and peers):
            continue
        if all("row_step_ms" in each for each in mine + peers):
            found.append(row(shape, mine, peers, "sustained", "row_step", goal.sustained))
            found.append(row(shape, mine, peers, "burst", "burst_step", goal.burst))
        else:
            found.append(row(shape, mine, peers, "in turns", "step", goal.sustained))
        quack = [each for each in peers if each["name"].startswith("quack") and "row_step_ms" in each]
        in_forward = [each for each in everybody if each["name"] == IN_FORWARD and "row_step_ms" in each]
        if shape in GOALS_BESIDE_QUACK and quack and in_forward:
            found.append(row(shape, in_forward, quack, "sustained", "row_step", GOALS_BESIDE_QUACK[shape]))
    return found


def figures_table(shapes: dict[str, list[dict]]) -> str:
    return markdown.table(["step", "", "ours", "fastest peer measured", "goal, at most", "ours ÷ peer's", "reached"], "llllrrl",
                          figures(shapes))
