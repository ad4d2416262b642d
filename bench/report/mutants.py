# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/report mutants RESULT.json

Prints, as Markdown, each planted defect of a stored `plumb selftest --seeds N`: the regime and the check that found
it most often (+2: in two other regimes too), the cases until then and the values that shrinking left, over the
seeds. Medians and percentiles are nearest ranks, as the selftest makes them.

Exit status: 0; 2 usage, or a file that holds no selftest.
"""

import json
import sys


def most_often(counts: dict[str, int]) -> str:
    """Returns the first of the most frequent, by name where they are equally frequent."""
    return min(counts, key=lambda name: (-counts[name], name))


def table(mutants: list[dict]) -> str:
    lines = ["| planted defect | found by | as | cases, median | 90 % | values |", "|---|---|---|---:|---:|---:|"]
    for mutant in mutants:
        regimes = mutant["regimes"]
        others = f" +{len(regimes) - 1}" if len(regimes) > 1 else ""
        cells = [f"`{mutant['target'].split(':', 1)[1]}`", most_often(regimes) + others, most_often(mutant["signatures"]),
                 *(f"{mutant[name]:.10g}" for name in ("cases_median", "cases_p90", "values_median"))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(words: list[str]) -> int:
    if len(words) != 1 or words[0].startswith("-"):
        helped = words in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if helped else sys.stderr)
        return 0 if helped else 2
    try:
        with open(words[0], encoding="utf-8") as file:
            print(table(json.load(file)["result"]["statistics"]["mutants"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"bench/report mutants: {words[0]}: no stored selftest: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0

