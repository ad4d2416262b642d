#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time, memory and error of this operator and of its peers, side by side in one run on one GPU.

usage: bench/peers.py [--shapes NxHxV[_half_ignored],…] [--peers REGEX] [--rounds R] [--limit S]
                      [--together J] [--library peers_operator.so] [--context KEY=VALUE…] [--out FILE.json]
       bench/peers.py --table FILE.json        the Markdown of a stored result

Needs PyTorch with CUDA, and whichever peers are to be seen (bench/peer_list.py says which there are and what each
computes). One that is absent, refuses a shape, runs out of memory, crashes or hangs is listed with the reason; the
others go on. Every shape is measured in a process of its own. J of them (default 1)
are prepared side by side, which saves time where there is memory for all; never is one timed meanwhile.

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
import gc
import json
import math
import re
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from median_interval import median_interval
from peer_process import Turns, interrupted, listen, tell, wait_for_turn

HERE = Path(__file__).resolve().parent
SHAPES = ["8192x4096x131072", "8192x4096x151936", "8192x2048x131072", "8192x1024x151936", "8192x2304x256000",
          "4096x7168x129280", "128x4096x151936", "32768x4096x131072", "8192x4096x151936_half_ignored"]
IGNORED = -100
LEAST_ROUNDS = 6
SETTLE_MS = 200
OF_A_REPORT = ("date", "rounds", "machine", "shapes")  # its own keys


def shape_of(name):
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)x([1-9]\d*)(_half_ignored)?", name)
    if not match:
        raise argparse.ArgumentTypeError(f"'{name}' is no NxHxV or NxHxV_half_ignored")
    return (*map(int, match.groups()[:3]), bool(match[4]))


# ---- one shape, in a process of its own


