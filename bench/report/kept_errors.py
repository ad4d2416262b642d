# SPDX-License-Identifier: Apache-2.0
"""Sets the gradients' errors where exponents are kept beside those where logits are kept in fp32 (`bench/peers --errors`)."""

from . import markdown
from .beside_fastest import SAVED
from .peer_tables import figure
from .stored import spoken

IN_FP32 = f"{SAVED} in fp32"
GRADIENTS = ("grad_hidden", "grad_weight")
# At most, of the RMS error with logits in fp32: for any upstream gradients, and for the entropy's alone on flat rows.
GOAL, GOAL_OF_ENTROPY_ALONE = 1.02, 1.15


def kinds(result: dict) -> list[tuple[str, float, dict]]:
    """Returns (which upstream gradients, the goal for the ratio, errors) of each kind that was measured of a peer."""
    alone = [(f"entropy's alone, σ = {each['sigma']:g}", GOAL_OF_ENTROPY_ALONE, each["errors"])
             for each in result["entropy_alone"]]
    return [("any", GOAL, result["errors"]), *alone]


def rows(shapes: dict[str, list[dict]]) -> list[list[str]]:
    """Returns a row for each shape and kind: both errors and their ratio for each gradient, the goal, and whether both
    are within it. A shape at which either was not measured has one row that says why."""
    found = []
    for shape, results in shapes.items():
        named = {each["name"]: each for each in results if "errors" in each}
        if not {SAVED, IN_FP32} <= set(named):
            why = "; ".join(f"{each['name']}: {each.get('reason', 'not measured')}" for each in results if "errors" not in each)
            found.append([spoken(shape), f"not measured: {why or 'one of them alone'}", *[""] * 6, "no"])
            continue
        for (words, most, codes), (_, _, wide) in zip(kinds(named[SAVED]), kinds(named[IN_FP32])):
            row, reached = [spoken(shape), words], "yes"
            for name in GRADIENTS:
                mine, theirs = codes[name]["rms"], wide[name]["rms"]
                ratio = mine / theirs if mine is not None and theirs else None
                if ratio is None or ratio > most:
                    reached = "no"
                row += [f"{figure(theirs, '.2e')}; {figure(mine, '.2e')}", figure(ratio, ".3f")]
            found.append([*row, f"{most:.2f}", reached])
    return found


def table(shapes: dict[str, list[dict]]) -> str:
    heads = [cell for name in GRADIENTS for cell in (f"{name}: fp32; exponents", "ratio")]
    return markdown.table(["step", "upstream gradients", *heads, "goal, at most", "reached"], "llrrrrrl", rows(shapes))


def section(result: dict) -> str:
    """Returns the section of a page."""
    found = rows(result["shapes"])
    reached = sum(row[-1] == "yes" for row in found)
    return f"""
### RMS error of gradients, exponents ÷ fp32

Measured on {result['date'][:10]} (`python3 bench/peers --errors`), in one build: both gradients where all logits are kept as
exponents in fp16 and where they are kept in fp32, RMS error over RMS value against float64. *Any*: of logprob and entropy,
random. *Entropy's alone*: on flat rows, hidden scaled down so that the logits of a row have a standard deviation of σ; that of
the other rows is 2. {reached} of {len(found)} reach the goal.

{table(result['shapes'])}
"""
