# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store first-calls --stage DIR [--shapes NxHxV,…] [--processes R] [--out FILE.json]

Measures what a process's first step of the operator takes on a CUDA context that is there, beside its second: passes_once
from a folder that `bench/run --stage DIR` made, R processes [9] of each shape, one after another. It stores
bench/results/first-calls.json: of each shape the medians and the largest, in ms.

  --shapes      [1024x4096x32768, 8192x1024x151936]
  --processes R [9]
  --out FILE    stores the result here [bench/results/first-calls.json]

The program is the one that is timed, with its code for this device in its own file: a library of the same code in a process
of PyTorch may take longer. Exit status: 0; 2 usage; 3 passes_once says nothing that can be read; 4 no GPU.
"""

import argparse
import statistics
import subprocess
from pathlib import Path

from report.command_line import Refused, refusing

from store import stored, trees
from store.traffic import build_of, environment_of, machine

SHAPES = "1024x4096x32768,8192x1024x151936"
FIGURES = ("first_ms", "second_ms")


def measure(stage: Path, shape: str) -> dict[str, float]:
    """What one process says."""
    with refusing(f"{stage}/passes_once", 3):
        done = subprocess.run([stage / "passes_once", shape, "first_calls", "ours"], capture_output=True, text=True, check=False,
                              env=environment_of(stage))
    if done.returncode == 4:
        raise Refused("no CUDA device", 4)
    with refusing(f"passes_once {shape}, status {done.returncode}: {done.stderr.strip()[-200:]}", 3):
        said = stored.last_object(done.stdout)
        return {name: float(said[name]) for name in FIGURES}


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store first-calls")
    parser.add_argument("--stage", type=Path, required=True)
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--processes", type=int, default=9)
    parser.add_argument("--out", type=Path, default=trees.ROOT / "bench/results/first-calls.json")
    given = parser.parse_args(words)
    if given.processes < 1:
        parser.error(f"--processes {given.processes}: it is at least 1")
    about = {"build": build_of(given.stage), "machine": machine()}
    found = []
    for shape in given.shapes.split(","):
        runs = [measure(given.stage.resolve(), shape) for _ in range(given.processes)]
        figures = {name: {"median": statistics.median(run[name] for run in runs), "largest": max(run[name] for run in runs)}
                   for name in FIGURES}
        found.append({"shape": shape, "processes": given.processes, **figures})
        print(f"{shape}: first {figures['first_ms']['median']:.1f} ms, second {figures['second_ms']['median']:.1f}", flush=True)
    command = f"python3 bench/store first-calls --stage DIR --shapes {given.shapes} --processes {given.processes}"
    stored.put(given.out, {"command": command, "date": stored.today(), **about, "measured": found})
    return 0
