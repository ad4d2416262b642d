# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store production-sight --python PYTHON [--shape N,V,H] [--as-built KEYS] [--out FILE]

Judges one case of ordinary values of N x H hidden and V x H weights [8192,151936,4096], in bf16, on a GPU, of each of

  cuda                the operator
  right               tests/fuzz/python/targets/production_torch.py: products in fp32
  bf16_logits         the same with logits rounded to bf16
  bf16_accumulator    the same with grad_hidden added up in bf16

by `plumb fuzz --production --recipe`, and stores bench/results/production-sight.json: verdict, seconds, and what each
finding says. PYTHON has torch.

  --as-built KEYS  takes the programs as they are built; KEYS is a file of what `python3 bench/store trees` printed
  --out FILE   stores the result here [bench/results/production-sight.json]

Exit status: 0 the first two are clean and the others named by what they round; 1 one is not (stored too); 2 usage or
another tree; 3 what plumb says is no result; 4 the target does not load.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from report.command_line import Refused, refusing

from store import python_targets, stored, trees
from store.python_targets import TARGETS
from store.record import COMPLETE, said_by

ROOT = trees.ROOT
PLUMB = ROOT / "build/release/fuzz/plumb"
# What a finding of each says; empty: it has none.
EXPECTED = {"cuda": "", "right": "", "bf16_logits": "logits rounded to bf16",
            "bf16_accumulator": "grad_hidden accumulated in bf16 every 256 columns"}


def recipe_of(shape: list[int]) -> str:
    """One case of ordinary values: logits of standard deviation 2, random labels and upstream gradients."""
    n, v, h = shape
    return (f"v1 regime=free seed=5eed dtype=bf16 n={n} v={v} h={h} values=gaussian exp=1 labels=random label_dtype=int64 "
            "grads=random entropy_grads=random reduction=none temperature=1")


def judged(name: str, recipe: str, python: str) -> dict[str, Any]:
    """The record of one target. Refused, with plumb's status, where it has none."""
    target = name if name == "cuda" else f"python:production_torch:{name}"
    words = ["fuzz", "--production", "--target", target, "--recipe", recipe, "--case-timeout", "300s"]
    words += [] if name == "cuda" else ["--python", python]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        status, said = said_by(PLUMB, [*words, "--out", f"{folder}/hunt"], TARGETS)
        wall = time.monotonic() - begun
    if status not in COMPLETE:
        raise Refused(f"{name}: status {status}, nothing stored", status)
    with refusing(f"{name}: nothing stored", 3):
        found = stored.last_object(said)
        result, = found["targets"]
        says = ["; ".join(filter(None, (each["finding"]["what"], each["finding"].get("shortcut"))))
                for each in found["sightings"] + found.get("parts", [])]
        record = {"target": name, "verdict": found["verdict"], "judged": result["pass"] + result["suspect"] + result["fail"],
                  "seconds": round(wall, 1), "time": found["time"], "says": says}
    print(json.dumps(record), flush=True)
    return record


def held(records: list[dict[str, Any]]) -> bool:
    """True if each is judged as EXPECTED has it."""
    def good(record: dict[str, Any]) -> bool:
        shortcut = EXPECTED[record["target"]]
        named = any(shortcut in text for text in record["says"])
        return record["judged"] > 0 and (named if shortcut else record["verdict"] == "clean")
    return all(map(good, records))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store production-sight")
    python_targets.add_options(parser)
    parser.add_argument("--shape", default="8192,151936,4096")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/production-sight.json")
    given = parser.parse_args(words)
    with refusing(f"--shape {given.shape}: N,V,H"):
        shape = [int(extent) for extent in given.shape.split(",")]
        if len(shape) != 3 or min(shape) < 1:
            raise ValueError("three extents, each at least 1")
    _, about, machine = python_targets.start(given)
    records: list[dict[str, Any]] = []
    command = f"python3 bench/store production-sight --python PYTHON --shape {given.shape}"
    for name in EXPECTED:
        records.append(judged(name, recipe_of(shape), given.python))
        stored.write(given.out, command, about, machine, shape=shape, targets=records)
    return int(not held(records))