class Worker:
    def __init__(self, name, rounds):
        import torch
        self.torch, self.rounds = torch, rounds
        n, h, v, half_ignored = shape_of(name)
        device = torch.device("cuda")
        generator = torch.Generator(device).manual_seed(20261122)
        normal = dict(generator=generator, device=device)
        self.hidden = torch.randn(n, h, **normal).bfloat16()
        self.weight = torch.empty(v, h, dtype=torch.bfloat16, device=device)
        for first in range(0, v, 16384):
            rows = self.weight[first:first + 16384]
            rows.copy_(torch.randn(rows.shape, **normal) * (2 / h ** 0.5))
        self.labels = torch.randint(v, (n,), **normal)
        self.g, self.k = torch.randn(n, **normal), torch.randn(n, **normal)
        self.half_ignored = half_ignored
        if half_ignored:
            self.labels[torch.rand(n, **normal) < 0.5] = IGNORED
        self.hidden.requires_grad_()
        self.weight.requires_grad_()

    def upstream_of(self, outputs):
        one = {"logprob": self.g, "nll": -self.g, "entropy": self.k}
        return [one[name].to(tensor.dtype) if name in one else self.torch.ones_like(tensor)
                for name, tensor in outputs.items()]

    def backward(self, outputs):
        return self.torch.autograd.grad(list(outputs.values()), [self.hidden, self.weight], self.upstream_of(outputs))

    def held(self, work):
        """MiB held at most while `work` runs, beyond what was held before and what it returns."""
        cuda = self.torch.cuda
        gc.collect()
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        returned = work()
        cuda.synchronize()
        returned = sum(tensor.numel() * tensor.element_size() for tensor in returned)
        return (cuda.max_memory_allocated() - before - returned) / 2 ** 20

    def forward(self, call):
        with self.torch.no_grad():
            return list(call(self.hidden, self.weight, self.labels).values())

    def step(self, call):
        outputs = call(self.hidden, self.weight, self.labels)
        return [*outputs.values(), *self.backward(outputs)]

    def examine(self, call, peer, right):
        """Errors and memory; what runs here also warms up."""
        from peer_oracle import errors
        outputs = call(self.hidden, self.weight, self.labels)
        gradients = self.backward(outputs)
        found = {"errors": errors({name: tensor.detach() for name, tensor in outputs.items()}, gradients, right,
                                  peer.contract, self.labels, self.g, self.k)}
        del outputs, gradients
        self.forward(call)
        return {**found, "forward_MiB": self.held(lambda: self.forward(call)),
                "step_MiB": self.held(lambda: self.step(call))}

    def round(self, calls, order, last):
        """Times by name. `last`: those of the round before, by which is known how many steps take long enough."""
        cuda, times = self.torch.cuda, {}
        for name in order:
            events = [cuda.Event(enable_timing=True) for _ in range(5)]
            call = calls[name]
            for _ in range(math.ceil(SETTLE_MS / last[name][1]) if name in last else 0):
                self.step(call)
            events[0].record()
            self.forward(call)
            events[1].record()
            events[2].record()
            outputs = call(self.hidden, self.weight, self.labels)
            events[3].record()
            gradients = self.backward(outputs)
            events[4].record()
            cuda.synchronize()
            del outputs, gradients
            forward, step, backward = (events[a].elapsed_time(events[b]) for a, b in ((0, 1), (2, 4), (3, 4)))
            times[name] = forward, step, backward
        return times

    def run(self, listed, skip):
        from peer_list import versions
        from peer_oracle import exact
        right = exact(self.hidden.detach(), self.weight.detach(), self.labels)
        self.torch.cuda.synchronize()
        calls = {}
        for peer in listed:
            if peer.name in skip:
                continue
            tell(starts=peer.name)
            try:
                if self.half_ignored and not peer.ignores:
                    raise RuntimeError("knows no ignored rows")
                call, note = peer.load(), peer.note
                if isinstance(call, tuple):
                    call, note = call
                began = time.monotonic()
                found = self.examine(call, peer, right)
            except Exception as fault:  # whatever it is, the others go on
                reason = f"{type(fault).__name__}: {fault}".strip().splitlines()[0][:300]
                tell(peer=peer.name, contract=peer.contract, reason=reason, versions=versions(peer))
                del fault
                gc.collect()
                self.torch.cuda.empty_cache()
                self.torch.cuda.synchronize()  # dies where the fault broke the context; the driver goes on
                continue
            calls[peer.name] = call
            tell(peer=peer.name, contract=peer.contract, note=note, versions=versions(peer),
                 first_seconds=round(time.monotonic() - began, 1), **found)
            self.torch.cuda.empty_cache()
        del right
        names = list(calls)
        if not names:
            return
        wait_for_turn()
        times = {}
        for i in range(self.rounds + 1):  # the first fills the allocator again
            tell(starts=f"round {i}")
            times = self.round(calls, names[i % len(names):] + names[:i % len(names)], times)
            if i > 0:
                tell(times=times)


def work(arguments):
    import torch
    sys.path.insert(0, str(HERE))
    from peer_list import peers
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True  # torch's default, spelled out
    listed = [peer for peer in peers(arguments.library) if re.search(arguments.peers, peer.name)]
    Worker(arguments.worker, arguments.rounds).run(listed, set(arguments.skip))
    tell(done=True)


# ---- the driver


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


def measure(shape, arguments, turns):
    """One result a peer. A worker that dies is started again without the peer at which it died."""
    results = {}
    for _ in range(20):
        # A peer that has failed is not tried twice; one that has not must run again to be timed.
        skip = [name for name, result in results.items() if "reason" in result]
        command = [sys.executable, str(HERE / "peers.py"), "--worker", shape, "--rounds", str(arguments.rounds),
                   "--peers", arguments.peers, "--library", str(arguments.library)]
        turns.prepare(shape)
        try:
            messages, fault = listen(command + [word for name in skip for word in ("--skip", name)], arguments.limit,
                                     lambda: turns.begin(shape))
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


