# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store compare --python PYTHON [--cases N] [--problems K] [--palette P] [--at-once J] [--only NAME]
                                          [--minutes M] [--as-built KEYS] [--keep DIR] [--out FILE]

`plumb compare` over the operator `cuda` and every public kernel that is a target in Python (the list of `adapters`), on a
GPU: N cases each [300] in P shapes [12], and errors on K problems [24]. Two or three targets share a process of plumb, J
processes run side by side [4], spread over the GPUs, so times compare nothing and are left out. It stores
bench/results/comparison.json: what plumb says of each, with the versions.

  --only NAME      this kernel alone; given more than once, these. They are stored where --out says so, else printed
  --minutes M      begins no comparison later than this
  --as-built KEYS  takes the programs as they are built; KEYS is a file of what `python3 bench/store trees` printed

Interrupt it and call it again to go on: what is through lies in DIR [build/comparison].

Exit status: 0 every kernel was compared; 1 one could not be loaded (stored too, with the reason); 2 usage or another tree; 3
what plumb says is no result; 4 PYTHON lacks torch or triton; 5 not every kernel is through: call it again.
"""

import argparse
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, refusing

from store import python_targets, stored, trees
from store.adapters import ADAPTERS, versions
from store.public_kernels import (
    OWN,
    chosen_kernels,
    environment_of,
    gpus,
    last_line,
    on_gpu,
    ran,
    slug,
)
from store.record import INTERRUPTED

ROOT = trees.ROOT
SECONDS = 1500.0  # for three targets: loading, what is inferred, cases, shrinking, problems
PASSED = (0, 1, 4, 6)  # of plumb compare, where it has come to its end


def target_of(name: str) -> str:
    return "cuda" if name == OWN else f"python:{on_gpu(ADAPTERS[name])}"


def compared(program: Path, names: list[str], given: argparse.Namespace, gpu: str) -> dict[str, Any]:
    """What `plumb compare` says of these kernels; read from its file where it is through."""
    kept = given.keep / f"{slug(' '.join(names))}.json"
    if kept.exists():
        return load(kept)
    if time.monotonic() > given.last_begin:
        return {"waiting": names}
    with tempfile.TemporaryDirectory() as scratch:
        environment = environment_of(gpu, Path(scratch))
        words = [str(program), "compare", *map(target_of, names), "--cases", str(given.cases), "--problems", str(given.problems),
                 "--palette", str(given.palette), "--jobs", "1", "--out", str(kept.with_suffix("")), "--json",
                 "--python", given.python]
        status, said, why = ran(words, environment, SECONDS)
    kept.with_suffix(".log").write_text(why, encoding="utf-8")
    if status not in (*PASSED, None, INTERRUPTED):
        raise Refused(f"{', '.join(names)}: plumb compare ended with {status}: {last_line(why)}", 3)
    if status not in PASSED:
        print(f"{', '.join(names)}: {last_line(why)}", flush=True)
        return {"waiting": names}
    with refusing(f"{', '.join(names)}: no result", 3):
        found = stored.last_object(said)
        for name, target in zip(names, found["targets"], strict=True):
            target["kernel"] = name
            if name != OWN:
                target["versions"] = versions(given.python, ADAPTERS[name].packages)
            target.get("accuracy", {}).pop("seconds", None)
            print(f"{name}: {target['verdict']} {target.get('error', '')}", flush=True)
    stored.put(kept, found)
    return found


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store compare")
    python_targets.add_options(parser)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--palette", type=int, default=12)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--keep", type=Path, default=ROOT / "build/comparison")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(words)
    chosen = chosen_kernels(parser, given.only)
    if len(chosen) < 2:
        parser.error(f"--only {chosen[0]}: two kernels or more are compared")
    if min(given.cases, given.problems, given.palette, given.at_once) < 1:
        parser.error("--cases, --problems, --palette and --at-once are at least 1")
    program, about, machine = python_targets.start(given)
    devices = gpus()
    given.keep, given.last_begin = given.keep.resolve(), time.monotonic() + 60 * given.minutes
    stored.begin(given.keep, about | {key: str(getattr(given, key)) for key in ("cases", "problems", "palette")})
    pairs = [chosen[at:at + 2] for at in range(0, len(chosen) - len(chosen) % 2, 2)]
    pairs[-1] += chosen[2 * len(pairs):]  # the last of an odd number
    with ThreadPoolExecutor(given.at_once) as pool:
        runs = list(pool.map(lambda at: compared(program, at[1], given, devices[at[0] % len(devices)]), enumerate(pairs)))
    if waiting := [name for run in runs for name in run.get("waiting", ())]:
        print(f"nothing stored: not through are {', '.join(waiting)}; call it again")
        return INTERRUPTED
    targets = [target for run in runs for target in run["targets"]]
    if given.only and not given.out:
        print(json.dumps(targets, indent=1))
    else:
        command = f"python3 bench/store compare --python PYTHON --cases {given.cases} --problems {given.problems}"
        command += f" --palette {given.palette}"
        command += "".join(f' --only "{name}"' for name in given.only)
        stored.write(given.out or ROOT / "bench/results/comparison.json", command, about, machine,
                     yardstick=runs[0]["yardstick"], targets=stored.without_folders(targets))
    return int(any(target["verdict"] == "unavailable" for target in targets))
