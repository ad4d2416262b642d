# SPDX-License-Identifier: Apache-2.0
"""Makes the table of what a step holds beyond inputs and outputs, beside an earlier build (`bench/store memory`)."""

from . import markdown

ENOUGH_ROWS = 4096
# At most of the earlier build's, where all logits are kept: from ENOUGH_ROWS rows on, and below.
GOALS = {"consumed": (0.55, 0.8), "surviving": (0.75, 0.8)}
HEADS = {"recomputed": "none kept", "consumed": "consumed", "surviving": "surviving", "in_forward": "gradients in forward"}


def goal_of(shape: str, form: str) -> float:
    return GOALS[form][int(shape.split("x")[0]) < ENOUGH_ROWS]


def rows(result: dict) -> list[list[str]]:
    """Returns a row a shape: MiB and ratio to the earlier build of every form, and whether all goals are reached."""
    earlier = {each["shape"]: each["MiB"] for each in result["earlier"]["measured"]}
    found = []
    for each in result["measured"]:
        shape, now = each["shape"], each["MiB"]
        before = earlier.get(shape)
        row, reached = [shape], "yes"
        for form in HEADS:
            ratio = now[form] / before[form] if before else None
            words = "–" if ratio is None else f"{ratio:.3f}"
            if form in GOALS:
                most = goal_of(shape, form)
                words += f"; {most:.2f}"
                if ratio is None or ratio > most:
                    reached = "no"
            row += [f"{now[form]:.0f}", words]
        found.append([*row, reached])
    return found


def table(result: dict) -> str:
    heads = [cell for form, words in HEADS.items()
             for cell in (f"{words}, MiB", "÷ earlier" + ("; goal, at most" if form in GOALS else ""))]
    return markdown.table(["step", *heads, "reached"], "l" + "r" * len(heads) + "l", rows(result))
