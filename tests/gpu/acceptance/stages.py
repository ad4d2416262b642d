# SPDX-License-Identifier: Apache-2.0
"""The stages of the acceptance: a table of steps, one command each."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptance import digests

LIMIT = 480  # seconds of a stage
TARGETS = ["cuda", "cuda-portable", "cuda-forward-backward"]
CANNOT_START = 127  # a shell's status for a command that it does not find
ALONE = ("memory",)  # stages that run before the others, one at a time: they take all of the device's memory
# Stages of which one runs at a time: together they ran out of the memory of a device of 139 GiB.
MEMORY = ("small", "tests")
# Suites of cuda_tests that are stages of their own. ForwardBackward was half of the time of `tests`, for which others wait.
OWN = ["Repeats", "Batch", "Large", "Sweep", "ForwardBackward"]


@dataclass
class Context:
    """The folder of the stage, read only, and that of its results."""

    stage: Path
    out: Path

    def program(self, name: str) -> str:
        return str(self.stage / "bin" / name)

    def folder(self, name: str) -> Path:
        return self.out / name

    def report(self, name: str) -> Path:
        return self.out / f"{name}.gtest.json"


@dataclass
class Step:
    """A command and what is made of it."""

    name: str
    command: Callable[[Context], list[str]]
    digest: Callable[[Path, str], dict[str, Any]] = digests.last_json
    # The command that goes on where the step was stopped; None where there is nothing to go on with.
    resumed: Callable[[Context], list[str] | None] = lambda _: None
    seconds: float = LIMIT
    shared: bool = False  # whether its processes share the GPU by CUDA's multi-process service
    lacking: int | None = None  # the status by which it says that this machine lacks what it needs


def gtest(name: str, program: str, tests: str, digest: Callable[[Path, str], dict[str, Any]] = digests.gtest) -> Step:
    """The tests of a program that a filter names."""
    return Step(name, lambda c: [c.program(program), f"--gtest_filter={tests}", "--gtest_brief=1",
                                 f"--gtest_output=json:{c.report(name)}"], digest)


def plumb(name: str, *words: str, **how: Any) -> Step:
    """A plumb command; {stage} and {out} in its words stand for the two folders."""
    return Step(name, lambda c: [c.program("plumb"), *(word.format(stage=c.stage, out=c.out) for word in words),
                                 "--json"], **how)


def campaign(name: str, folder: str, *words: str, each_time: tuple[str, ...] = (), **how: Any) -> Step:
    """A campaign that goes on where it was stopped. It does not remember `each_time`: without --jobs it goes on with a worker
    a processor, and a GPU has no memory for 64 of them."""
    def resumed(c: Context) -> list[str] | None:
        begun = (c.folder(folder) / "journal.jsonl").exists()
        return [c.program("plumb"), "fuzz", "--resume", str(c.folder(folder)), *each_time, "--json"] if begun else None
    return plumb(name, "fuzz", *words, *each_time, "--seed", "20261122", "--out", f"{{out}}/{folder}", resumed=resumed, **how)


def sanitizer(tool: str, bytes_at_most: int, seconds: int) -> Step:
    """compute-sanitizer over the corpus, each case once; initcheck needs memory as the driver gives it ("raw")."""
    def command(c: Context) -> list[str]:
        program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        return [program, "--tool", tool, "--error-exitcode", "9", c.program("corpus_once"), str(c.stage / "corpus"),
                str(bytes_at_most), *(["raw"] if tool == "initcheck" else [])]
    return Step(tool, command, digests.sanitizer, seconds=seconds, lacking=CANNOT_START)


def stages() -> dict[str, list[Step]]:
    """Every stage and its steps, in the order in which they begin; `tests` waits for `small`."""
    # Workers share the device's memory: a case with wide strides takes up to 10 GiB of it.
    jobs = str(min(os.cpu_count() or 1, 12))
    rest = "*Gpu*-" + ":".join(f"*Gpu{suite}*" for suite in OWN)
    targets = [word for target in TARGETS for word in ("--target", target)]
    return {
        "memory": [gtest("memory", "fuzz_tests", "*GpuMemory*")],
        "probe": [plumb("probe", "doctor", "--probe", digest=digests.probe, seconds=120)],
        "small": [campaign("campaign", "small-campaign", "--target", "+".join(TARGETS), "--budget", "300000cases",
                           "--lag", "16", "--case-timeout", "120s", each_time=("--jobs", jobs),
                           digest=digests.campaign, shared=True)],
        "mutants": [plumb("selftest", "selftest", "--cuda", "--budget", "10000cases", "--jobs", jobs,
                          digest=digests.selftest)],
        "sanitizer": [sanitizer("memcheck", 64 << 20, 100), sanitizer("initcheck", 64 << 20, 100),
                      sanitizer("synccheck", 64 << 20, 100)],
        # A stage of its own: beside other stages it took more than 260 s, the others of the sanitizer 82.
        "races": [sanitizer("racecheck", 1 << 20, LIMIT)],
        "defects": [gtest("defects", "fuzz_tests", "*GpuOneCause*", digests.gtest_with_properties)],
        "corpus": [plumb(target, "replay", "{stage}/corpus", "--target", target, digest=digests.replay)
                   for target in TARGETS],
        "production": [campaign("production", "production-campaign", "--production", *targets,
                                "--budget", "60cases", digest=digests.campaign)],
        "one_call": [gtest("one_call", "cuda_tests", "*GpuForwardBackward*")],
        "tests": [gtest("cuda_tests", "cuda_tests", rest),
                  gtest("hopper_tests", "hopper_tests", "*Gpu*"),
                  gtest("oracle_tests", "oracle_tests", "*Gpu*", digests.gtest_or_empty),
                  gtest("fuzz_tests", "fuzz_tests", "*Gpu*-*GpuProbe*:*GpuOneCause*:*GpuMemory*")],
        "repeats": [gtest("repeats", "cuda_tests", "*GpuRepeats*")],
        "batch": [gtest("batch", "cuda_tests", "*GpuBatch*")],
        "large": [gtest("large", "cuda_tests", "*GpuLarge*")],
        "sweep": [gtest("sweep", "cuda_tests", "*GpuSweep*")],
        "figures": [Step("figures", lambda c: [sys.executable, str(c.stage / "tightness.py"), "--plumb",
                                               c.program("plumb"), "--folder", str(c.folder("figures"))],
                         lacking=4)],
    }


def verdict_of(results: dict[str, Any]) -> str:
    """What the outcomes of all stages add up to."""
    outcomes = {its["outcome"] for its in results.values()}
    return "failed" if "failed" in outcomes else "passed" if outcomes == {"passed"} else "incomplete"


def sum_of(results: dict[str, Any]) -> dict[str, Any]:
    """What a summary says of all stages: CUDA's version, which `probe` found, their verdict, their seconds, and the stages."""
    probe = results.get("probe", {}).get("steps", {}).get("probe", {}).get("result", {})
    return {"cuda": probe.get("cuda_runtime"), "verdict": verdict_of(results),
            "seconds": round(sum(its.get("seconds", 0) for its in results.values()), 1), "stages": results}
