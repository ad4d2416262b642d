# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store search WITH WITHOUT [--what TEXT] [--cases C] [--seeds K] [--store NAME]

Compares the search of two builds of plumb, for instance one without a part of it: K campaigns (default 10) of C cases
(6000) on `host` with each, seeds 101, 102, …, one job. For every seed: the cells that each showed, and in how many
pairs of class and output each came nearer to the bound by more than 0.1 %. Prints one line a seed and, for each of
the two numbers, the chance that a fair coin gives seeds as one-sided as these (sign test, two-sided; equal seeds are
left out). A difference counts if the chance is below 0.025: two tests at 0.05 together. --store NAME keeps it as
bench/results/NAME.json, with the date, the machine and the keys of the present tree, which WITH is built from.

Exit status: 0 compared; 2 usage; 3 plumb gave no result.
"""

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

from report.command_line import refusing

from store import stored, trees
from store.plumb import ask, machine


def campaign(plumb: Path, cases: int, seed: int) -> tuple[int, dict[str, float]]:
    """(cells, the largest tightness by class and output) of one campaign."""
    with tempfile.TemporaryDirectory() as out:
        _, result = ask(plumb, "fuzz", "--target", "host", "--budget", f"{cases}cases", "--seed", str(seed), "--jobs", "1",
                        "--out", f"{out}/c")
    nearest = {" ".join([each[key] for key in ("class", "aim", "dtype", "grads")] + [output]): found["tightness"]
               for each in result["targets"][0]["classes"] for output, found in each["outputs"].items()
               if "tightness" in found}
    return result["coverage"]["host"]["cells"], nearest


def sign_test(wins: int, losses: int) -> float:
    """The chance of so one-sided a result, either way, if both sides were alike."""
    most, count = max(wins, losses), wins + losses
    return min(1.0, 2 * sum(math.comb(count, k) for k in range(most, count + 1)) / 2**count)


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Runs the campaigns."""
    seeds = []
    for seed in range(101, 101 + options.seeds):
        (cells, near), (cells_without, near_without) = (campaign(plumb, options.cases, seed)
                                                        for plumb in (options.plumb, options.without))
        pairs = [(near.get(key, 0), near_without.get(key, 0)) for key in near.keys() | near_without.keys()]
        seeds.append({"seed": seed, "cells": cells, "cells_without": cells_without,
                      "nearer": sum(a > 1.001 * b for a, b in pairs),
                      "nearer_without": sum(b > 1.001 * a for a, b in pairs), "pairs": len(pairs)})
        print(seeds[-1], flush=True)
    chances = {name: sign_test(sum(each[name] > each[f"{name}_without"] for each in seeds),
                               sum(each[name] < each[f"{name}_without"] for each in seeds))
               for name in ("cells", "nearer")}
    print(chances)
    return {"what": options.what, "cases": options.cases, "chance": chances, "seeds": seeds}


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store search")
    parser.add_argument("plumb", type=Path)
    parser.add_argument("without", type=Path)
    parser.add_argument("--what", default="", help="the difference, in words")
    parser.add_argument("--cases", type=int, default=6000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--store")
    options = parser.parse_args(words)
    about = trees.committed_keys(trees.ROOT)
    with refusing("plumb gave no result", 3):
        result, of = compare(options), machine(options.plumb)
    if options.store:
        command = f"python3 bench/store search WITH WITHOUT --cases {options.cases} --seeds {options.seeds}"
        stored.write(trees.ROOT / f"bench/results/{options.store}.json", command, about, of, result=result)
    return 0
