# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of one stage: each under its limit of time, interruptible, and judged."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from acceptance import digests
from acceptance.stages import CANNOT_START, Context, Step

Entry = dict[str, Any]  # what a step, or a stage, came to

interrupted = False


def interrupt(*_: object) -> None:
    """Handler of SIGINT and SIGTERM."""
    global interrupted
    interrupted = True


@contextlib.contextmanager
def shared_by_processes(folder: Path, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """CUDA's multi-process service, a daemon of our own, where there is one; what to add to `environment`.

    Without it the workers of a campaign take turns on the GPU: 840 cases a second on an H200, with it 3 300.
    One that breaks its context then breaks the others', so it is for targets that are not expected to.
    """
    control = os.environ.get("PLUMB_MPS_CONTROL")
    if control is None:
        control = shutil.which("nvidia-cuda-mps-control") or "/usr/local/nvidia/bin/nvidia-cuda-mps-control"
    if not os.access(control, os.X_OK):
        yield {}
        return
    added = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "mps"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "mps-log")}
    for path in added.values():
        os.makedirs(path, exist_ok=True)
    environment = dict(environment, **added)
    started = subprocess.run([control, "-d"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             check=False)
    try:
        yield added if started.returncode == 0 else {}
    finally:
        if started.returncode == 0:
            subprocess.run([control], input="quit\n", env=environment, text=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)


def stop(child: subprocess.Popen[bytes]) -> None:
    """Ends a process group: by SIGINT, so that a campaign saves itself, and by SIGKILL where that does not help."""
    for number, patience in [(signal.SIGINT, 20), (signal.SIGKILL, 10)]:
        try:
            os.killpg(child.pid, number)
            child.wait(patience)
            return
        except subprocess.TimeoutExpired:
            pass
        except ProcessLookupError:
            return


def run(command: list[str], log: Path, seconds: float,
        environment: dict[str, str]) -> tuple[int | None, str, str | None]:
    """(status, output, None or why it was stopped: "signal" or "time"); a step that was stopped has no status."""
    with open(log, "w+", encoding="utf-8", errors="replace") as file:
        file.write(" ".join(command) + "\n")
        file.flush()
        try:
            child = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
                                     env=environment)
        except OSError as fault:
            return CANNOT_START, str(fault), None
        end, stopped = time.monotonic() + seconds, None
        while child.poll() is None:
            if interrupted or time.monotonic() > end:
                stopped = "signal" if interrupted else "time"
                stop(child)
                break
            time.sleep(0.05)
        file.seek(0)
        return (None if stopped else child.returncode), file.read(), stopped


def judge(step: Step, context: Context, entry: Entry, output: str, stopped: str | None, own_time: bool) -> None:
    """Sets the entry's outcome, and `why` where it is not "passed". own_time: whether it was given all of its own."""
    status = entry["status"]
    if stopped == "time" and own_time and not step.resumed(context):
        outcome, why = "failed", f"does not end in {step.seconds} s"
    elif stopped or status == 5:
        outcome, why = "interrupted", {"signal": "by a signal", "time": "out of time"}.get(stopped, "status 5")
    elif step.lacking is not None and status == step.lacking:
        outcome, why = "unavailable", (output.strip().splitlines() or [f"status {status}"])[-1]
    elif status != 0:
        outcome, why = "failed", f"status {status}"
    elif "unreadable" in entry:
        outcome, why = "failed", f"what it says cannot be read: {entry['unreadable']}"
    elif digests.says_nothing(entry["result"]):
        outcome, why = "failed", "it tested nothing"
    else:
        outcome, why = "passed", None
    entry.update({"outcome": outcome, **({"why": why} if why else {})})


def stage_outcome(steps: Sequence[Step], results: dict[str, Entry]) -> str:
    """The worst outcome of a stage's steps; one that has no result yet is as good as interrupted."""
    outcomes = [results.get(step.name, {"outcome": "interrupted"})["outcome"] for step in steps]
    return next((outcome for outcome in ["failed", "interrupted", "unavailable"] if outcome in outcomes), "passed")


def is_done(result: Entry, steps: Sequence[Step]) -> bool:
    """Whether every step has passed or failed, so that only --again runs one."""
    return all(result.get("steps", {}).get(step.name, {}).get("outcome") in ("passed", "failed") for step in steps)


def run_step(step: Step, stage: str, context: Context, left: float, added: dict[str, str]) -> Entry:
    """Runs one step in `left` seconds, or its own time if that is less; `added` to its environment."""
    started = time.monotonic()
    command = step.resumed(context) or step.command(context)
    context.report(step.name).unlink(missing_ok=True)  # a program that crashes would leave an older one
    environment = dict(os.environ, PLUMB_STAGE=str(context.stage), **added)
    with shared_by_processes(context.out, environment) if step.shared else contextlib.nullcontext({}) as service:
        status, output, stopped = run(command, context.out / f"{stage}-{step.name}.log", min(step.seconds, left),
                                      dict(environment, **service))
    entry: Entry = {"command": " ".join(command), "status": status, "seconds": round(time.monotonic() - started, 1)}
    try:
        entry["result"] = step.digest(context.report(step.name), output)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        entry["result"], entry["unreadable"] = {}, repr(fault)
    if status != 0:
        entry["tail"] = output.splitlines()[-12:]
    judge(step, context, entry, output, stopped, step.seconds <= left)
    return entry


def run_stage(name: str, steps: Sequence[Step], context: Context, seconds: float, before: Entry,
              keep: Callable[[Entry], object], added: dict[str, str]) -> Entry:
    """Runs the steps that are not done in `before`, `added` to their environment; keep(result) is called when one
    begins or ends."""
    begun, spent = None, before.get("seconds", 0)
    results: dict[str, Entry] = {}

    def result() -> Entry:
        taken = 0 if begun is None else time.monotonic() - begun
        return {"outcome": stage_outcome(steps, results), "seconds": round(spent + taken, 1), "steps": results}
    for step in steps:
        if is_done(before, [step]):
            results[step.name] = before["steps"][step.name]
            continue
        keep(result())
        started = time.monotonic()
        begun = started if begun is None else begun
        left = seconds - (started - begun)
        if left <= 0:
            break
        results[step.name] = run_step(step, name, context, left, added)
        if results[step.name]["outcome"] == "interrupted":
            break
    keep(result())
    return result()
