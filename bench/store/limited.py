# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store limited [--cases N] [--minutes M] [--only NAME]

Runs campaigns, seed 1, two jobs, on a kernel that is right and can do no more than it declares
(tests/fuzz/honest/limited.cc), from the release build, and stores bench/results/limited.json.

  sets       N cases [2000] for each set of capabilities: each false alone, multiples, and sets as real kernels have
             them: the share of their cases that is judged, the verdict, and the calls of the kernel with a large
             vocabulary (131072 or more), a tail (V no multiple of 16, or the last multiples before one of 4096), and
             depth (H of 512 or more).
  compiling  one campaign of M minutes [5] on a kernel that takes 1 s at its first call of each shape and 5 ms after,
             and is wrong where V mod 8 is 1: the shares of the jobs' time that first calls and shrinking took, and when
             the defect was found.

Exit status: 0 all judged shares are 60 % or more without a finding, the compiling kernel's first calls took a quarter
of the time or less, shrinking a third or less, and its defect was found; 1 one of these is not so (stored too); 2 usage
or another tree.
"""

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from report.command_line import refusing

from store import builds, plumb, stored, trees

ROOT = trees.ROOT
BUILD = ROOT / "build/release"
JOBS = 2
FALSE = ("ignore_index", "entropy", "lse", "grad_hidden", "grad_weight", "fp32_grads", "strided_inputs",
         "zero_stride_grads", "special_values", "invalid_labels", "deterministic", "batch_invariant", "negative_strides",
         "empty_extents", "first_invalid_row")
VOCAB_MAJOR = {"weight_layouts": ["vocab_major"]}
INT64 = {"label_dtypes": ["int64"]}
TRITON = VOCAB_MAJOR | INT64 | {
    "dtypes": ["bf16"], "hidden_multiple": 128, "temperature": "none", "base_alignment": 16, "row_alignment": 16} | {
        name: False for name in ("strided_inputs", "ignore_index", "negative_strides", "first_invalid_row",
                                 "empty_extents", "invalid_labels", "special_values")}
LIKE_REAL_ONES: dict[str, dict[str, Any]] = {
    "Triton, H of 128": TRITON,
    "Triton, N and V of 8, mean": TRITON | {"reductions": ["mean", "sum"], "rows_multiple": 8, "vocab_multiple": 8,
                                            "entropy": False, "lse": False},
    "N, H, V of 8": {"rows_multiple": 8, "hidden_multiple": 8, "vocab_multiple": 8},
    "autograd": INT64 | {"fp32_grads": False, "first_invalid_row": False, "negative_strides": False,
                         "zero_stride_grads": False, "invalid_labels": False, "temperature": "none"},
    "one layout, int64 labels, no temperature, aligned bases": VOCAB_MAJOR | INT64 | {
        "temperature": "none", "base_alignment": 16, "strided_inputs": False},
    "fp16 and bf16, rows of 64 bytes, one temperature": {
        "dtypes": ["bf16", "fp16"], "row_alignment": 64, "base_alignment": 64, "temperature": "scalar"},
}


def sets() -> dict[str, dict[str, Any]]:
    """Capabilities by the name of their set."""
    found: dict[str, dict[str, Any]] = {"everything": {}, "int64 labels": INT64, "vocab_major": VOCAB_MAJOR}
    found |= {f"no {name}": {name: False} for name in FALSE}
    found |= {f"{key} {value}": {key: value} for key in ("rows_multiple", "vocab_multiple", "hidden_multiple")
              for value in (2, 16, 100, 256)}
    found |= {f"{key} 64": {key: 64} for key in ("base_alignment", "row_alignment")}
    for key, words in {"dtypes": ("bf16", "fp32"), "reductions": ("none", "mean"), "label_dtypes": ("int32",),
                       "weight_layouts": ("hidden_major",)}.items():
        found |= {f"{key} {word}": {key: [word]} for word in words}
    found |= {f"temperature {word}": {"temperature": word} for word in ("none", "scalar")}
    return found | LIKE_REAL_ONES


def reached(log: Path) -> dict[str, int]:
    """How many calls of the kernel had what a defect may need."""
    found = Counter(large_vocabulary=0, tail=0, depth=0)
    for line in log.read_text(encoding="utf-8").splitlines():
        _, _, _, v, h = line.split()
        found["large_vocabulary"] += int(v) >= 131072
        found["tail"] += int(v) % 16 != 0 or (int(v) % 4096 != 0 and int(v) > 4096)
        found["depth"] += int(h) >= 512
    return dict(found)


def campaign(budget: str, environment: dict[str, str], folder: Path) -> tuple[dict[str, Any], Path]:
    """What plumb says of a campaign on the kernel, and the log of the kernel's calls."""
    log = folder / "calls"
    log.write_text("", encoding="utf-8")
    plugin = BUILD / "tests/fuzz/honest/limited.so"
    words = ("--budget", budget, "--seed", "1", "--jobs", str(JOBS), "--out", folder / "hunt")
    with refusing("nothing stored", 3):
        _, said = plumb.ask(BUILD / "fuzz/plumb", "fuzz", "--target", f"plugin:{plugin}", *words,
                            environment=environment | {"LIMITED_LOG": str(log)})
    return said, log


