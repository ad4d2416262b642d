#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: bench/tightness RESULT.json…

Prints, as Markdown, the largest error over bound by class of cases and dtype, and the share of elements whose
bound says nothing, for each target in stored results of campaigns (bench/record) or summary.json files of
campaign folders. Several results of one target are taken together. A dash: nothing was judged.

Exit status: 0; 2 usage, or a file that holds no campaign.
"""

import json
import sys
from collections import defaultdict

OUTPUTS = ["logprob", "entropy", "lse", "loss", "grad_hidden", "grad_weight"]
COUNTS = ["pass", "fail", "vacuous", "unspecified"]
# 16-bit gradients are within half an ulp of anything near the true value; fp32 ones are judged for themselves.
COLUMNS = OUTPUTS + ["grad_hidden, fp32", "grad_weight, fp32"]


def campaigns(path):
    """{"target", "cases", "arbitrated", "entries", "tightness", "counts"} of each target: all that a table needs."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    data = data.get("result", data)
    found = []
    for tally in data.get("targets", []):
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


def column(output, grads):
    return output + ", fp32" if output.startswith("grad_") and grads == "fp32" else output


def cell(value):
    if value is None:
        return "–"
    number = float(value)  # "inf" and "nan" are strings in JSON
    return f"{number:.3f}" if number < 0.9995 or number > 1 else f"{number:.5f}"


def share(counts, key):
    return 100 * counts[key] / max(1, sum(counts.values()))


def line(cells):
    return "| " + " | ".join(cells) + " |"


def table(target, tallies):
    largest = {}
    cases = defaultdict(int)
    aims = defaultdict(int)
    for tally in tallies:
        for row, count in tally["entries"]:
            cases[row] += count
        for row, name, value in tally["tightness"]:
            largest[row, name] = max(largest.get((row, name), value), value)
        for key, count in tally["counts"]:
            aims[key] += count
    total = sum(tally["cases"] for tally in tallies)
    print(f"**{target}**, {total} cases, {sum(tally['arbitrated'] for tally in tallies)} elements put to the arbiter\n")
    print(line(["class", "inputs", "cases"] + COLUMNS))
    print("|---|---|" + "---:|" * (len(COLUMNS) + 1))
    for row in sorted(cases):
        print(line([*row, str(cases[row])] + [cell(largest.get((row, c))) for c in COLUMNS]))
    print()
    print(line(["vacuous / unspecified, %"] + OUTPUTS))
    print("|---|" + "---:|" * len(OUTPUTS))
    for aim in sorted({aim for aim, _, _ in aims}):
        cells = []
        for output in OUTPUTS:
            counts = {key: count for (a, o, key), count in aims.items() if (a, o) == (aim, output)}
            cells.append(f"{share(counts, 'vacuous'):.2f} / {share(counts, 'unspecified'):.2f}" if counts else "–")
        print(line([aim] + cells))
    print()


def main(paths):
    if not paths or paths[0] in ("-h", "--help"):
        print(__doc__.strip(), file=sys.stdout if paths else sys.stderr)
        return 0 if paths else 2
    by_target = defaultdict(list)
    for path in paths:
        try:
            for tally in campaigns(path):
                by_target[tally["target"]].append(tally)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"bench/tightness: {path}: no result of a campaign: {error!r}", file=sys.stderr)
            return 2
    for target, tallies in by_target.items():
        table(target, tallies)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
