# SPDX-License-Identifier: Apache-2.0
"""Examines one mutant: builds it, hunts it, and compares a survivor with the original."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from store import stored

from measure.build import CannotBuildError, Workshop, reaches
from measure.draw import Mutant, mutated

# How a mutant ends. Those before KILLED are drawn and no mutants of the operator.
NO_BUILD, SAME_CODE, DUPLICATE = "does not build", "same object code", "object code of another"
KILLED, SURVIVED = "killed", "survived"
PATIENCE = 300  # seconds beyond the budget: a plumb that does not end is a fault of ours
COMPARE_SECONDS = 300  # of CPU: 10 000 recipes take 20, and one whose process is paused is not given up


class Hunting(NamedTuple):
    """How every mutant is hunted."""

    plumb: Path
    same_outputs: Path
    budget: str  # as plumb reads it
    case_timeout: str
    recipes: int  # on which a survivor is compared with the original
    seed: int

    def words(self, library: Path, seed: int, out: Path) -> list[str]:
        """plumb's arguments."""
        return ["fuzz", "--target", f"plugin:{library}", "--budget", self.budget, "--stop-after", "1",
                "--shrink-tries", "1", "--case-timeout", self.case_timeout, "--first-call-timeout", self.case_timeout,
                "--seed", str(seed), "--out", str(out), "--json"]


def finish(words: list[str], seconds: float | None) -> tuple[int | None, str]:
    """(status, stdout) of a program with a process group of its own; status None where it does not end in time."""
    with subprocess.Popen(["nice", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          start_new_session=True) as running:
        try:
            said, _ = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
            return None, ""
    return running.returncode, said.decode(errors="replace")


def read_hunt(status: int | None, said: str) -> dict[str, Any]:
    """What a hunt came to, of plumb's last line: verdict, cases, seconds, and the first finding."""
    if status is None:
        return {"verdict": "did not end"}
    try:
        result = stored.last_object(said)
    except ValueError:
        return {"verdict": f"no result, status {status}"}
    found = {"verdict": result["verdict"], "cases": result["cases"], "seconds": round(result["elapsed_seconds"], 1)}
    if error := result.get("error"):
        found["error"] = stored.without_folders(error)
    if sightings := result.get("sightings"):
        first = sightings[0]
        found |= {"check": first["signature"], "regime": first.get("regime", "")}
    return found


def is_kill(hunt: dict[str, Any]) -> bool:
    """Whether plumb found something: wrong, suspect, a crash or a hang. A verdict of too little judged is none."""
    return hunt["verdict"] in ("findings", "suspect")


def seed_of(mutant: str, seed: int) -> int:
    """A hunt's seed: each mutant has its own."""
    return int.from_bytes(hashlib.sha256(f"hunt {seed} {mutant}".encode()).digest()[:6], "big")


def hunt(how: Hunting, library: Path, seed: int, out: Path) -> dict[str, Any]:
    """plumb on a plug-in."""
    budget = float(how.budget.removesuffix("s"))
    began = time.monotonic()
    try:
        found = read_hunt(*finish([str(how.plumb), *how.words(library, seed, out)], budget + PATIENCE))
    finally:
        shutil.rmtree(out, ignore_errors=True)
    return found | {"wall": round(time.monotonic() - began, 1)}


def compare(how: Hunting, original: Path, library: Path, recipes: int) -> dict[str, Any]:
    """Whether a plug-in has the original's output bits on recipes that no hunt of it drew."""
    status, said = finish(["prlimit", f"--cpu={COMPARE_SECONDS}", str(how.same_outputs), str(original), str(library),
                           str(recipes), str(how.seed)], None)
    if status in (0, 1):
        return json.loads(said.splitlines()[-1])
    return {"cases": recipes, "different": -1, "first": [f"ended with status {status}"]}


def is_same(comparison: dict[str, Any]) -> bool:
    """Whether no bit differed, and something was compared."""
    return comparison["different"] == 0 and comparison["computed"] > 0


def examine(mutant: Mutant, workshop: Workshop, how: Hunting, seen: dict[str, str]) -> dict[str, Any]:
    """How a mutant ends. `seen` holds the names of mutants by their object code."""
    folder = workshop.folder / "mutant"
    shutil.rmtree(folder, ignore_errors=True)
    source = (workshop.root / mutant.file).read_text(encoding="utf-8")
    try:
        objects = workshop.mutate(mutant.file, mutated(source, mutant.line, mutant.now), folder)
        changed = workshop.changed(objects)
        if not changed:
            return {"outcome": SAME_CODE}
        code = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()
        if other := seen.get(code):
            return {"outcome": DUPLICATE, "of": other}
        libraries = {target: workshop.link(target, objects, folder / f"{target}.so")
                     for target in reaches(set(changed))}
    except CannotBuildError as fault:
        return {"outcome": NO_BUILD, "why": str(fault)[-300:]}
    found: dict[str, Any] = {"outcome": SURVIVED, "code": code, "hunts": {}}
    for target, library in libraries.items():
        found["hunts"][target] = hunt(how, library, seed_of(mutant.name, how.seed), folder / "out")
        if is_kill(found["hunts"][target]):
            return found | {"outcome": KILLED}
    kept = kept_in(workshop, mutant.name)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for library in libraries.values():
        shutil.copy(library, kept)
    return found


def kept_in(workshop: Workshop, name: str) -> Path:
    """Where a survivor's plug-ins lie."""
    return workshop.folder / "survivors" / name


def comparisons(record: dict[str, Any], workshop: Workshop, how: Hunting) -> dict[str, Any]:
    """A survivor beside the original, by target: the recipes are shared out among the targets."""
    recipes = how.recipes // len(record["hunts"])
    kept = kept_in(workshop, record["name"])
    return {target: compare(how, workshop.originals[target], kept / f"{target}.so", recipes)
            for target in record["hunts"]}
