# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store compare --python PYTHON [--cases N] [--problems K] [--palette P] [--at-once J] [--only NAME]
                                          [--shrink S] [--minutes M] [--as-built KEYS] [--keep DIR] [--out FILE]

`plumb compare` over the operator `cuda` and every public kernel that is a target in Python (the list of `adapters`), on a
GPU: N cases each [300] in P shapes [12], and errors on K problems [24]. Two or three targets share a process of plumb, J
processes run side by side [4], spread over the GPUs, so times compare nothing and are left out. It stores
bench/results/comparison.json: what plumb says of each, with the versions.

  --shrink S       shrinks a finding for at most S seconds [30]
  --only NAME      this kernel alone; given more than once, these. They are stored where --out says so, else printed
  --minutes M      begins no comparison later than this
  --as-built KEYS  takes the programs as they are built; KEYS is a file of what `python3 bench/store trees` printed

Interrupt it and call it again to go on: what is through lies in DIR [build/comparison], and is stored with the names of the
kernels that are `waiting`. On another machine a comparison of the same files goes on from what is stored.

Exit status: 0 every kernel was compared; 1 one could not be loaded (stored too, with the reason); 2 usage or another tree; 3
what plumb says is no result; 4 PYTHON lacks torch or triton; 5 not every kernel is through: call it again.
"""

import argparse
import json
import tempfile
import threading
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


def file_of(given: argparse.Namespace, names: list[str]) -> Path:
    return given.keep / f"{slug(' '.join(names))}.json"


def command_of(given: argparse.Namespace) -> str:
    words = f"python3 bench/store compare --python PYTHON --cases {given.cases} --problems {given.problems}"
    return words + f" --palette {given.palette} --shrink {given.shrink}" + "".join(f' --only "{name}"' for name in given.only)


def go_on_from(path: Path, given: argparse.Namespace, groups: list[list[str]], about: dict[str, str], device: str) -> None:
    """Puts what is stored, by the same command, of the same files and on such a device, where compared() looks for it."""
    if not path.exists():
        return
    with refusing(f"{path}"):
        before = load(path)
        if (before["command"], before["trees"], before["machine"]["device"]) != (command_of(given), about, device):
            return
        by_name = {each["kernel"]: each for each in before["targets"]}
    for names in groups:
        if not file_of(given, names).exists() and all(name in by_name for name in names):
            stored.put(file_of(given, names), {"yardstick": before["yardstick"], "targets": [by_name[name] for name in names]})


def compared(program: Path, names: list[str], given: argparse.Namespace, gpu: str) -> dict[str, Any]:
    """What `plumb compare` says of these kernels; read from its file where it is through."""
    kept = file_of(given, names)
    if kept.exists():
        return load(kept)
    if time.monotonic() > given.last_begin:
        return {"waiting": names}
    with tempfile.TemporaryDirectory() as scratch:
        environment = environment_of(gpu, Path(scratch))
        words = [str(program), "compare", *map(target_of, names), "--cases", str(given.cases), "--problems", str(given.problems),
                 "--palette", str(given.palette), "--shrink-time", f"{given.shrink}s", "--jobs", "1", "--json",
                 "--out", str(kept.with_suffix("")), "--python", given.python]
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


def groups_of(chosen: list[str]) -> list[list[str]]:
    """Two or three kernels each, far apart in the list: neighbours in it are of one kind and take equally long."""
    number = len(chosen) // 2
    return [chosen[at::number] for at in range(number)]


def in_order(of_groups: list[list[Any]]) -> list[Any]:
    """What belongs to the kernels of groups_of, in the order of its list."""
    return [each[at] for at in range(3) for each in of_groups if at < len(each)]


def targets_of(groups: list[list[str]], through: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return in_order([through[at]["targets"] if at in through else [] for at in range(len(groups))])


def waiting_of(groups: list[list[str]], through: dict[int, dict[str, Any]]) -> list[str]:
    return in_order([[] if at in through else names for at, names in enumerate(groups)])


def keep(out: Path, given: argparse.Namespace, groups: list[list[str]], through: dict[int, dict[str, Any]],
         about: dict[str, str], machine: dict[str, str]) -> None:
    """Stores what is through, and the names of what is not."""
    stored.write(out, command_of(given), about, machine, yardstick=next(iter(through.values()))["yardstick"],
                 waiting=waiting_of(groups, through), targets=stored.without_folders(targets_of(groups, through)))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store compare")
    python_targets.add_options(parser)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--palette", type=int, default=12)
    parser.add_argument("--shrink", type=int, default=30)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--keep", type=Path, default=ROOT / "build/comparison")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(words)
    chosen = chosen_kernels(parser, given.only)
    if len(chosen) < 2:
        parser.error(f"--only {chosen[0]}: two kernels or more are compared")
    if min(given.cases, given.problems, given.palette, given.shrink, given.at_once) < 1:
        parser.error("--cases, --problems, --palette, --shrink and --at-once are at least 1")
    program, about, machine = python_targets.start(given)
    devices = gpus()
    given.keep, given.last_begin = given.keep.resolve(), time.monotonic() + 60 * given.minutes
    stored.begin(given.keep, about | {key: str(getattr(given, key)) for key in ("cases", "problems", "palette", "shrink")})
    groups = groups_of(chosen)
    out = given.out or (None if given.only else ROOT / "bench/results/comparison.json")
    if out:
        go_on_from(out, given, groups, about, machine["device"])
    through: dict[int, dict[str, Any]] = {}
    lock = threading.Lock()

    def compare(at: int) -> None:
        run = compared(program, groups[at], given, devices[at % len(devices)])
        with lock:
            if "waiting" not in run:
                through[at] = run
            if out and through:  # after each: the machine may be gone before the last
                keep(out, given, groups, through, about, machine)

    with ThreadPoolExecutor(given.at_once) as pool:
        list(pool.map(compare, range(len(groups))))  # list: raises what one raised
    if not out and len(through) == len(groups):
        print(json.dumps(targets_of(groups, through), indent=1))
    if len(through) < len(groups):
        print(f"not through are {', '.join(waiting_of(groups, through))}; call it again")
        return INTERRUPTED
    return int(any(target["verdict"] == "unavailable" for target in targets_of(groups, through)))
