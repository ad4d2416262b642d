# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store triton-rate --python PYTHON [--seconds S] [--defect-seconds D] [--warm-up W] [--seed S]
                                             [--as-built KEYS] [--out FILE]

Runs two campaigns, one job, seed S [1], with an empty cache of compiled kernels, on functions of
tests/fuzz/python/targets/planted_triton.py, and stores bench/results/triton-rate.json:

  right      no defect, S seconds [300]: judged cases a second after the first W [60], in which most kernels are
             compiled, and the share of the time that went to launches in which Triton compiled
  defective  phantom_columns, D seconds [120]: the share of the time that went to shrinking

PYTHON has torch and triton, 3.4 or later. On a GPU the kernels run on it, else under TRITON_INTERPRET=1, where nothing is
compiled; the result says which. Nothing else may run on the device: the rate would be of both.

  --as-built KEYS  takes the programs as they are built; KEYS is a file of what `python3 bench/store trees` printed
  --out FILE   stores the result here, after each campaign what there is [bench/results/triton-rate.json]

Exit status: 0 at least 60 judged cases a second, at most 25 % in first calls, at most a third in shrinking, no finding of
the one and a finding of the other; 1 one of these is not so (stored too); 2 usage or another tree; 3 what plumb says is
no result; 4 the target does not load; 5 interrupted (what ran is stored).
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from report.command_line import Refused, refusing

from store import python_targets, stored, trees
from store.planted_triton import finding_of
from store.python_targets import TARGETS
from store.record import COMPLETE, INTERRUPTED, interrupted_with_plumb

ROOT = trees.ROOT
LEAST_RATE, MOST_FIRST_CALLS, MOST_SHRINKING = 60.0, 0.25, 1 / 3
DEFECT = "phantom_columns"


def rate_after(said_beside: str, said: dict[str, Any], warm_up: float) -> float:
    """Judged cases a second between the first object of progress after the warm-up (fuzz/cli/status_line.h) and the end.
    Refused where there is none."""
    points = [json.loads(line)["progress"] for line in said_beside.splitlines() if line.startswith('{"progress":')]
    start = next((point for point in points if point["seconds"] >= warm_up), None)
    target, = said["targets"]
    judged, end = target["pass"] + target["suspect"] + target["fail"], said["elapsed_seconds"]
    if start is None or end <= start["seconds"] or not judged:
        raise Refused(f"no progress between {warm_up:g} s and the end", 3)
    return (judged - start["judged"]) / (end - start["seconds"])


def compiled(log: Path) -> tuple[int, float]:
    """The number of launches that compiled, and the seconds of all first ones: those that read the cache too."""
    lines = [line.split() for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    return sum(hit == "0" for _, hit in lines), sum(float(seconds) for seconds, _ in lines)


def campaign(program: Path, name: str, seconds: float, given: argparse.Namespace) -> dict[str, Any]:
    """The record of one campaign. Refused, with plumb's status, where it has none."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "compilations"
        path = os.pathsep.join([str(TARGETS), str(Path(__file__).parent / "timed")])
        environment = os.environ | {"TRITON_CACHE_DIR": f"{scratch}/cache", "COMPILE_LOG": str(log), "PYTHONPATH": path}
        words = ["fuzz", "--target", f"python:compile_log:{name}", "--python", given.python, "--budget", f"{seconds:g}s"]
        words += ["--seed", str(given.seed), "--jobs", "1", "--out", f"{scratch}/hunt", "--json"]
        done = subprocess.run([program, *words], capture_output=True, text=True, errors="replace", check=False,
                              env=environment)
        if done.returncode not in (*COMPLETE, INTERRUPTED):
            why = (done.stderr.strip().splitlines() or ["no word"])[-2:]
            raise Refused(f"{name}: status {done.returncode}: {'; '.join(why)}", done.returncode)
        count, took = compiled(log)
    with refusing(f"{name}: nothing stored", 3):
        said = stored.last_object(done.stdout)
        target, = said["targets"]
        elapsed = said["elapsed_seconds"]
        found = {"target": name, "seconds": round(elapsed, 1), "cases": target["cases"], "findings": said["findings"],
                 "judged": target["pass"] + target["suspect"] + target["fail"], "compilations": count,
                 "first_call_share": round(took / elapsed, 4),
                 "shrinking_share": round(said["time"]["shrinking"] / elapsed, 4), "time": said["time"],
                 "found": [finding_of(each) | {"what": each["finding"]["what"]} for each in said["sightings"]]}
        if done.returncode == INTERRUPTED:
            found["interrupted"] = True
        if name == "right":
            found["judged_a_second"] = round(rate_after(done.stderr, said, given.warm_up), 1)
    print(json.dumps(found), flush=True)
    return found


def held(right: dict[str, Any], defective: dict[str, Any]) -> bool:
    """True if the figures are as asked."""
    return (right["judged_a_second"] >= LEAST_RATE and right["first_call_share"] <= MOST_FIRST_CALLS
            and not right["findings"] and defective["shrinking_share"] <= MOST_SHRINKING and defective["findings"] > 0)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store triton-rate")
    python_targets.add_options(parser)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--defect-seconds", type=float, default=120)
    parser.add_argument("--warm-up", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/triton-rate.json")
    given = parser.parse_args(words)
    if not 0 <= given.warm_up < given.seconds or given.defect_seconds <= 0:
        parser.error(f"{given.seconds:g} s, {given.warm_up:g} of them warm-up, {given.defect_seconds:g} s: nothing is left")
    program, about, machine = python_targets.start(given)
    about |= {"planted_triton": python_targets.key_of("planted_triton")}
    command = (f"python3 bench/store triton-rate --python PYTHON --seconds {given.seconds:g} --defect-seconds "
               f"{given.defect_seconds:g} --warm-up {given.warm_up:g} --seed {given.seed}")
    load = round(os.getloadavg()[0], 1)
    defective = None
    with interrupted_with_plumb():
        right = campaign(program, "right", given.seconds, given)
        stored.write(given.out, command, about, machine, load=load, right=right, defective=None)
        if "interrupted" not in right:
            defective = campaign(program, DEFECT, given.defect_seconds, given)
            stored.write(given.out, command, about, machine, load=load, right=right, defective=defective)
    if defective is None or "interrupted" in defective:
        return INTERRUPTED
    return int(not held(right, defective))
