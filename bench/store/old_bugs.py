# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store old-bugs --python PYTHON [--budget B] [--seed S] [--only NAME] [--list] [--environments DIR]

Hunts known defects of public kernels (bench/store/old_bugs_known.py) at the release that has each, on the CPU, by the
command that fuzz/PYTHON.md names and no regime chosen: `plumb fuzz --target python:MODULE:FUNCTION --budget B`, one
job, seed S [1], B [10m], an empty cache. The release that mends the defect is hunted by the same options. It stores
bench/results/old-bugs.json: of each hunt the seconds from the start of the process to the first finding of that defect,
every finding, versions, dates.

A finding is one of the defect if its words match the list's and if a case of it, replayed, fails with the release that has
the defect and passes with the one that mends it. What the script that shows it without plumb says of the two is stored.

PYTHON has PyTorch, Triton, NumPy, mpmath and pip. Each release gets a virtual environment on top of it, made in DIR
[build/old-bugs].

  --only NAME  prints this record and stores nothing
  --list       prints the table and hunts nothing

Interrupt it (status 5) and call it again to go on: each hunt that is through has a file in build/campaigns/old-bugs-B-S/.

Exit status: 0 every defect that can be seen here is found and its mended release is clean of it; 1 one is not (stored
too); 5 interrupted; 2 usage or another tree; 3 what plumb says is no result.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, refusing

from store import builds, plumb, stored, trees
from store.old_bugs_known import BUGS, Bug
from store.old_environments import Unavailable, interpreter, last_line, versions
from store.record import COMPLETE, interrupted_with_plumb, said_by

ROOT = trees.ROOT
ADAPTED = Path(__file__).resolve().parent / "adapted"
MOST_TRIED = 6  # findings of one hunt that are replayed
SHRINK_TRIES = 20  # of a case that is run again
SCRIPT_SECONDS = 600  # an interpreted kernel takes a minute
SCRIPT = """
import sys
from plumbline import findings
print(findings.read_finding(sys.argv[1]).repro())
"""


def environment_of(bug: Bug) -> dict[str, str]:
    """What is set for a hunt, a replay and a script alike."""
    path = os.pathsep.join(filter(None, (str(ADAPTED), os.environ.get("PYTHONPATH", ""))))
    return {"PYTHONPATH": path, "TRITON_INTERPRET": "1" if bug.interpreted else "0", "DS_ACCELERATOR": "cpu"}


def options_of(bug: Bug) -> list[str]:
    """Options of a hunt that PYTHON.md gives for such a target."""
    return ["--case-timeout", "300s"] if bug.interpreted else []


def found_in(said: dict[str, Any], before: float) -> list[dict[str, Any]]:
    """The findings of a hunt and their parts, the first first. `before` is what passed until plumb's clock began."""
    found = []
    for each in [*said["sightings"], *said.get("parts", [])]:
        kept = each.get("kept") or {}
        words = (kept.get("finding") or each.get("finding") or {}).get("what", "")
        found.append({"signature": each["signature"], "what": words[:300], "regime": each["regime"],
                      "seconds": round(before + each["seconds"], 1), "part_of": each.get("part_of"),
                      "values": kept.get("values_after"), "file": kept.get("file"), "more": each.get("more", [])})
    return sorted(found, key=lambda each: each["seconds"])


