# SPDX-License-Identifier: Apache-2.0
"""Measures one shape: starts its worker, again where a peer kills it, and makes one result a peer of what it says."""

import argparse
import math
import os
import sys
from pathlib import Path
from queue import SimpleQueue

from report.median_interval import median_interval

from .process import interrupted, listen

PACKAGE = Path(__file__).resolve().parent
LEAST_ROUNDS = 6  # fewer have no 95 % interval
# What a round has of a peer, and the result's name of its ratio to ours.
RATIOS = {"forward": "forward_over_ours", "step": "over_ours", "row_step": "row_over_ours", "step_joules": "joules_over_ours",
          "burst_forward": "burst_forward_over_ours", "burst_step": "burst_over_ours"}


def plain(value: object) -> object:
    """Returns `value` as JSON has it: a number in an object that is not finite becomes null, with the word beside it."""
    if isinstance(value, dict):
        found = {}
        for name, entry in value.items():
            found[name] = plain(entry)
            if isinstance(entry, float) and not math.isfinite(entry):
                found[f"{name}_is"] = str(entry)
        return found
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def measure(shape: str, arguments: argparse.Namespace, free: SimpleQueue[str | None]) -> list[dict]:
    """Returns one result a peer, measured on the next device of `free`; None: whichever a worker finds."""
    device = free.get()
    try:
        return measure_on(shape, arguments, {} if device is None else {"CUDA_VISIBLE_DEVICES": device})
    finally:
        free.put(device)


def measure_on(shape: str, arguments: argparse.Namespace, environment: dict[str, str]) -> list[dict]:
    """Returns one result a peer. A worker that dies is started again without the peer at which it died."""
    results = {}
    for _ in range(20):
        # A peer that has failed is not tried twice; one that has not must run again to be timed.
        skip = [name for name, result in results.items() if "reason" in result]
        command = [sys.executable, str(PACKAGE), "worker", shape, "--rounds", str(arguments.rounds),
                   "--peers", arguments.peers.pattern, "--library", str(arguments.library),
                   *(["--regimes"] if arguments.regimes else []), *(["--errors"] if arguments.errors else [])]
        messages, fault = listen(command + [word for name in skip for word in ("--skip", name)], arguments.limit,
                                 environment)
        at, times = None, {}
        for message in messages:
            at = message.get("starts", at)
            if "peer" in message:
                results[message.pop("peer")] = message
            for name, round_ in message.get("times", {}).items():
                times.setdefault(name, []).append(round_)
        if not fault or interrupted.is_set() or at is None or at.startswith("round "):
            break
        results[at] = {"reason": fault}
    if fault:
        if at is None:
            results["the worker"] = {"reason": f"before its first peer: {fault}"}
        for name, result in results.items():
            if len(times.get(name, [])) < LEAST_ROUNDS:
                result.setdefault("reason", f"at {at or 'the start'}: {fault}")
    ours = times.get("plumbline")
    for name, rounds in times.items():
        result = results[name]
        if "reason" in result:
            continue
        result["by_round"] = {what: [round(values[what], 3) for values in rounds] for what in rounds[0]}
        for what in rounds[0]:
            middle, low, high = median_interval([values[what] for values in rounds])
            key = what if what.endswith("_joules") else f"{what}_ms"
            result[key], result[f"{key}_interval"] = round(middle, 3), [round(low, 3), round(high, 3)]
            if ours and what in RATIOS:
                ratio = median_interval([a[what] / b[what] for a, b in zip(rounds, ours)])
                result[RATIOS[what]] = [round(value, 4) for value in ratio]
    return [{"name": name, **plain(result)} for name, result in results.items()]


def machine(devices: list[int]) -> dict:
    """Returns what the times are of: device, versions, driver. Raises ValueError where the devices differ in kind."""
    import platform

    import torch
    names = {torch.cuda.get_device_name(i) for i in devices or [None]}  # None: the first
    if len(names) > 1:
        raise ValueError(f"these are {' and '.join(sorted(names))}; times of one kind alone can stand side by side")
    found = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version(),
             "device": names.pop(), "devices": max(len(devices), 1), "driver": None}
    try:
        import triton
        found["triton"] = triton.__version__
    except ImportError:
        found["triton"] = None
    try:
        found["driver"] = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
    except OSError:
        pass
    return found


def visible(devices: list[int]) -> list[str]:
    """Returns what CUDA_VISIBLE_DEVICES calls each, as numbered in this process."""
    import torch
    count = torch.cuda.device_count()
    for i in devices:
        if i >= count:
            raise ValueError(f"there is no {i}: torch sees {count}")
        if devices.count(i) > 1:
            raise ValueError(f"{i} stands there {devices.count(i)} times")
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = names.split(",") if names else [str(i) for i in range(count)]
    return [names[i] for i in devices]
