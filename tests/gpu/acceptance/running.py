# SPDX-License-Identifier: Apache-2.0
"""Runs the stages that a machine with a GPU is asked for, from a staged folder, and sums them up."""

import argparse
import datetime
import hashlib
import json
import math
import shutil
import signal
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from acceptance import steps
from acceptance.devices import Devices
from acceptance.stages import ALONE, LIMIT, MEMORY, Context, Step, stages, sum_of
from acceptance.staging import PACKED, say, sha256


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all."""
    scratch = path.with_name(path.name + ".new")
    scratch.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    scratch.replace(path)


def read_json(path: Path) -> Any:
    """{} where there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


class Acceptance:
    """One run of stages, into one folder."""

    def __init__(self, stage: Path, out: Path, devices: Devices) -> None:
        self.manifest = read_json(stage / "stage.json")
        self.devices = devices
        self.every = stages()
        self.context = Context(stage, out)
        # Results of other trees, programs or devices are those of another run.
        self.key = hashlib.sha256(
            json.dumps([self.manifest["trees"], self.manifest["files"], devices.kind]).encode()).hexdigest()
        self.summary_lock = threading.Lock()

    def run(self, wanted: list[str], minutes: float, again: bool, at_once: int) -> int:
        """Runs the stages named, that many at once; the exit status."""
        end = time.monotonic() + minutes * 60
        for name in wanted:
            if name in ALONE:
                self.run_wanted(name, end, again)
        rest = [name for name in wanted if name not in ALONE]
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda name: self.run_wanted(name, end, again), rest))  # list: raises what a stage raised
        return self.write_summary()

    def run_wanted(self, name: str, end: float, again: bool) -> None:
        """Runs a stage if it has not been done and there is time left."""
        before = read_json(self.path(name))
        if before.get("key") != self.key or (again and before["outcome"] != "interrupted"):
            before = {}  # nothing of another run may be gone on with
        if before and steps.is_done(before, self.every[name]):
            say(f"{name:11} {before['outcome']} before, in {before['seconds']} s")
            return
        with self.devices.lend(name in MEMORY) as environment:
            left = end - time.monotonic()
            if steps.interrupted or left < 1:
                return
            self.run_stage(name, self.every[name], before, left, environment)
        self.write_summary()

    def path(self, name: str) -> Path:
        return self.context.out / f"{name}.json"

    def run_stage(self, name: str, its: list[Step], before: dict[str, Any], left: float,
                  environment: dict[str, str]) -> None:
        """Runs one stage, or what is left of it, and says what came of it."""
        if not before:
            shutil.rmtree(self.context.out / f"{name}-campaign", ignore_errors=True)
        # Rounded up: where M is the 8 minutes of a stage, its first step has all of its time.
        result = steps.run_stage(name, its, self.context, min(LIMIT, math.ceil(left)), before,
                                 lambda r: write_json(self.path(name), {"key": self.key, **r}), environment)
        say(f"{name:11} {result['outcome']} in {result['seconds']} s")
        for step, entry in result["steps"].items():
            if entry["outcome"] != "passed":
                say(f"  {step}: {entry['outcome']}: " + "\n    ".join([entry["why"], *entry.get("tail", [])[-4:]]))

    def write_summary(self) -> int:
        """summary.json of all stages that have a result of this run; the exit status that they add up to."""
        with self.summary_lock:
            return self.write_summary_alone()

    def write_summary_alone(self) -> int:
        results = {}
        for name in self.every:
            result = read_json(self.path(name))
            if result.get("key") == self.key:
                results[name] = {key: value for key, value in result.items() if key != "key"}
            else:
                results[name] = {"outcome": "not run"}
        found = sum_of(results)
        write_json(self.context.out / "summary.json", {
            "command": "tests/gpu/accept", "device": self.devices.kind[0], "driver": self.devices.kind[1],
            "devices": self.devices.number, "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "trees": self.manifest["trees"], **found})
        say(f"accept: {found['verdict']}: " + ", ".join(f"{name} {r['outcome']}" for name, r in results.items()))
        return {"passed": 0, "failed": 1, "incomplete": 5}[found["verdict"]]


def accept(stage: Path, options: argparse.Namespace) -> int:
    """Runs the stages that the options name; the exit status."""
    wanted = options.stages.split(",") if options.stages else list(stages())
    unknown = [name for name in wanted if name not in stages()]
    if unknown:
        say(f"accept: there is no stage {', '.join(unknown)}; there are {', '.join(stages())}")
        return 2
    if (stage / PACKED).exists() and not (stage / "bin").exists():
        with tarfile.open(stage / PACKED) as archive:
            archive.extractall(stage)
    changed = [name for name, digest in read_json(stage / "stage.json")["files"].items()
               if not (stage / name).is_file() or sha256(stage / name) != digest]
    if changed:
        say(f"accept: {', '.join(changed[:5])} is not what --stage put there; make the stage anew")
        return 3
    devices = Devices.of_this_machine()
    if devices is None:
        say("accept: no GPU: nvidia-smi names none")
        return 4
    out = Path(options.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGINT, steps.interrupt)
    signal.signal(signal.SIGTERM, steps.interrupt)
    return Acceptance(stage, out, devices).run(wanted, options.minutes, options.again, options.at_once or devices.at_once())
