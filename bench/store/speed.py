# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store speed --stage DIR [--only REGEX] [--minutes M] --out FILE.json

Runs the benchmarks of cuda_bench in pieces, one for each shape, from a folder that `bench/run --stage DIR` made, and joins
their results into FILE.json, a result of cuda_bench like any other. A piece takes one to three minutes on an H200.

  --only REGEX  benchmarks whose name matches, such as '^(sustained|burst)/forward/'
  --minutes M   begins no piece that would end later than M minutes from now, by the longest so far [8]

FILE.json.pieces/ keeps each piece: call it again, with the same words, to go on. A piece of another build, device or
driver, or of other benchmarks, is refused.

Exit status: 0 all pieces are there; 1 a benchmark failed (what it says is in FILE.json); 2 usage, or pieces that do not
belong together; 3 cuda_bench says nothing that can be read; 4 no GPU; 5 pieces are left.
"""

import argparse
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, pattern, refusing
from report.deadline import Deadline

from store import stored

# What pieces must have in common.
SAME = ("device", "driver", "cuda", "cublas", "kernel", "machine_code")


def pieces_of(names: list[str]) -> dict[str, list[str]]:
    """The benchmarks of each shape, the last part of a name, in the order in which shapes first appear."""
    pieces: dict[str, list[str]] = {}
    for name in names:
        pieces.setdefault(re.sub(r"/(iterations|manual_time).*", "", name).rsplit("/", 1)[-1], []).append(name)
    return pieces


def listed(stage: Path, only: re.Pattern[str]) -> list[str]:
    """The names of the benchmarks. Refused where there are none."""
    with refusing(f"{stage}/run"):
        done = subprocess.run([stage / "run", "--benchmark_list_tests"], capture_output=True, text=True, check=False,
                              env=os.environ | {"OUT": os.devnull})
    if "no CUDA device" in done.stderr:
        raise Refused(done.stderr.strip().splitlines()[-1], 4)
    names = [line for line in done.stdout.splitlines() if "/" in line]
    if done.returncode or not names:
        raise Refused(f"cuda_bench lists no benchmark, status {done.returncode}: {done.stderr.strip()[-200:]}", 3)
    names = [name for name in names if only.search(name)]
    if not names:
        raise Refused(f"--only '{only.pattern}' matches no benchmark")
    return names


def measure(stage: Path, names: list[str], path: Path) -> None:
    """Runs these benchmarks into `path`."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    # Google Benchmark adds /iterations:1/manual_time to a registered name, and matches it as a whole.
    chosen = "^(" + "|".join(re.escape(name) for name in names) + ")$"
    done = subprocess.run([stage / "run", f"--benchmark_filter={chosen}"], check=False,
                          env=os.environ | {"OUT": str(part)})
    if done.returncode not in (0, 1) or not part.exists() or not part.stat().st_size:
        raise Refused(f"cuda_bench ended with status {done.returncode} and no result", 3)
    part.replace(path)


def joined(found: list[dict[str, Any]]) -> dict[str, Any]:
    """One result of all pieces, with the context of the first. Refused where two do not belong together."""
    first = found[0]["context"]
    for piece in found[1:]:
        for key in SAME:
            if piece["context"].get(key) != first.get(key):
                raise Refused(f"pieces with {key} '{first.get(key)}' and '{piece['context'].get(key)}'")
    return {"context": first, "benchmarks": [entry for piece in found for entry in piece["benchmarks"]]}


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/store speed", usage=__doc__.split("\n\n", maxsplit=1)[0].removeprefix("usage: "))
    parser.add_argument("--stage", type=Path, required=True)
    parser.add_argument("--only", type=pattern, default=pattern(""))
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    arguments = parse(words)
    deadline = Deadline(arguments.minutes)
    stage, out = arguments.stage.resolve(), arguments.out
    folder = out.with_name(out.name + ".pieces")
    folder.mkdir(parents=True, exist_ok=True)
    found, left = [], []
    for shape, names in pieces_of(listed(stage, arguments.only)).items():
        path = folder / f"{shape}.json"
        if not path.exists():
            if left or not deadline.has_time():
                left.append(shape)
                continue
            with deadline.piece():
                measure(stage, names, path)
        with refusing(f"{path}: no result of cuda_bench"):
            piece = load(path)
            ran = {entry.get("run_name", entry["name"]) for entry in piece["benchmarks"]}
            if ran != set(names):
                raise ValueError(f"it has other benchmarks than {', '.join(names)}")
        found.append(piece)
    if found:
        stored.put(out, joined(found))
    if left:
        print(f"bench/store speed: {len(left)} of {len(left) + len(found)} pieces are left: {', '.join(left)}")
        return 5
    return 1 if any(entry.get("error_occurred") for piece in found for entry in piece["benchmarks"]) else 0
