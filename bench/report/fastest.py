# SPDX-License-Identifier: Apache-2.0
"""Makes tables of a result of `bench/peers` in which the newest build stands beside the fastest peers."""

from . import markdown
from .median_interval import median_interval
from .peer_tables import figure, measured
from .stored import spoken

SAVED, IN_FORWARD = "plumbline, logits saved", "plumbline, gradients in forward"
# What a step was asked to take at most of the fastest peer's: in rows of one kind; alone after rest (None: nothing); and
# whether ours may compute its gradients in forward, as the peers' mean does.
LARGE = (0.96, 0.93, False)
ASKED = {"8192x4096x131072": LARGE, "8192x4096x151936": LARGE, "8192x2304x256000": LARGE,
         "8192x4096x151936_half_ignored": LARGE, "8192x2048x131072": (0.99, None, True),
         "8192x1024x151936": (0.99, None, True), "4096x7168x129280": (0.99, None, False),
         "32768x4096x131072": (0.99, None, False), "128x4096x151936": (0.92, 0.93, False),
         "8192x4096x128256": (1.00, None, True), "8192x2048x128256": (1.00, None, True),
         "8192x3584x152064": (1.00, None, True)}
COLUMNS = {"step_ms": ("step in turns, ms", ".2f"), "row_step_ms": ("in rows of one kind", ".2f"), "step_joules": ("J", ".2f"),
           "burst_step_ms": ("after rest", ".2f"), "burst_forward_ms": ("forward after rest", ".2f"), "step_MiB": ("MiB", ".0f")}


def ratio(ours: dict, peer: dict, what: str) -> tuple[float, float | None, float | None]:
    """Returns our time over a peer's (median, low, high) of a step, row_step or burst_step: over the rounds, or without an
    interval where they were not kept."""
    if "by_round" in ours and "by_round" in peer:
        return median_interval([a / b for a, b in zip(ours["by_round"][what], peer["by_round"][what])])
    return ours[f"{what}_ms"] / peer[f"{what}_ms"], None, None


def times(shapes: dict[str, list[dict]]) -> str:
    """Returns the times and joules of a step of everybody at every shape."""
    rows = [[spoken(shape), result["name"], result["contract"],
             *(figure(result.get(key), form) for key, (_, form) in COLUMNS.items())]
            for shape, results in shapes.items() for result in sorted(measured(results), key=lambda each: each["step_ms"])]
    return markdown.table(["step", "", "contract", *(words for words, _ in COLUMNS.values())], "lll" + "r" * len(COLUMNS), rows)


def figures(shapes: dict[str, list[dict]]) -> list[list[str]]:
    """Returns rows of (step, regime, ours, the fastest peer, asked, measured, reached): the upper end of the interval counts."""
    rows = []
    for shape, results in shapes.items():
        peers = [each for each in measured(results) if not each["name"].startswith("plumbline")]
        asked = ASKED.get(shape, (None, None, True))
        ours = [each for each in measured(results) if each["name"] == SAVED or (asked[2] and each["name"] == IN_FORWARD)]
        for what, words, most in (("row_step", "in rows", asked[0]), ("burst_step", "after rest", asked[1])):
            if what == "row_step" and not all("row_step_ms" in each for each in (*ours, *peers)):
                what, words = "step", "in turns"
            if not (ours and peers) or any(f"{what}_ms" not in each for each in (*ours, *peers)):
                continue
            mine, theirs = (min(them, key=lambda each: each[f"{what}_ms"]) for them in (ours, peers))
            middle, low, high = ratio(mine, theirs, what)
            said = f"{middle:.3f}" + ("" if low is None else f" ({low:.3f} to {high:.3f})")
            reached = "" if most is None else "yes" if (high or middle) <= most else "no"
            rows.append([spoken(shape), words, mine["name"], theirs["name"], figure(most, ".2f"), said, reached])
    return rows


def figures_table(shapes: dict[str, list[dict]]) -> str:
    return markdown.table(["step", "", "ours", "fastest peer measured", "asked, at most", "ours ÷ peer's", "reached"], "llllrrl",
                          figures(shapes))


def absent(shapes: dict[str, list[dict]]) -> str:
    """Returns a line for each peer that was not measured at a shape."""
    return "\n".join(f"* {result['name']} at {spoken(shape)}: not measured: {result['reason']}"
                     for shape, results in shapes.items() for result in results if "reason" in result)
