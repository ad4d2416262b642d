#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time, memory and error of this operator and of its peers, side by side in one run.

usage: bench/peers.py [--shapes NxHxV[_half_ignored],…] [--peers REGEX] [--rounds R] [--limit S]
                      [--together J] [--devices I,J,…] [--library peers_operator.so] [--context KEY=VALUE…]
                      [--out FILE.json]
       bench/peers.py --table FILE.json [--shapes …]    the Markdown of a result: a table a shape
       bench/peers.py --steps FILE.json                 … and one of all shapes' steps
       bench/peers.py --store FILE.json                 keeps a result in bench/results/, by its --context kernel=TREE

Needs PyTorch with CUDA, and whichever peers are to be seen (bench/peer_list.py says which there are and what each
computes). One that is absent, refuses a shape, runs out of memory, crashes or hangs is listed with the reason; the
others go on. Every shape is measured in a process of its own, on one GPU: the first, or whichever of --devices is
free, which have to be of one kind. J shapes a GPU (default 1) are prepared side by side, which saves time where there
is memory for all; never is one timed meanwhile on the same GPU.

Time: CUDA events, median of R rounds (default 10) in each of which every peer is timed once, in turns, after 200 ms
of its own steps: a GPU at its power limit gives whoever comes after a light kernel a higher clock, up to a tenth of
the time. forward is without gradients (torch.no_grad); step is forward and backward; backward is the part of the step
after its forward, next to nothing for a peer that computes gradients in the forward pass. over_ours: step over our
step, median over rounds and its 95 % interval. Memory: the largest that torch's allocator held beyond inputs, outputs
and gradients. Error: against float64 (bench/peer_oracle.py).

