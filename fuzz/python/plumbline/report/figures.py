# SPDX-License-Identifier: Apache-2.0
"""The figures of a page, as SVG by Matplotlib. Text and lines take the page's colour, so that they are seen on a dark page."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Mapping

from .journal import FIRST, HONEST_FIRST, HONEST_LAST, HONEST_SUSPECT, LAST, Journal

# Okabe and Ito's colours, told apart by most eyes; each output has its own on every figure.
COLOURS = {"logprob": "#0072B2", "loss": "#56B4E9", "entropy": "#E69F00", "lse": "#CC79A7", "grad_hidden": "#009E73",
           "grad_weight": "#D55E00"}  # fmt: skip
_INK = "#010203"  # stands for the page's own colour


def _svg(draw: Callable[..., None], label: str, height: float) -> str:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    style = {"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "svg.hashsalt": "plumbline"}
    style |= dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK)
    with matplotlib.rc_context(style):
        figure, axes = pyplot.subplots(figsize=(6.4, height), layout="constrained")
        draw(axes)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        pyplot.close(figure)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    # Its size is the page's matter; what it shows is said to those who do not see it.
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _histogram(bins: Mapping[str, Counter[int]], first: int, last: int, mark: int, about: str, label: str) -> str:
    """Cases by powers of two, an output a line, with a dotted line at 2^mark."""

    def draw(axes) -> None:
        for output, counts in sorted(bins.items()):
            axes.stairs([counts.get(at, 0) for at in range(first, last + 1)], range(first, last + 2), color=COLOURS[output],
                        label=output)  # fmt: skip
        axes.axvline(mark, color=_INK, linestyle=":", linewidth=1)
        axes.set_xticks(range(first, last + 1, 4), [f"$2^{{{at}}}$" for at in range(first, last + 1, 4)])
        axes.set_xlabel(about)
        axes.set_ylabel("cases")
        axes.legend(frameon=False, ncols=2)

    return _svg(draw, label, 2.8)


def tightness(journal: Journal) -> str:
    """Cases by largest error over bound."""
    about = "largest error of a case ÷ its bound; right of the dotted line it is wrong"
    return _histogram(journal.tightness, FIRST, LAST, 0, about, "Histogram of cases by error over bound, for each output")


def honest(journal: Journal) -> str:
    """Cases with values like a model's by error in units of honest kernels'."""
    about = ("error of a case ÷ an honest kernel's on the same rows;\n"
             "right of the dotted line it is suspect, unless few rows carry it")  # fmt: skip
    label = "Histogram of cases by error in units of an honest kernel's, for each output"
    return _histogram(journal.honest, HONEST_FIRST, HONEST_LAST, HONEST_SUSPECT, about, label)


def discoveries(journal: Journal, elapsed: float) -> str:
    """Signatures seen so far, over time."""

    def draw(axes) -> None:
        times = [0.0, *sorted(seconds for seconds, _ in journal.sighted), elapsed]
        axes.step(times, [*range(len(times) - 1), len(times) - 2], where="post", color=COLOURS["logprob"])
        axes.set_xlabel("seconds")
        axes.set_ylabel("signatures seen")
        axes.set_ylim(bottom=0)
        axes.yaxis.get_major_locator().set_params(integer=True)

    return _svg(draw, "Number of signatures of findings seen over time", 2.0)
