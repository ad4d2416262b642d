# SPDX-License-Identifier: Apache-2.0
"""Prints the tables of the largest error over bound, as Markdown, of stored campaigns.

They have the largest error over bound by class of cases and dtype, and the share of elements whose bound says nothing,
for each target in stored results of campaigns (`python3 bench/store record`) or summary.json files of campaign folders.
Several results of one target are taken together. A dash: nothing was judged.
"""

import argparse
from collections import defaultdict
from pathlib import Path

from . import markdown
from .command_line import load, refusing

OUTPUTS = ["logprob", "entropy", "lse", "loss", "grad_hidden", "grad_weight"]
COUNTS = ["pass", "fail", "vacuous", "unspecified"]
# 16-bit gradients are within half an ulp of anything near the true value; fp32 ones are judged for themselves.
COLUMNS = OUTPUTS + ["grad_hidden, fp32", "grad_weight, fp32"]
# The classes whose bounds are meant to be reached, and what a page calls them.
REACHED = [("swallow", "swallowed terms of a dot product"), ("swallow-sum", "swallowed terms of Σe"),
           ("large-vocabulary", "V ≥ 131072"), ("exact", "exact dot products"), ("confident", "confident label"),
           ("swallow-gradients", "swallowed terms of a gradient")]
SMALLEST_COLUMNS = ["logprob", "entropy", "lse", "grad_hidden, fp32", "grad_weight, fp32"]
Row = tuple[str, str]  # (class of cases, dtype of the inputs)


def campaigns(data: dict) -> list[dict]:
    """Returns {"target", "cases", "arbitrated", "entries", "tightness", "counts"} of each target: all that a table
    needs. Raises ValueError, KeyError, TypeError or AttributeError where `data` holds no campaign."""
    found = []
    for tally in data.get("result", data).get("targets", []):
        classes = tally["classes"]
        found.append({
            "target": tally["target"], "cases": int(tally["cases"]), "arbitrated": int(tally["arbitrated"]),
            "entries": [((entry["class"], entry["dtype"]), int(entry["cases"])) for entry in classes],
            "tightness": [((entry["class"], entry["dtype"]), column(output, entry["grads"]),
                           float(counts["tightness"]))
                          for entry in classes for output, counts in entry["outputs"].items()
                          if "tightness" in counts],
            "counts": [((aim, output, key), int(counts[key])) for aim, outputs in tally["aims"].items()
                       for output, counts in outputs.items() for key in COUNTS]})
    if not any(tally["entries"] for tally in found):
        raise ValueError("no campaign with classes of cases")
    return found


def column(output: str, grads: str) -> str:
    return output + ", fp32" if output.startswith("grad_") and grads == "fp32" else output


def largest(tallies: list[dict]) -> dict[tuple[Row, str], float]:
    """Returns the largest error over bound by row and column."""
    found: dict[tuple[Row, str], float] = {}
    for tally in tallies:
        for row, name, value in tally["tightness"]:
            found[row, name] = max(found.get((row, name), value), value)
    return found


def shares(tallies: list[dict]) -> dict[tuple[str, str], dict[str, int]]:
    """Returns the numbers of elements by (aim, output): {"pass", "fail", "vacuous", "unspecified"}."""
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTS, 0))
    for tally in tallies:
        for (aim, output, key), count in tally["counts"]:
            found[aim, output][key] += count
    return dict(found)


def percent(counts: dict[str, int], key: str) -> float:
    return 100 * counts[key] / max(1, sum(counts.values()))


def cell(value: float | None) -> str:
    if value is None:
        return "–"
    number = float(value)  # "inf" and "nan" are strings in JSON
    return f"{number:.3f}" if number < 0.9995 or number > 1 else f"{number:.5f}"


def class_table(tallies: list[dict]) -> str:
    """Returns the largest error over bound by class and dtype."""
    cases: dict[Row, int] = defaultdict(int)
    for tally in tallies:
        for row, count in tally["entries"]:
            cases[row] += count
    values = largest(tallies)
    return markdown.table(["class", "inputs", "cases", *COLUMNS], "llr" + "r" * len(COLUMNS), (
        [*row, str(cases[row]), *(cell(values.get((row, c))) for c in COLUMNS)] for row in sorted(cases)))


def vacuous_table(tallies: list[dict]) -> str:
    """Returns the shares of elements whose bound says nothing, by aim of the regime."""
    counts = shares(tallies)
    rows = []
    for aim in sorted({aim for aim, _ in counts}):
        found = [counts.get((aim, output)) for output in OUTPUTS]
        rows.append([aim] + [f"{percent(each, 'vacuous'):.2f} / {percent(each, 'unspecified'):.2f}" if each else "–"
                             for each in found])
    return markdown.table(["vacuous / unspecified, %", *OUTPUTS], "l" + "r" * len(OUTPUTS), rows)


def table(target: str, tallies: list[dict]) -> str:
    total, arbitrated = (sum(tally[key] for tally in tallies) for key in ("cases", "arbitrated"))
    return "\n".join([f"**{target}**, {total} cases, {arbitrated} elements put to the arbiter", "", class_table(tallies), "",
                      vacuous_table(tallies), ""])


def smallest_table(by_target: dict[str, list[dict]]) -> str:
    """Returns, for each class of REACHED and target, the smallest over dtypes of the largest error over bound."""
    rows = []
    for name, words in REACHED:
        for target, tallies in by_target.items():
            values = largest(tallies)
            # What that class makes large is a gradient; its forward outputs are ordinary.
            wanted = [c for c in SMALLEST_COLUMNS if name != "swallow-gradients" or c.startswith("grad_")]
            least = {c: [value for (row, at), value in values.items() if row[0] == name and at == c] for c in wanted}
            rows.append([words, f"`{target}`"] + [cell(min(least[c])) if least.get(c) else "" for c in SMALLEST_COLUMNS])
    return markdown.table(["class of recipe", "arithmetic", *SMALLEST_COLUMNS], "ll" + "r" * len(SMALLEST_COLUMNS), rows)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT.json")


def run(arguments: argparse.Namespace) -> int:
    by_target = defaultdict(list)
    for path in arguments.results:
        with refusing(f"{path}: no result of a campaign"):
            for tally in campaigns(load(path)):
                by_target[tally["target"]].append(tally)
    for target, tallies in by_target.items():
        print(table(target, tallies))
    return 0