def table(shape, results):
    """Markdown; what failed below it."""
    def figure(value, form):
        return "" if value is None else format(value, form)

    def of_error(result, name, kind):
        found = result["errors"].get(name, {})
        return found.get(f"{kind}_is") or figure(found.get(kind), ".1e")
    lines = [f"### {shape}", "",
             "| | contract | forward ms | step ms | backward ms | step ÷ ours | forward MiB | step MiB "
             "| logprob, largest error | entropy | grad_hidden, RMS | grad_weight |",
             "|---|---|" + "---:|" * 10]
    measured = [result for result in results if "step_ms" in result]
    for result in sorted(measured, key=lambda result: result["step_ms"]):
        logprob = "loss" if result["contract"] == "mean" else "logprob"
        lines.append("| " + " | ".join([
            result["name"], result["contract"], figure(result["forward_ms"], ".2f"), figure(result["step_ms"], ".2f"),
            figure(result["backward_ms"], ".2f"), figure(result.get("over_ours", [None])[0], ".3f"),
            figure(result["forward_MiB"], ".0f"), figure(result["step_MiB"], ".0f"),
            of_error(result, logprob, "max"), of_error(result, "entropy", "max"),
            of_error(result, "grad_hidden", "rms"), of_error(result, "grad_weight", "rms")]) + " |")
    lines += [""] + [f"* {result['name']}: {result['note']}" for result in measured if result.get("note")]
    return "\n".join(lines + [f"* {result['name']}: not measured: {result['reason']}" for result in results
                              if "reason" in result]) + "\n"


def machine():
    import torch
    import platform
    found = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version(),
             "device": torch.cuda.get_device_name(), "driver": None}
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--peers", default="", metavar="REGEX")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=180, help="seconds that a peer may take at first")
    parser.add_argument("--together", type=int, default=1, metavar="J", help="shapes prepared side by side")
    parser.add_argument("--library", type=Path, default=HERE / "peers_operator.so")
    parser.add_argument("--context", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, metavar="FILE.json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--skip", action="append", default=[], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        wanted = re.compile(arguments.peers)
    except re.error as fault:
        parser.error(f"--peers '{arguments.peers}': {fault}")
    if arguments.rounds < LEAST_ROUNDS:
        parser.error(f"--rounds {arguments.rounds}: fewer than {LEAST_ROUNDS} have no 95 % interval")
    if arguments.worker:
        return work(arguments)
    if arguments.table:
        try:
            stored = json.loads(arguments.table.read_text(encoding="utf-8"))
            print("\n".join(table(shape, results) for shape, results in stored["shapes"].items()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
            parser.error(f"--table {arguments.table}: {fault!r}")
        return 0
    shapes = arguments.shapes.split(",")
    try:
        for shape in shapes:
            shape_of(shape)
    except argparse.ArgumentTypeError as fault:
        parser.error(f"--shapes: {fault}")
    for shape in shapes:
        if shapes.count(shape) > 1:
            parser.error(f"--shapes: {shape} stands there {shapes.count(shape)} times")
    context = {}
    for pair in arguments.context:
        key, equals, value = pair.partition("=")
        if not equals or key in (*OF_A_REPORT, *context, ""):
            parser.error(f"--context '{pair}': " + ("KEY=VALUE is needed" if not equals or not key else
                                                    f"'{key}' is taken"))
        context[key] = value
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
    if not any(map(wanted.search, listed)):
        parser.error(f"--peers '{arguments.peers}': matches none of {', '.join(listed)}")
    if arguments.out:
        try:
            arguments.out.open("a", encoding="utf-8").close()  # what is there stays until there is something new
        except OSError as fault:
            parser.error(f"--out {arguments.out}: {fault.strerror}")
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    report = {"date": now, "rounds": arguments.rounds, **context, "machine": machine(), "shapes": {}}
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupted.set())
    turns = Turns()
    with ThreadPoolExecutor(max(1, arguments.together)) as pool:
        measured = [pool.submit(measure, shape, arguments, turns) for shape in shapes]
        for shape, result in zip(shapes, measured):
            report["shapes"][shape] = result.result()
            print(table(shape, report["shapes"][shape]), flush=True)
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
