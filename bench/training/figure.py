# SPDX-License-Identifier: Apache-2.0
"""The figure of a stored training: losses, and each compared run's distance from the mean of the five, in an SVG by
Matplotlib. Text and lines take the colour of the page that the SVG is part of; in a page that shows it as a picture, black,
or light where the reader's system is dark."""

from __future__ import annotations

import io
import re
import statistics
from typing import Any

from training.settings import COMPARED, ORDERS

# Okabe and Ito's colours, told apart by most eyes.
COLOURS = {"plumbline": "#0072B2", "fp32-logits": "#009E73", "bf16-logits": "#D55E00", "bf16-gradient": "#CC79A7"}
BAND = "#999999"
_INK = "#010203"  # stands for the page's own colour
_STYLE = "<style>@media (prefers-color-scheme: dark) { svg { color: #e6e6e6 } }</style>"
LICENCE = "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"


def _draw(axes: Any, result: dict[str, Any]) -> None:
    losses = {each["run"]: each["loss"] for each in result["runs"]}
    five = list(zip(*(losses[name] for name in ORDERS), strict=True))
    middle = list(map(statistics.fmean, five))
    steps = [result["every"] * at for at in range(len(middle))]
    axes[0].plot(steps, middle, color=_INK, linewidth=1)
    axes[0].set_ylabel("loss, mean of five")
    axes[1].fill_between(steps, [min(each) - here for each, here in zip(five, middle, strict=True)],
                         [max(each) - here for each, here in zip(five, middle, strict=True)], color=BAND, alpha=0.4,
                         linewidth=0, label="five orders of rows")
    for name in COMPARED:
        axes[1].plot(steps, [own - here for own, here in zip(losses[name], middle, strict=True)], color=COLOURS[name],
                     linewidth=0.8, label=name)
    axes[1].set_ylabel("loss less that mean")
    axes[1].set_xlabel("step")
    axes[1].legend(frameon=False, ncols=5, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def svg(result: dict[str, Any]) -> str:
    """The figure of a stored training. ImportError without Matplotlib; KeyError where the result lacks a run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    style = {"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "svg.hashsalt": "plumbline"}
    style |= dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK)
    with matplotlib.rc_context(style):
        figure, axes = pyplot.subplots(2, 1, figsize=(6.4, 4.6), sharex=True, layout="constrained")
        _draw(axes, result)
        for each in axes:
            for side in ("top", "right"):
                each.spines[side].set_visible(False)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        pyplot.close(figure)
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg"):].replace(_INK, "currentColor")
    # Its size is the page's matter.
    head, rest = re.match(r"<svg[^>]*>", drawn)[0], drawn[drawn.index(">") + 1:]
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    label = f'role="img" aria-label="Loss of {len(COMPARED)} runs beside the spread of five" '
    return LICENCE + head.replace("<svg ", f"<svg {label}", 1) + _STYLE + rest
