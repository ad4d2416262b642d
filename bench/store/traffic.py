# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store traffic --stage DIR [--ncu NCU] [--shapes NxHxV,…] [--minutes M] [--out FILE.json]

Measures by Nsight Compute what each kernel of a pass reads from and writes to device memory, of the operator and of
cuBLAS's products of the same work: passes_once from a folder that `bench/run --stage DIR` made, one call of each pass
(forward, backward, gradients_in_forward), clocks as they are. It stores bench/results/traffic.json: of each shape, pass
and side the kernels in their order, each with bytes read and written and its ns, and their sums.

  --ncu NCU     the program [ncu]
  --shapes      [8192x4096x151936, 8192x1024x151936]
  --minutes M   begins nothing later than M minutes from now, by the longest so far [8]
  --out FILE    stores the result here, anew after each pass [bench/results/traffic.json]

What FILE has of the same build is not measured again: call it again to go on.

Exit status: 0 all is measured; 2 usage, or FILE is of another build; 3 ncu or passes_once says nothing that can be read;
4 no GPU; 5 something is left.
"""

import argparse
import csv
import os
import subprocess
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, refusing
from report.deadline import Deadline

from store import stored, trees

SHAPES = "8192x4096x151936,8192x1024x151936"
PASSES, SIDES = ("forward", "backward", "gradients_in_forward"), ("ours", "cublas")
# Bytes and ns, in the units that --print-units base gives.
METRICS = {"read": "dram__bytes_read.sum", "written": "dram__bytes_write.sum", "ns": "gpu__time_duration.sum"}


def kernels(text: str) -> list[dict[str, Any]]:
    """The kernels of a page of ncu, `--csv --page raw`. ValueError where there is none: a header, a row of units, and
    a row for each kernel, after whatever the program and ncu print."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError(f"no table of kernels: {' '.join(lines[-3:])[-300:]}")
    rows = list(csv.DictReader(lines[start:]))[1:]
    if not rows:
        raise ValueError("a table without kernels")
    return [{"kernel": row["Kernel Name"].split("(")[0].split("<")[0].strip()}
            | {name: float(row[metric].replace(",", "")) for name, metric in METRICS.items()} for row in rows]


def environment_of(stage: Path) -> dict[str, str]:
    """The environment in which programs of a stage find its libraries, as DIR/run makes it."""
    libraries = os.pathsep.join(filter(None, (str(stage), os.environ.get("LD_LIBRARY_PATH", ""))))
    return os.environ | {"LD_LIBRARY_PATH": libraries}


def measure(ncu: str, stage: Path, shape: str, what: str, side: str) -> dict[str, Any]:
    """The kernels of one call, and their sums. Refused where they cannot be measured."""
    command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off", "--clock-control",
               "none", "--metrics", ",".join(METRICS.values()), stage / "passes_once", shape, what, side]
    with refusing(f"{ncu}", 3):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment_of(stage))
    if done.returncode == 4 or "no CUDA device" in done.stderr:
        raise Refused("no CUDA device", 4)
    with refusing(f"{ncu}, {shape} {what} {side}, status {done.returncode}: {done.stderr.strip()[-200:]}", 3):
        found = kernels(done.stdout)
    return {"shape": shape, "pass": what, "side": side, **{name: sum(each[name] for each in found) for name in METRICS},
            "kernels": found}


def build_of(stage: Path) -> dict[str, str]:
    """The keys of the build in a stage."""
    with refusing(f"{stage}/trees: no stage of bench/run"):
        return dict(line.split("=", 1) for line in (stage / "trees").read_text(encoding="utf-8").split())


def machine() -> dict[str, str]:
    """Device and driver, as nvidia-smi names them."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError) as fault:
        raise Refused(f"no GPU: nvidia-smi names none ({fault})", 4) from fault
    device, driver = map(str.strip, line.split(",", 1))
    return {"device": device, "driver": driver}


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/store traffic", usage=__doc__.split("\n\n", maxsplit=1)[0].removeprefix("usage: "))
    parser.add_argument("--stage", type=Path, required=True)
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--out", type=Path, default=trees.ROOT / "bench/results/traffic.json")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    arguments = parse(words)
    deadline = Deadline(arguments.minutes)
    about = {"build": build_of(arguments.stage), "machine": machine()}
    measured: list[dict[str, Any]] = []
    if arguments.out.exists():
        with refusing(f"{arguments.out}: no result of traffic"):
            before = load(arguments.out)
            if {key: before[key] for key in about} != about:
                raise Refused(f"{arguments.out} is of another build or machine")
            measured = before["measured"]
    there = {(each["shape"], each["pass"], each["side"]) for each in measured}
    left = []
    for one in [(shape, what, side) for shape in arguments.shapes.split(",") for what in PASSES for side in SIDES]:
        if one in there:
            continue
        if left or not deadline.has_time():
            left.append(one)
            continue
        with deadline.piece():
            measured.append(measure(arguments.ncu, arguments.stage.resolve(), *one))
        stored.put(arguments.out, {"command": "bench/store traffic", "date": stored.today(), **about, "measured": measured})
    if left:
        print(f"bench/store traffic: left: {', '.join(' '.join(one) for one in left)}")
    return 5 if left else 0
