# SPDX-License-Identifier: Apache-2.0
"""Prints the table of planted defects, as Markdown, of a stored `plumb selftest --seeds N`.

It has the regime and the check that found each most often (+2: in two other regimes too), the cases until then and the
values that shrinking left, over the seeds. Medians and percentiles are nearest ranks, as the selftest makes them.
"""

import argparse
from pathlib import Path

from . import markdown
from .command_line import load, refusing


def name_of(mutant: dict) -> str:
    return mutant["target"].split(":", 1)[1]


def most_often(counts: dict[str, int]) -> str:
    """Returns the first of the most frequent, by name where they are equally frequent."""
    return min(counts, key=lambda name: (-counts[name], name))


def table(mutants: list[dict]) -> str:
    rows = []
    for mutant in mutants:
        regimes = mutant["regimes"]
        others = f" +{len(regimes) - 1}" if len(regimes) > 1 else ""
        rows.append([f"`{name_of(mutant)}`", most_often(regimes) + others, most_often(mutant["signatures"]),
                     *(f"{mutant[name]:.10g}" for name in ("cases_median", "cases_p90", "values_median"))])
    return markdown.table(["planted defect", "found by", "as", "cases, median", "90 %", "values"], "lllrrr", rows)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", type=Path, metavar="RESULT.json")


def run(arguments: argparse.Namespace) -> int:
    with refusing(f"{arguments.result}: no stored selftest"):
        print(table(load(arguments.result)["result"]["statistics"]["mutants"]))
    return 0
