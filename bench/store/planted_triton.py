# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store planted-triton --python PYTHON [--budget B] [--seed S] [--only NAME] [--as-built KEYS]
                                                [--at-once N] [--out FILE]

Hunts each defect of tests/fuzz/python/targets/planted_triton.py by itself, and then the kernels without a defect, with
`plumb fuzz` from the release build: one job, seed S [1], budget B [5m], an empty cache of compiled kernels. It stores
bench/results/planted-triton.json: of each campaign the seconds from the start of the process to its first finding, the
number of findings, judged and drawn cases, and the machine's load before it; over all defects the median and the 90th
percentile of these seconds (a defect that was not found counts as one that takes for ever) and the findings for each
cause.

PYTHON has torch and triton. On a GPU the kernels run on it, else under TRITON_INTERPRET=1; the result says which.

  --only NAME  prints this campaign, `right` among them, and stores nothing
  --as-built KEYS  takes the programs as they are built, on a machine without git or a compiler: KEYS is a file of
               what `python3 bench/store trees` printed where they were built
  --at-once N  runs N campaigns beside each other [1]; the result says so: they share the device and the cores
  --out FILE   stores the result here [bench/results/planted-triton.json]

Interrupt it (status 5) and call it again to go on: each campaign has a file in build/campaigns/planted-triton-B-S/ once
it is through, and begins anew where it was interrupted. It is refused where files that count are no longer those that
it began with.

Exit status: 0 every defect is found and `right` has no finding, at most 1.2 findings a cause, the median is at most
60 s and the 90th percentile at most 5 minutes; 1 one of these is not so (stored too); 5 interrupted; 2 usage or another
tree; 3 what plumb says is no result; 4 the target does not load.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, refusing
from report.quantile import quantile

from store import python_targets, stored, trees
from store.python_targets import FILES, TARGETS
from store.record import COMPLETE, interrupted_with_plumb, said_by

ROOT = trees.ROOT
PLUMB = ROOT / "build/release/fuzz/plumb"
RIGHT = "right"
MOST_A_CAUSE, MOST_MEDIAN, MOST_P90 = 1.2, 60.0, 300.0
def planted() -> list[str]:
    """The names of the defects: the keys of PLANTED in planted_triton.py; Refused where there are none."""
    with refusing("no defects", 2):
        names = [str(name) for name in python_targets.planted_in(TARGETS / FILES["planted_triton"][0])]
    if not names:
        raise Refused(f"{TARGETS / FILES['planted_triton'][0]} plants no defect")
    return names


def record_of(name: str, said: dict[str, Any], wall: float) -> dict[str, Any]:
    """What is stored of a campaign. The start of the process and the load of the target are what `wall` has beyond the
    campaign's own clock."""
    target, = said["targets"]
    before = max(wall - said["elapsed_seconds"], 0.0)
    firsts = [each["seconds"] for each in said["sightings"]]
    judged = target["pass"] + target["suspect"] + target["fail"]
    return {"defect": name, "first_finding_seconds": round(before + min(firsts), 1) if firsts else None,
            "findings": said["findings"], "parts": len(said.get("parts", [])), "judged": judged,
            "cases": target["cases"], "failing": target["fail"] + target["suspect"], "start_seconds": round(before, 1),
            "seconds": round(wall, 1), "found": [finding_of(each) for each in said["sightings"]]}


def finding_of(sighting: dict[str, Any]) -> dict[str, Any]:
    """A finding in few words: how it shows, how small it became, and what it needs."""
    kept = sighting.get("kept") or {}
    return {"signature": sighting["signature"], "regime": sighting["regime"], "seconds": round(sighting["seconds"], 1),
            "values": kept.get("values_after"), "explained": kept.get("explain", [])}


def campaign(name: str, given: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Runs one campaign, unless its file is there; its record. Refused, with plumb's status, where it has none."""
    kept = out / f"{name}.json"
    if kept.exists():
        with refusing(f"{kept}"):
            found = load(kept)
            if found["defect"] != name or not isinstance(found["findings"], int):
                raise ValueError(f"of {found['defect']}")
            return found
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as cache:
        words = ["fuzz", "--target", f"python:planted_triton:{name}", "--python", given.python, "--budget", given.budget]
        load_average = os.getloadavg()[0]
        begun = time.monotonic()
        status, said = said_by(PLUMB, [*words, "--seed", str(given.seed), "--jobs", "1", "--out", str(folder)], TARGETS,
                               TRITON_CACHE_DIR=cache)
        wall = time.monotonic() - begun
    if status not in COMPLETE:
        raise Refused(f"{name}: status {status}, nothing stored", status)
    with refusing(f"{name}: nothing stored", 3):
        found = record_of(name, stored.last_object(said), wall) | {"load": round(load_average, 1)}
    stored.put(kept, found)
    print(f"{name}: found after {found['first_finding_seconds']} s, {found['findings']} findings, {found['judged']} of "
          f"{found['cases']} cases judged", flush=True)
    return found


def figures(defects: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures over all defects. Refused where there is none."""
    if not defects:
        raise Refused("no campaign of a defect", 3)
    seconds = [each["first_finding_seconds"] for each in defects]
    middle = statistics.median(math.inf if value is None else value for value in seconds)
    found = [each for each in defects if each["findings"]]
    return {"defects": len(defects), "found": len(found),
            "median_seconds": None if math.isinf(middle) else round(middle, 1), "p90_seconds": quantile(seconds, 0.9),
            "findings_a_cause": round(sum(each["findings"] for each in found) / max(len(found), 1), 2)}


def held(over_all: dict[str, Any], right: dict[str, Any]) -> bool:
    """True if the figures are as asked."""
    times = ((over_all["median_seconds"], MOST_MEDIAN), (over_all["p90_seconds"], MOST_P90))
    return (over_all["found"] == over_all["defects"] and not right["findings"] and right["judged"] > 0
            and over_all["findings_a_cause"] <= MOST_A_CAUSE
            and all(value is not None and value <= most for value, most in times))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store planted-triton")
    python_targets.add_options(parser)
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="prints this campaign and stores nothing")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/planted-triton.json")
    given = parser.parse_args(words)
    names = [*planted(), RIGHT]
    if given.only not in (None, *names):
        parser.error(f"--only {given.only}: there are {', '.join(names)}")
    if given.at_once < 1:
        parser.error(f"--at-once {given.at_once}: it is at least 1")
    _, about, machine = python_targets.start(given)
    about |= {"planted_triton": python_targets.key_of("planted_triton")}
    if given.only:
        with tempfile.TemporaryDirectory() as folder, interrupted_with_plumb():
            print(json.dumps(campaign(given.only, given, Path(folder)), indent=1))
        return 0
    out = ROOT / f"build/campaigns/planted-triton-{given.budget}-{given.seed}"
    python_targets.begin(out, about, machine, given.at_once)
    with interrupted_with_plumb(), ThreadPoolExecutor(given.at_once) as pool:
        runs = list(pool.map(lambda name: campaign(name, given, out), names))
    *defects, right = runs
    over_all = figures(defects)
    command = f"python3 bench/store planted-triton --python PYTHON --budget {given.budget} --seed {given.seed}"
    stored.write(given.out, command, about, machine, at_once=given.at_once, figures=over_all, right=right, defects=defects)
    print(json.dumps(over_all), flush=True)
    return int(not held(over_all, right))
