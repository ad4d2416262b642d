# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store compare --python PYTHON [--cases N] [--problems K] [--palette P] [--at-once J] [--only NAME]
                                          [--shrink S] [--minutes M] [--as-built KEYS] [--keep DIR] [--out FILE]

`plumb compare` of every public kernel that is a target in Python (the list of `adapters`) with the operator `cuda`, on a
GPU: N cases each [300] in P shapes [12], and errors on K problems [24], the same for all. Every kernel has a process of its
own, of which J run side by side [4], spread over the GPUs, so times compare nothing and are left out. It stores
bench/results/comparison.json: what plumb says of each, with the versions.

  --shrink S       shrinks a finding for at most S seconds [30]
  --only NAME      the operator and this kernel alone; given more than once, these. They are stored where --out says so,
                   else printed
  --minutes M      begins no comparison later than this
  --as-built KEYS  takes the programs as they are built; KEYS is a file of what `python3 bench/store trees` printed

Interrupt it and call it again to go on: what is through lies in DIR [build/comparison], and is stored with the names of the
kernels that are `waiting`. On another machine a comparison of the same files goes on from what is stored.

Exit status: 0 every kernel was compared; 1 one could not be loaded (stored too, with the reason); 2 usage or another tree; 3
what plumb says is no result; 4 PYTHON lacks torch or triton; 5 not every kernel is through: call it again.
"""

import argparse
import json
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
SECONDS = 1500.0  # for a kernel and the operator: loading, what is inferred, cases, shrinking, problems
PASSED = (0, 1, 4, 6)  # of plumb compare, where it has come to its end


def target_of(name: str) -> str:
    return "cuda" if name == OWN else f"python:{on_gpu(ADAPTERS[name])}"


def file_of(given: argparse.Namespace, name: str) -> Path:
    return given.keep / f"{slug(name)}.json"


def command_of(given: argparse.Namespace) -> str:
    words = f"python3 bench/store compare --python PYTHON --cases {given.cases} --problems {given.problems}"
    return words + f" --palette {given.palette} --shrink {given.shrink}" + "".join(f' --only "{name}"' for name in given.only)


def go_on_from(path: Path, given: argparse.Namespace, about: dict[str, str], device: str) -> None:
    """Puts what is stored, by the same command, of the same files and on such a device, where compared() looks for it."""
    if not path.exists():
        return
    with refusing(f"{path}"):
        before = load(path)
        if (before["command"], before["trees"], before["machine"]["device"]) != (command_of(given), about, device):
            return
        own, *others = before["targets"]
        for each in others if own["kernel"] == OWN else ():
            if not file_of(given, each["kernel"]).exists():
                stored.put(file_of(given, each["kernel"]), {"yardstick": before["yardstick"], "targets": [own, each]})


def compared(program: Path, name: str, given: argparse.Namespace, gpu: str) -> dict[str, Any] | None:
    """What `plumb compare` says of the operator and this kernel; read from its file where it is through. None where it is
    not through."""
    kept = file_of(given, name)
    if kept.exists():
        return load(kept)
    if time.monotonic() > given.last_begin:
        return None
    # What a function was found to take, and what was compiled, is there for the next call.
    environment = environment_of(gpu, given.keep / "cache")
    words = [str(program), "compare", target_of(OWN), target_of(name), "--cases", str(given.cases), "--problems",
             str(given.problems), "--palette", str(given.palette), "--shrink-time", f"{given.shrink}s", "--jobs", "1", "--json",
             "--out", str(kept.with_suffix("")), "--python", given.python]
    status, said, why = ran(words, environment, SECONDS, log=kept.with_suffix(".log"))
    if status not in (*PASSED, None, INTERRUPTED):
        raise Refused(f"{name}: plumb compare ended with {status}: {last_line(why)}", 3)
    if status not in PASSED:
        print(f"{name}: {last_line(why)}", flush=True)
        return None
    with refusing(f"{name}: no result", 3):
        found = stored.last_object(said)
        own, other = found["targets"]
        own["kernel"], other["kernel"] = OWN, name
        other["versions"] = versions(given.python, ADAPTERS[name].packages)
        for target in own, other:
            target.get("accuracy", {}).pop("seconds", None)
        print(f"{name}: {other['verdict']} {other.get('error', '')}", flush=True)
    stored.put(kept, found)
    return found


def targets_of(through: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The operator, as the comparison has it that found most in it, and the kernels, in the order of the list."""
    in_order = [through[name]["targets"] for name in ADAPTERS if name in through]
    own = max((own for own, _ in in_order), key=lambda own: (own["verdict"] != "clean", len(own.get("findings", ()))))
    return [own, *(kernel for _, kernel in in_order)]


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
    chosen = [name for name in chosen_kernels(parser, given.only) if name != OWN]
    if not chosen:
        parser.error(f"--only {OWN}: the operator is compared with a kernel")
    if min(given.cases, given.problems, given.palette, given.shrink, given.at_once) < 1:
        parser.error("--cases, --problems, --palette, --shrink and --at-once are at least 1")
    program, about, machine = python_targets.start(given)
    devices = gpus()
    given.keep, given.last_begin = given.keep.resolve(), time.monotonic() + 60 * given.minutes
    stored.begin(given.keep, about | {key: str(getattr(given, key)) for key in ("cases", "problems", "palette", "shrink")})
    out = given.out or (None if given.only else ROOT / "bench/results/comparison.json")
    if out:
        go_on_from(out, given, about, machine["device"])
    through: dict[str, dict[str, Any]] = {}
    lock = threading.Lock()

    def waiting() -> list[str]:
        return [name for name in chosen if name not in through]

    def compare(at: int) -> None:
        run = compared(program, chosen[at], given, devices[at % len(devices)])
        with lock:
            if run:
                through[chosen[at]] = run
            if out and through:  # after each: the machine may be gone before the last
                stored.write(out, command_of(given), about, machine, yardstick=next(iter(through.values()))["yardstick"],
                             waiting=waiting(), targets=stored.without_folders(targets_of(through)))

    with ThreadPoolExecutor(given.at_once) as pool:
        list(pool.map(compare, range(len(chosen))))  # list: raises what one raised
    if waiting():
        print(f"not through are {', '.join(waiting())}; call it again")
        return INTERRUPTED
    if not out:
        print(json.dumps(targets_of(through), indent=1))
    return int(any(target["verdict"] == "unavailable" for target in targets_of(through)))
