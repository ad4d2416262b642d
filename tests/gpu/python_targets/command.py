# SPDX-License-Identifier: Apache-2.0
"""Measures Python targets on a machine with a GPU, in one call.

usage: tests/gpu/door --stage [DIR] [--wheel WHEEL]    here: what the other machine needs, into DIR (default stage)
       python3 tests/gpu/door [--from DIR] [--out OUT] [--minutes M] [--steps A,B]    there: with torch and triton
       tests/gpu/door --store OUT                      here: keep the results in bench/results/

--stage builds the wheel with the GPU's code, unless WHEEL is one; DIR takes at most 64 MiB. The other machine needs this
tree without build/, DIR, and a python3 with torch, triton and NumPy; no git and no compiler.

  rate     judged cases a second of an honest Triton kernel over five minutes, the shares of first calls and of
           shrinking: bench/store triton-rate. Alone on its GPU
  planted  the 12 planted defects of a Triton kernel, cold: bench/store planted-triton; 120 s each where there is one GPU
  wheel    tests/fuzz/python/wheel_test.py on the wheel, in a fresh environment
  heap     tests/fuzz/python/device_test.py: the device heap under PyTorch
  sight    roundings of PyTorch functions at production size: bench/store production-sight

Everything is over after M minutes (default 9): a step that is not is cut and says so. OUT (default door-out) has the
output of each step while it runs, its result as soon as it is there, and summary.json, written anew after each.

Exit status: 0 all steps passed, 1 one failed or was cut, 2 usage, 3 no stage, 4 no GPU.
"""

import argparse
import importlib.metadata
import platform
import sys
import time
from pathlib import Path
from typing import Any

from python_targets import staging, steps
from python_targets.table import table

ROOT = Path(__file__).resolve().parents[3]
STEPS = ("rate", "planted", "wheel", "heap", "sight")
RESULTS = ("triton-rate.json", "planted-triton.json", "production-sight.json")
SUMMARY = "python-targets-gpu.json"


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS, prog="tests/gpu/door")
    hidden = {"help": argparse.SUPPRESS}
    parser.add_argument("--stage", type=Path, nargs="?", const=ROOT / "stage", **hidden)
    parser.add_argument("--wheel", type=Path, **hidden)
    parser.add_argument("--store", type=Path, **hidden)
    parser.add_argument("--from", dest="source", type=Path, default=ROOT / "stage", **hidden)
    parser.add_argument("--out", type=Path, default=Path("door-out"), **hidden)
    parser.add_argument("--minutes", type=float, default=9, **hidden)
    parser.add_argument("--steps", default=",".join(STEPS), **hidden)
    given = parser.parse_args(words)
    given.steps = given.steps.split(",")
    if unknown := [name for name in given.steps if name not in STEPS]:
        parser.error(f"--steps {unknown[0]}: there are {', '.join(STEPS)}")
    if not given.minutes > 0:
        parser.error(f"--minutes {given.minutes:g}: it is above 0")
    if given.wheel and not given.stage:
        parser.error("--wheel goes with --stage")
    return given


def versions() -> dict[str, str]:
    """Those of the interpreter and of the packages that the targets need."""
    found = {"python": platform.python_version()}
    for name in ("torch", "triton", "numpy"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def store(out: Path) -> int:
    """Keeps the results of a run in bench/results/."""
    import json

    from store import stored
    kept = ROOT / "bench/results"
    names = [(name, name) for name in RESULTS] + [("summary.json", SUMMARY)]
    there = [(name, to) for name, to in names if (out / name).is_file()]
    for name, to in there:
        stored.put(kept / to, stored.without_folders(json.loads((out / name).read_text(encoding="utf-8"))))
        print(f"bench/results/{to}")
    return 0 if there else 2


def measure(given: argparse.Namespace, begun: float) -> int:
    """Runs the steps and prints the table."""
    found = steps.gpus()
    if not found:
        print("door: nvidia-smi names no GPU", file=sys.stderr)
        return 4
    stage, out = given.source.resolve(), given.out.resolve()
    manifest = staging.unpack(stage, ROOT)
    out.mkdir(parents=True, exist_ok=True)
    keys = dict(line.split() for line in (stage / staging.KEYS).read_text(encoding="utf-8").splitlines())
    about: dict[str, Any] = {"command": "python3 tests/gpu/door", "trees": keys, "wheel": manifest["wheel"],
                             "versions": versions()}
    every = steps.steps_of(ROOT, stage, out, manifest, "5m" if len(found) > 1 else "120s")
    summary = steps.run_all(every, steps.lanes(given.steps, len(found)), out, begun + 60 * given.minutes, found, about)
    steps.keep_campaigns(ROOT, out)
    print(table(summary), flush=True)
    return int(any(record["outcome"] != "passed" for record in summary["steps"].values()))


def main(words: list[str]) -> int:
    begun = time.monotonic()
    given = parse(words)
    try:
        if given.stage:
            from store import trees

            rooms = (*trees.PLUMB, "python")
            for line in staging.make_stage(given.stage, lambda: trees.committed_keys(ROOT, rooms), given.wheel, ROOT):
                print(line)
            return 0
        return store(given.store) if given.store else measure(given, begun)
    except staging.StageError as why:
        print(f"door: {why}", file=sys.stderr)
        return 3
