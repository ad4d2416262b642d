# SPDX-License-Identifier: Apache-2.0
"""Measures time, memory and error of this operator and of its peers, side by side in one run.

usage: python3 bench/peers [--shapes NxHxV[_half_ignored],…] [--peers REGEX] [--rounds R] [--regimes] [--errors] [--limit S]
                      [--devices I,J,…] [--library peers_operator.so] [--context KEY=VALUE…] [--out FILE.json]
                      [--resume] [--minutes M]
       python3 bench/peers --table FILE.json [--shapes …]    the Markdown of a result: a table a shape
       python3 bench/peers --steps FILE.json                 … and one of all shapes' steps
       python3 bench/peers --store FILE.json                 keeps a result in bench/results/, by its --context kernel=TREE

Needs PyTorch with CUDA, and whichever peers are to be seen (bench/peers/catalogue.py says which there are and what each
computes). One that is absent, refuses a shape, runs out of memory, crashes or hangs is listed with the reason; the
others go on. Every shape is measured in a process of its own, alone on one GPU: the first, or whichever of --devices is
free, which have to be of one kind.

Time: CUDA events, median of R rounds (default 10) in each of which every peer is timed once, in turns, after 200 ms
of its own steps: a GPU at its power limit gives whoever comes after a light kernel a higher clock, up to a tenth of
the time. forward is without gradients (torch.no_grad); step is forward and backward; backward is the part of the step
after its forward, next to nothing for a peer that computes gradients in the forward pass. over_ours: step over our
step, median over rounds and its 95 % interval; by_round has each round's numbers. --regimes adds to each round a second of
steps of one kind, with the energy that the board takes where NVML counts it (row_step_ms, step_joules), and a step and a
forward pass alone after 50 ms of rest (burst_step_ms, burst_forward_ms); R is 12 then. Memory: the largest that torch's
allocator held beyond inputs, outputs and gradients. Error: against float64 (bench/peers/oracle.py).

  --errors      measures no time and no memory: errors alone, also of the gradients for an upstream gradient of the entropy
                alone on flat rows, where a peer takes one: hidden is scaled down so that the logits of a row have a standard
                deviation of 1 and of 1/16, for 2. Measured are logits saved as exponents and in fp32, unless --peers says
                otherwise
  --limit S     ends a peer that says nothing for so long at first [180]; quack's tuning at 8192 rows takes longer
  --resume      goes on with FILE.json, which has to be of the same rounds, context and machine: it keeps the shapes there, and
                measures those that it lacks or in which it was interrupted
  --minutes M   begins no shape that would end later than M minutes from now, by the longest so far

The peers come with `pip install verl liger-kernel cut-cross-entropy quack-kernels "nvidia-cutlass-dsl[cu13]" cuda-tile`
(the last for the cuTile peers); verl may be installed without its dependencies. quack-kernels 0.6.5 needs
nvidia-cutlass-dsl 4.7.0: 4.7.1 and 4.8.1 refuse it at import. The release build has peers_operator.so
in build/release/bench/. --devices 0,1 spreads the shapes over two GPUs.

Exit status: 0 measured, 1 nothing was measured at some shape, 2 usage, 4 no PyTorch or no GPU, 5 interrupted, or shapes
are left (what was measured is written).
"""

import argparse
import datetime
import json
import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from report.command_line import pattern
from report.deadline import Deadline
from report.kept_errors import SAVED
from report.kept_errors import table as errors_table
from report.peer_tables import table

from .measure import LEAST_ROUNDS, machine, measure, visible
from .process import interrupted
from .results import WRITTEN, go_on_from, read
from .worker import shape_of

BENCH = Path(__file__).resolve().parents[1]  # or the folder of bench/run --stage
SHAPES = ["8192x4096x131072", "8192x4096x151936", "8192x2048x131072", "8192x1024x151936", "8192x2304x256000",
          "4096x7168x129280", "128x4096x151936", "32768x4096x131072", "8192x4096x151936_half_ignored", "8192x4096x128256",
          "8192x2048x128256", "8192x3584x152064"]
ROUNDS, ROUNDS_OF_REGIMES = 10, 12
STORED = ("table", "steps", "store")  # what may be asked of a stored result
OF_A_REPORT = ("date", "rounds", "machine", "shapes", *WRITTEN)  # its own keys