def matching(bug: Bug, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those findings whose words are the defect's."""
    return [each for each in found if re.search(bug.shows, f"{each['signature']}: {each['what']}")]


def hunt(program: Path, bug: Bug, python: str, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The record of one hunt. Refused, with plumb's status, where it has no result."""
    shutil.rmtree(folder, ignore_errors=True)
    words = ["fuzz", "--target", f"python:{bug.target}", "--python", python, "--budget", given.budget, "--seed",
             str(given.seed), "--jobs", "1", *options_of(bug), "--out", str(folder)]
    load_average = os.getloadavg()[0]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as cache:
        status, text = said_by(program, words, None, XDG_CACHE_HOME=cache, TRITON_CACHE_DIR=f"{cache}/triton",
                               **environment_of(bug))
    wall = time.monotonic() - begun
    if status == 4:
        return {"unavailable": "plumb says status 4", "date": stored.today()}
    if status not in COMPLETE:
        raise Refused(f"{bug.target}: status {status}, nothing stored", status)
    with refusing(f"{bug.target}: nothing stored", 3):
        said = stored.last_object(text)
        target, = said["targets"]
        before = max(wall - said["elapsed_seconds"], 0.0)
    judged = target["pass"] + target["suspect"] + target["fail"]
    return {"date": stored.today(), "verdict": said["verdict"], "cases": target["cases"], "judged": judged,
            "seconds": round(wall, 1), "start_seconds": round(before, 1), "load": round(load_average, 1),
            "skipped": target.get("skip_reasons", {}), "found": found_in(said, before)}


def still_fails(program: Path, bug: Bug, case: Path, python: str) -> bool | None:
    """Whether a stored case fails with this interpreter; None where nobody can tell."""
    with tempfile.TemporaryDirectory() as cache:
        status, _ = said_by(program, ["replay", str(case), "--python", python, *options_of(bug)], None,
                            XDG_CACHE_HOME=cache, **environment_of(bug))
    return {0: False, 1: True, 6: True}.get(status)


def script_of(bug: Bug, case: Path, python: str) -> Path | None:
    """The script that shows a case without plumb, written beside it; None where none is made."""
    path = os.pathsep.join((str(ROOT / "build/release/python"), environment_of(bug)["PYTHONPATH"]))
    made = subprocess.run([python, "-c", SCRIPT, case], capture_output=True, text=True, check=False,
                          env=os.environ | environment_of(bug) | {"PYTHONPATH": path})
    if made.returncode:
        return None
    script = case.with_suffix(".repro.py")
    script.write_text(made.stdout, encoding="utf-8")
    return script


def shown_by(script: Path, bug: Bug, python: str) -> dict[str, Any]:
    """Exit status and last line of the script with this interpreter."""
    try:
        ran = subprocess.run([python, script], capture_output=True, text=True, check=False, cwd=script.parent,
                             env=os.environ | environment_of(bug), timeout=SCRIPT_SECONDS)
    except subprocess.TimeoutExpired:
        return {"status": None, "says": f"no end in {SCRIPT_SECONDS} s"}
    return {"status": ran.returncode, "says": last_line(ran.stdout + ran.stderr)[:300]}


def cases_of(program: Path, bug: Bug, each: dict[str, Any], folder: Path, python: str) -> Iterator[Path]:
    """The stored case of a finding, and then those of later cases that showed it, which are run again for that. The
    first case of a finding may show another defect besides, which the mended release still has."""
    if each["file"]:
        yield folder / each["file"]
    for i, recipe in enumerate(each.get("more", [])):
        out = folder / "again" / f"{each['signature'].replace(':', '-')}-{i}"
        shutil.rmtree(out, ignore_errors=True)
        with tempfile.TemporaryDirectory() as cache:
            said_by(program, ["fuzz", "--target", f"python:{bug.target}", "--python", python, "--recipe", recipe, "--jobs", "1",
                              "--shrink-tries", str(SHRINK_TRIES), *options_of(bug), "--out", str(out)], None,
                    XDG_CACHE_HOME=cache, **environment_of(bug))
        yield from sorted(out.glob(f"findings/*-{each['signature'].replace(':', '-')}-*.safetensors"))


def attributed(program: Path, bug: Bug, found: list[dict[str, Any]], folder: Path, old: str, mended: str | None
               ) -> dict[str, Any] | None:
    """The first finding that is the defect, with what says so; None where there is none."""
    for each in matching(bug, found)[:MOST_TRIED]:
        for case in cases_of(program, bug, each, folder, old):
            replayed = {"has": still_fails(program, bug, case, old),
                        "mends": still_fails(program, bug, case, mended) if mended else None}
            if replayed["has"] is not True or replayed["mends"] is True:
                continue
            script = script_of(bug, case, old)
            shown = {name: shown_by(script, bug, python) for name, python in (("has", old), ("mends", mended))
                     if python and script is not None}
            return each | {"case": str(case.relative_to(folder)), "replay_fails": replayed, "script": shown}
    return None


def environments(bug: Bug, given: argparse.Namespace) -> dict[str, str | Exception]:
    """Interpreters of the two releases, each or why there is none."""
    made: dict[str, str | Exception] = {}
    module = bug.target.partition(":")[0]
    for name, release in (("has", bug.has), ("mends", bug.mends)):
        try:
            python = interpreter(given.python, bug.package, release, bug.requires, given.environments / f"{bug.package}-{release}")
            ran = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True, check=False,
                                 env=os.environ | environment_of(bug))
            made[name] = python if ran.returncode == 0 else Unavailable(last_line(ran.stderr))
        except Unavailable as why:
            made[name] = why
    return made


def record_of(program: Path, name: str, given: argparse.Namespace, out: Path) -> dict[str, Any]:
    """What is stored of a defect."""
    bug = BUGS[name]
    made = environments(bug, given)
    record: dict[str, Any] = {"defect": name, "package": bug.package, "has": bug.has, "mends": bug.mends,
                              "public": bug.public, "wrong": bug.wrong, "target": bug.target,
                              "interpreted": bug.interpreted, "note": bug.note}
    for role, python in made.items():
        part = out / f"{name}-{role}.json"
        if isinstance(python, Exception):
            record[f"release_{role}"] = {"unavailable": str(python)}
            continue
        if part.exists():
            with refusing(f"{part}"):
                record[f"release_{role}"] = load(part)
            continue
        record[f"release_{role}"] = hunt(program, bug, python, given, out / f"{name}-{role}") | versions(python)
        stored.put(part, record[f"release_{role}"])
    old, mended = (python if isinstance(python, str) else None for python in (made["has"], made["mends"]))
    first = None
    if old:
        first = attributed(program, bug, record["release_has"].get("found", []), out / f"{name}-has", old, mended)
    record["first"] = first
    still = matching(bug, record["release_mends"].get("found", []))
    record["mended_shows"] = still if mended else None
    seconds = first and first["seconds"]
    print(f"{name}: {'found after ' + str(seconds) + ' s' if first else 'not found'}; {bug.mends} "
          f"{'shows the same words' if still else 'is clean of it' if mended else 'is not there'}", flush=True)
    return record


def held(records: list[dict[str, Any]]) -> bool:
    """True if every defect whose release could be hunted was found, and its mended release is clean of it."""
    seen = [each for each in records if "unavailable" not in each["release_has"]]
    return bool(seen) and all(each["first"] and not each["mended_shows"] for each in seen)


def table() -> str:
    """The list, a line for each defect, and for one that takes a GPU the command."""
    lines = ["defect | package | has | mends | public | target | where"]
    for name, bug in BUGS.items():
        where = f"a GPU: plumb fuzz --target python:{bug.target} --budget 10m" if bug.gpu else "CPU, interpreted" if bug.interpreted else "CPU"
        lines.append(f"{name} | {bug.package} | {bug.has} | {bug.mends} | {bug.public} | python:{bug.target} | {where}")
    return "\n".join(lines)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store old-bugs")
    parser.add_argument("--python")
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--environments", type=Path, default=ROOT / "build/old-bugs")
    given = parser.parse_args(words)
    if given.list:
        print(table())
        return 0
    if given.python is None:
        parser.error("--python is missing: an interpreter with PyTorch, Triton and NumPy")
    if given.only not in (None, *BUGS):
        parser.error(f"--only {given.only}: there are {', '.join(BUGS)}")
    given.python = shutil.which(given.python) or given.python
    given.environments = given.environments.resolve()
    names = [name for name, bug in BUGS.items() if not bug.gpu and given.only in (None, name)]
    program = builds.release(ROOT, "plumb", "plumbline_worker")
    about = trees.committed_keys(ROOT, (*trees.PLUMB, "python"))
    with refusing("nothing stored", 3):
        machine = plumb.machine(program)
    out = ROOT / f"build/campaigns/old-bugs-{given.budget}-{given.seed}"
    stored.begin(out, about)
    with interrupted_with_plumb():
        records = [record_of(program, name, given, out) for name in names]
    if given.only:
        print(json.dumps(records[0], indent=1))
        return int(not held(records))
    command = f"python3 bench/store old-bugs --python PYTHON --budget {given.budget} --seed {given.seed}"
    stored.write(ROOT / "bench/results/old-bugs.json", command, about, machine, device="cpu",
                 defects=stored.without_folders(records))
    return int(not held(records))