Exit status: 0 measured, 1 of some shape nothing was, 2 usage, 4 no PyTorch or no GPU, 5 interrupted (what was
measured is written).
"""

import argparse
import datetime
import json
import math
import os
import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from median_interval import median_interval
from peer_process import Slots, interrupted, listen
from peer_results import read, table
from peer_worker import shape_of

HERE = Path(__file__).resolve().parent
SHAPES = ["8192x4096x131072", "8192x4096x151936", "8192x2048x131072", "8192x1024x151936", "8192x2304x256000",
          "4096x7168x129280", "128x4096x151936", "32768x4096x131072", "8192x4096x151936_half_ignored"]
LEAST_ROUNDS = 6
STORED = ("table", "steps", "store")  # what may be asked of a stored result
OF_A_REPORT = ("date", "rounds", "machine", "shapes")  # its own keys


def plain(value):
    """`value` as JSON has it: a number in an object that is not finite becomes null, with the word beside it."""
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


def measure(shape, arguments, slots):
    """One result a peer. A worker that dies is started again without the peer at which it died."""
    with slots.take() as (device, turns):
        return measure_on(shape, arguments, turns, {} if device is None else {"CUDA_VISIBLE_DEVICES": device})


def measure_on(shape, arguments, turns, environment):
    results = {}
    for _ in range(20):
        # A peer that has failed is not tried twice; one that has not must run again to be timed.
        skip = [name for name, result in results.items() if "reason" in result]
        command = [sys.executable, str(HERE / "peer_worker.py"), shape, "--rounds", str(arguments.rounds),
                   "--peers", arguments.peers, "--library", str(arguments.library)]
        turns.prepare(shape)
        try:
            messages, fault = listen(command + [word for name in skip for word in ("--skip", name)], arguments.limit,
                                     lambda: turns.begin(shape), environment)
        finally:
            turns.end(shape)
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
        for i, what in enumerate(("forward", "step", "backward")):
            middle, low, high = median_interval([values[i] for values in rounds])
            result[f"{what}_ms"], result[f"{what}_ms_interval"] = round(middle, 3), [round(low, 3), round(high, 3)]
        if ours:
            for i, what in ((0, "forward_over_ours"), (1, "over_ours")):
                middle, low, high = median_interval([a[i] / b[i] for a, b in zip(rounds, ours)])
                result[what] = [round(value, 4) for value in (middle, low, high)]
    return [{"name": name, **plain(result)} for name, result in results.items()]


def machine(devices):
    import torch
    import platform
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


def visible(devices):
    """What CUDA_VISIBLE_DEVICES calls each, as numbered in this process."""
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


def work_of(shape):
    n, h, v, _ = shape_of(shape)
    return n * h * v


def parse():
    """(parser, arguments), --context as an object; names are looked at later."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes")
    parser.add_argument("--peers", default="", metavar="REGEX")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=180, help="seconds that a peer may take at first")
    parser.add_argument("--together", type=int, default=1, metavar="J", help="shapes prepared side by side, of a GPU")
    parser.add_argument("--devices", metavar="I,J,…", help="GPUs, as torch numbers them")
    parser.add_argument("--library", type=Path, default=HERE / "peers_operator.so")
    parser.add_argument("--context", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path)
    stored = parser.add_mutually_exclusive_group()
    for name in STORED:
        stored.add_argument(f"--{name}", type=Path, metavar="FILE.json")
    parser.add_argument("--folder", type=Path, default=HERE / "results", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        re.compile(arguments.peers)
    except re.error as fault:
        parser.error(f"--peers '{arguments.peers}': {fault}")
    if arguments.rounds < LEAST_ROUNDS:
        parser.error(f"--rounds {arguments.rounds}: fewer than {LEAST_ROUNDS} have no 95 % interval")
    arguments.shapes = arguments.shapes.split(",") if arguments.shapes is not None else []
    for shape in arguments.shapes:
        try:
            shape_of(shape)
        except argparse.ArgumentTypeError as fault:
            parser.error(f"--shapes: {fault}")
        if arguments.shapes.count(shape) > 1:
            parser.error(f"--shapes: {shape} stands there {arguments.shapes.count(shape)} times")
    if arguments.devices is not None and not re.fullmatch(r"\d+(,\d+)*", arguments.devices):
        parser.error(f"--devices '{arguments.devices}': numbers are needed")
    context = {}
    for pair in arguments.context:
        key, equals, value = pair.partition("=")
        if not equals or key in (*OF_A_REPORT, *context, ""):
            parser.error(f"--context '{pair}': " + ("KEY=VALUE is needed" if not equals or not key else
                                                    f"'{key}' is taken"))
        context[key] = value
    arguments.context = context
    return parser, arguments


def main():
    parser, arguments = parse()
    for name in STORED:
        path = getattr(arguments, name)
        if path:
            try:
                print(read(name, path, arguments))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
                parser.error(f"--{name} {path}: {fault!r}")
            return 0
    shapes = arguments.shapes or SHAPES
    try:
        import torch
        why = "" if torch.cuda.is_available() else f"torch {torch.__version__} sees no CUDA device"
    except ImportError as fault:
        why = f"PyTorch: {fault}"
    if why:
        print(f"peers.py: {why}", file=sys.stderr)
        return 4
    from peer_list import peers
    listed = [peer.name for peer in peers(arguments.library)]
    if not any(re.search(arguments.peers, name) for name in listed):
        parser.error(f"--peers '{arguments.peers}': matches none of {', '.join(listed)}")
    if arguments.out:
        try:
            arguments.out.open("a", encoding="utf-8").close()  # what is there stays until there is something new
        except OSError as fault:
            parser.error(f"--out {arguments.out}: {fault.strerror}")
    try:
        devices = [int(number) for number in arguments.devices.split(",")] if arguments.devices else []
        names, found = visible(devices), machine(devices)
    except ValueError as fault:
        parser.error(f"--devices {arguments.devices}: {fault}")
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    report = {"date": now, "rounds": arguments.rounds, **arguments.context, "machine": found, "shapes": {}}
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupted.set())
    slots = Slots(names or [None], max(1, arguments.together))
    measured = {}
    with ThreadPoolExecutor(slots.count) as pool:
        # The longest first, so that no GPU has it alone at the end.
        running = {pool.submit(measure, shape, arguments, slots): shape
                   for shape in sorted(shapes, key=work_of, reverse=True)}
        for done in as_completed(running):
            measured[running[done]] = done.result()
            print(table(running[done], measured[running[done]]), flush=True)
            report["shapes"] = {shape: measured[shape] for shape in shapes if shape in measured}
            if arguments.out:  # anew after each shape: what is measured is kept
                arguments.out.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if interrupted.is_set():
        return 5
    nothing = [shape for shape, results in report["shapes"].items() if not any("step_ms" in each for each in results)]
    if nothing:
        print(f"peers.py: nothing was measured of {', '.join(nothing)}", file=sys.stderr)
    return 1 if nothing else 0


if __name__ == "__main__":
    sys.exit(main())