def work_of(shape: str) -> int:
    n, h, v, _ = shape_of(shape)
    return n * h * v


def parse(words: list[str]) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Returns (parser, arguments), --context as an object; names are looked at later."""
    parser = argparse.ArgumentParser(prog="bench/peers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes")
    parser.add_argument("--peers", type=pattern, metavar="REGEX")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--regimes", action="store_true")
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--limit", type=float, default=180, help="seconds that a peer may take at first")
    parser.add_argument("--devices", metavar="I,J,…", help="GPUs, as torch numbers them")
    parser.add_argument("--library", type=Path, default=BENCH / "peers_operator.so")
    parser.add_argument("--context", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="M")
    stored = parser.add_mutually_exclusive_group()
    for name in STORED:
        stored.add_argument(f"--{name}", type=Path, metavar="FILE.json")
    parser.add_argument("--folder", type=Path, default=BENCH / "results", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.errors and (arguments.rounds is not None or arguments.regimes):
        parser.error("--errors: it has no rounds and no regimes")
    if arguments.peers is None:
        arguments.peers = re.compile(f"^{SAVED}" if arguments.errors else "")
    if arguments.errors:
        arguments.rounds = 0
    elif arguments.rounds is None:
        arguments.rounds = ROUNDS_OF_REGIMES if arguments.regimes else ROUNDS
    if arguments.rounds < LEAST_ROUNDS and not arguments.errors:
        parser.error(f"--rounds {arguments.rounds}: fewer than {LEAST_ROUNDS} have no 95 % interval")
    if arguments.resume and not arguments.out:
        parser.error("--resume: --out FILE.json is needed")
    if not arguments.minutes > 0:
        parser.error(f"--minutes {arguments.minutes:g}: more than 0 are needed")
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


def measure_all(shapes: list[str], arguments: argparse.Namespace, devices: list[str], report: dict) -> list[str]:
    """Puts the results of `shapes` into `report`, in that order, and writes it after each. Returns the shapes for which there
    was no time."""
    free = SimpleQueue()
    for name in devices or [None]:
        free.put(name)
    deadline, left = Deadline(arguments.minutes), []

    def measure_in_time(shape: str) -> list[dict] | None:
        if interrupted.is_set() or not deadline.has_time():
            return None
        with deadline.piece():
            return measure(shape, arguments, free)

    with ThreadPoolExecutor(free.qsize()) as pool:
        # The longest first, so that no GPU has it alone at the end.
        lacking = sorted(set(shapes) - set(report["shapes"]), key=work_of, reverse=True)
        running = {pool.submit(measure_in_time, shape): shape for shape in lacking}
        for done in as_completed(running):
            shape, results = running[done], done.result()
            if results is None:
                left.append(shape)
                continue
            print(errors_table({shape: results}) if arguments.errors else table(shape, results), flush=True)
            found = report["shapes"] | {shape: results}
            report["shapes"] = {each: found[each] for each in [*shapes, *found] if each in found}
            if arguments.out:  # anew after each shape: what is measured is kept
                arguments.out.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return left


def main(words: list[str]) -> int:
    parser, arguments = parse(words)
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
        print(f"bench/peers: {why}", file=sys.stderr)
        return 4
    from .catalogue import peers
    listed = [peer.name for peer in peers(arguments.library)]
    if not any(map(arguments.peers.search, listed)):
        parser.error(f"--peers '{arguments.peers.pattern}': matches none of {', '.join(listed)}")
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
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    report = {"date": now, "rounds": arguments.rounds, **arguments.context, "machine": found, "shapes": {}}
    if arguments.resume:
        try:
            go_on_from(arguments.out, report)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
            parser.error(f"--resume {arguments.out}: {fault}")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupted.set())
    left = measure_all(shapes, arguments, names, report)
    if left:
        print(f"bench/peers: left are {', '.join(left)}", file=sys.stderr)
    if interrupted.is_set() or left:
        return 5
    least = "errors" if arguments.errors else "step_ms"
    nothing = [shape for shape, results in report["shapes"].items() if not any(least in each for each in results)]
    if nothing:
        print(f"bench/peers: nothing was measured of {', '.join(nothing)}", file=sys.stderr)
    return 1 if nothing else 0