def judged_of(target: dict[str, Any]) -> int:
    """The judged cases of a target's result."""
    return target["pass"] + target["suspect"] + target["fail"]


def judged_share(name: str, can: dict[str, Any], cases: int) -> dict[str, Any]:
    """The record of one set."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"LIMITED_CAPABILITIES": json.dumps(can, separators=(",", ":"))}
        said, log = campaign(f"{cases}cases", environment, Path(folder))
        calls = reached(log)
    target, = said["targets"]
    found = {"set": name, "capabilities": can, "cases": target["cases"], "judged": judged_of(target)}
    found |= {"share": round(found["judged"] / found["cases"], 4), "verdict": said["verdict"]}
    found |= {"findings": said["findings"], "seconds": round(said["elapsed_seconds"], 1), "calls": calls}
    print(f"{name}: {found['share']:.1%} judged, {found['verdict']}, {found['seconds']} s, {calls}", flush=True)
    return found


def compiling(minutes: float) -> dict[str, Any]:
    """The record of the kernel that compiles."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"LIMITED_COMPILE_MS": "1000", "LIMITED_DEFECT": "8,1"}
        said, log = campaign(f"{round(60 * minutes)}s", environment, Path(folder))
        lines = log.read_text(encoding="utf-8").splitlines()
    first = [int(ms) / 1e3 for kind, ms, *_ in map(str.split, lines) if kind == "first"]
    total = JOBS * said["elapsed_seconds"]
    target, = said["targets"]
    found = {"minutes": minutes, "elapsed_seconds": round(said["elapsed_seconds"], 1), "first_calls": len(first)}
    found |= {"first_call_share": round(sum(first) / total, 4), "cases": target["cases"], "judged": judged_of(target)}
    found |= {"shrinking_share": round(said["time"]["shrinking"] / total, 4), "findings": said["findings"]}
    shrunk = [each for each in said["sightings"] if each.get("kept")]
    for each in sorted(shrunk, key=lambda sighting: sighting["seconds"])[:1]:
        kept = each["kept"]
        found |= {"found_after_seconds": each["seconds"], "signature": each["signature"], "values": kept["values_after"],
                  "explained": kept.get("explain", [])}
    print(f"compiling: {found}", flush=True)
    return found


def held(runs: list[dict[str, Any]], jit: dict[str, Any] | None) -> bool:
    """True if the shares are as asked."""
    if any(each["share"] < 0.6 or each["findings"] for each in runs):
        return False
    return jit is None or (jit["first_call_share"] <= 0.25 and jit["shrinking_share"] <= 1 / 3 and
                           "found_after_seconds" in jit)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store limited")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--only", help="prints this set, or `compiling`, and stores nothing")
    given = parser.parse_args(words)
    if given.cases < 1 or given.minutes <= 0:
        parser.error(f"{given.cases} cases, {given.minutes} minutes: both are at least 1")
    if given.only not in (None, "compiling", *sets()):
        parser.error(f"--only {given.only}: there are compiling, {', '.join(sets())}")
    program = builds.release(ROOT, "plumb", "honest_plugins")
    about = trees.committed_keys(ROOT, (*trees.PLUMB, "honest"))
    with refusing("nothing stored", 3):
        machine = plumb.machine(program)
    runs = [judged_share(name, can, given.cases) for name, can in sets().items() if given.only in (None, name)]
    jit = compiling(given.minutes) if given.only in (None, "compiling") else None
    if given.only is None:
        command = f"python3 bench/store limited --cases {given.cases} --minutes {given.minutes:g}"
        stored.write(ROOT / "bench/results/limited.json", command, about, machine, compiling=jit, sets=runs)
    return int(not held(runs, jit))
