# SPDX-License-Identifier: Apache-2.0
"""The steps: what each runs, which of them share a GPU, and what is kept of each as soon as it has ended."""

import dataclasses
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

GRACE = 10.0  # seconds from SIGINT to SIGKILL
MARGIN = 20.0  # seconds that are left to the table


@dataclasses.dataclass(frozen=True)
class Step:
    """A command, and how its figures are read of its output and of the files that it wrote into `out`."""

    name: str
    command: list[str]
    figures: Callable[[str, Path], dict[str, Any]]
    asked: str
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    folder: Path | None = None


def gpus() -> list[dict[str, str]]:
    """Name, driver and UUID of each GPU; none where nvidia-smi says nothing."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"]
    try:
        text = subprocess.run(query, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return [dict(zip(("name", "driver", "uuid"), map(str.strip, line.split(",", 2)))) for line in text.splitlines()]


def tests_of(text: str, _: Path) -> dict[str, Any]:
    """Counts of a run of unittest, and the reasons of those that were skipped."""
    ran = re.search(r"^Ran (\d+) tests?", text, re.MULTILINE)
    failed = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", text))
    return {"ran": int(ran[1]) if ran else 0, "failed": failed, "skipped": re.findall(r"skipped ['\"](.+)['\"]", text)}


def stored(name: str, keys: Sequence[str]) -> Callable[[str, Path], dict[str, Any]]:
    """Reads these parts of a stored result."""
    def read(_: str, out: Path) -> dict[str, Any]:
        path = out / name
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {key: found[key] for key in keys if found.get(key) is not None}
    return read


def steps_of(root: Path, stage: Path, out: Path, manifest: dict[str, str], budget: str) -> dict[str, Step]:
    """All steps by name. `budget`: of each campaign on a planted defect."""
    python = sys.executable
    bench = [python, "-B", str(root / "bench/store")]
    built = ["--python", python, "--as-built", str(stage / "keys")]
    tests = root / "tests/fuzz/python"
    wheel = {"PLUMBLINE_WHEEL": str(stage / manifest["wheel"])}
    wheel |= {"PLUMBLINE_PIP": str(stage / manifest["pip"])} if manifest["pip"] else {}
    every = [
        Step("rate", [*bench, "triton-rate", *built, "--defect-seconds", "45", "--out", str(out / "triton-rate.json")],
             stored("triton-rate.json", ("right", "defective")), "60/s; 25 % first calls; 33 % shrinking"),
        Step("planted", [*bench, "planted-triton", *built, "--at-once", "13", "--budget", budget, "--out",
                         str(out / "planted-triton.json")],
             stored("planted-triton.json", ("figures", "right")), "12 found; median 60 s; p90 300 s; 1.2 a cause"),
        Step("wheel", [python, "-B", str(tests / "wheel_test.py"), "-v"], tests_of, "no test fails", wheel, tests),
        Step("heap", [python, "-B", str(tests / "device_test.py"), "-v"], tests_of, "no test fails", {}, tests),
        Step("torch", [python, "-B", str(root / "tests/kernel/torch/device_test.py"), "-v"], tests_of, "no test fails", {},
             root / "tests/kernel/torch"),
        Step("sight", [*bench, "production-sight", *built, "--out", str(out / "production-sight.json")],
             stored("production-sight.json", ("targets",)), "cuda and right clean, the others named"),
    ]
    return {step.name: step for step in every}


Plan = list[list[list[tuple[str, int]]]]


def lanes(names: Sequence[str], number: int) -> Plan:
    """What runs beside each other: lanes of groups of (step, GPU). A group begins when the one before it has ended. The
    rate is measured alone on its GPU: with one GPU what else needs it follows. The wheel's test needs none."""
    others = [(name, 0 if number < 2 else 1) for name in ("planted", "heap", "torch", "sight") if name in names]
    rate = [("rate", 0)] if "rate" in names else []
    wheel = [("wheel", 0)] if "wheel" in names else []
    found = [[rate], [others], [wheel]] if number > 1 else [[rate, others], [wheel]]
    return [groups for lane in found if (groups := [group for group in lane if group])]


def run(step: Step, out: Path, seconds: float, device: str | None) -> dict[str, Any]:
    """Runs a step within its time; its record. The output is in OUT/NAME.log as it comes."""
    environment = os.environ | step.environment | ({"CUDA_VISIBLE_DEVICES": device} if device else {})
    log = out / f"{step.name}.log"
    begun, cut = time.monotonic(), False
    with open(log, "wb") as file:
        process = subprocess.Popen(step.command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   env=environment, cwd=step.folder, start_new_session=True)
        try:
            process.wait(max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            cut = True
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    status = process.returncode
    outcome = "cut" if cut else {0: "passed", 77: "unavailable"}.get(status, "failed")
    text = log.read_text(encoding="utf-8", errors="replace")
    record = {"outcome": outcome, "status": status, "seconds": round(time.monotonic() - begun, 1), "asked": step.asked}
    try:
        record["figures"] = step.figures(text, out)
    except (OSError, ValueError, KeyError) as error:
        record["figures"] = {"unreadable": str(error)}
    if outcome != "passed":
        record["last"] = (text.strip().splitlines() or [""])[-1][:300]
    return record


def run_all(steps: dict[str, Step], plan: Plan, out: Path, deadline: float,
            found: Sequence[dict[str, str]], about: dict[str, Any]) -> dict[str, Any]:
    """Runs the lanes beside each other; the summary, which is written anew after each step."""
    lock = threading.Lock()
    summary = {"date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}", **about,
               "devices": [{k: v for k, v in gpu.items() if k != "uuid"} for gpu in found], "steps": {}}

    def keep(name: str, record: dict[str, Any]) -> None:
        with lock:
            summary["steps"][name] = record
            part = out / "summary.json.part"
            part.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
            part.replace(out / "summary.json")
            print(f"{name}: {record['outcome']} after {record['seconds']} s", flush=True)

    def single(name: str, index: int) -> None:
        left = deadline - MARGIN - time.monotonic()
        if left < 1:
            keep(name, {"outcome": "not run", "seconds": 0, "asked": steps[name].asked, "figures": {}})
            return
        device = found[index]["uuid"] if len(found) > 1 else None
        keep(name, run(steps[name], out, left, device) | {"gpu": index})

    def at_once(function: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> None:
        threads = [threading.Thread(target=function, args=each) for each in arguments]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def lane(groups: list[list[tuple[str, int]]]) -> None:
        for group in groups:
            at_once(single, group)

    at_once(lane, [(groups,) for groups in plan])
    return summary


def keep_campaigns(root: Path, out: Path) -> None:
    """Takes along the records of planted defects whose campaigns are through, also where others were cut."""
    for path in (root / "build/campaigns").glob("planted-triton-*/*.json"):
        target = out / path.parent.name
        target.mkdir(exist_ok=True)
        shutil.copy(path, target)
