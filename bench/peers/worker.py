# SPDX-License-Identifier: Apache-2.0
"""Measures one shape, in a process of its own that `bench/peers` starts: every peer's errors and memory, then rounds
in which each is timed; or errors alone, also of the entropy's gradient on flat rows."""

import argparse
import gc
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .process import tell

if TYPE_CHECKING:  # these import PyTorch
    from .catalogue import Peer
    from .oracle import Exact

IGNORED = -100
SETTLE_MS = 200
# For --errors: standard deviations of the logits of flat rows. Those of the other rows are 2.
FLAT = (1.0, 1 / 16)
SIGMA = 2
# For --regimes: a row of steps long enough for the meter of energy, and the rest before a single call.
ROW_MS, REST_MS = 1000, 50


def shape_of(name: str) -> tuple[int, int, int, bool]:
    """Returns (N, H, V, whether half the rows are ignored)."""
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)x([1-9]\d*)(_half_ignored)?", name)
    if not match:
        raise argparse.ArgumentTypeError(f"'{name}' is no NxHxV or NxHxV_half_ignored")
    return (*map(int, match.groups()[:3]), bool(match[4]))


class Worker:
    """Holds the inputs of one shape, and measures peers on them."""

    def __init__(self, name: str, rounds: int, regimes: bool = False) -> None:
        import torch

        from .energy import meter_of
        self.torch, self.rounds, self.regimes = torch, rounds, regimes
        self.meter = meter_of(torch.cuda.get_device_properties(0)) if regimes else None
        n, h, v, half_ignored = shape_of(name)
        device = torch.device("cuda")
        generator = torch.Generator(device).manual_seed(20261122)
        normal = {"generator": generator, "device": device}
        self.hidden = torch.randn(n, h, **normal).bfloat16()
        self.weight = torch.empty(v, h, dtype=torch.bfloat16, device=device)
        for first in range(0, v, 16384):
            rows = self.weight[first:first + 16384]
            rows.copy_(torch.randn(rows.shape, **normal) * (SIGMA / h ** 0.5))
        self.labels = torch.randint(v, (n,), **normal)
        self.g, self.k = torch.randn(n, **normal), torch.randn(n, **normal)
        self.half_ignored = half_ignored
        if half_ignored:
            self.labels[torch.rand(n, **normal) < 0.5] = IGNORED
        self.hidden.requires_grad_()
        self.weight.requires_grad_()

    def upstream_of(self, outputs: dict) -> list:
        one = {"logprob": self.g, "nll": -self.g, "entropy": self.k}
        return [one[name].to(tensor.dtype) if name in one else self.torch.ones_like(tensor)
                for name, tensor in outputs.items()]

    def backward(self, outputs: dict) -> tuple:
        return self.torch.autograd.grad(list(outputs.values()), [self.hidden, self.weight], self.upstream_of(outputs))

    def held(self, work: Callable[[], list]) -> float:
        """Returns the MiB held at most while `work` runs, beyond what was held before and what it returns."""
        cuda = self.torch.cuda
        gc.collect()
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        returned = work()
        cuda.synchronize()
        returned = sum(tensor.numel() * tensor.element_size() for tensor in returned)
        return (cuda.max_memory_allocated() - before - returned) / 2 ** 20

    def forward(self, call: Callable) -> list:
        with self.torch.no_grad():
            return list(call(self.hidden, self.weight, self.labels).values())

    def step(self, call: Callable) -> list:
        outputs = call(self.hidden, self.weight, self.labels)
        return [*outputs.values(), *self.backward(outputs)]

    def errors_of(self, call: Callable, peer: "Peer", right: "Exact") -> dict:
        from .oracle import errors
        outputs = call(self.hidden, self.weight, self.labels)
        gradients = self.backward(outputs)
        return errors({name: tensor.detach() for name, tensor in outputs.items()}, gradients, right, peer.contract, self.labels,
                      self.g, self.k)

    def examine(self, call: Callable, peer: "Peer", right: "Exact") -> dict:
        """Returns errors and memory; what runs here also warms up."""
        found = {"errors": self.errors_of(call, peer, right)}
        self.forward(call)
        return {**found, "forward_MiB": self.held(lambda: self.forward(call)),
                "step_MiB": self.held(lambda: self.step(call))}

    def timed(self, call: Callable) -> dict[str, float]:
        """The ms of a forward pass without gradients, and of a step with its parts, one after the other."""
        cuda = self.torch.cuda
        events = [cuda.Event(enable_timing=True) for _ in range(5)]
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
        return {name: events[a].elapsed_time(events[b])
                for name, a, b in (("forward", 0, 1), ("step", 2, 4), ("backward", 3, 4))}

    def alone(self, work: Callable[[], list]) -> float:
        """The ms of one call after rest."""
        cuda = self.torch.cuda
        events = [cuda.Event(enable_timing=True) for _ in range(2)]
        cuda.synchronize()
        time.sleep(REST_MS * 1e-3)
        events[0].record()
        work()
        events[1].record()
        cuda.synchronize()
        return events[0].elapsed_time(events[1])

    def in_regimes(self, call: Callable, step_ms: float) -> dict[str, float]:
        """The ms, and the joules where there is a meter, of a step in a row of its own kind; the ms of single calls."""
        cuda = self.torch.cuda
        events = [cuda.Event(enable_timing=True) for _ in range(2)]
        count = max(3, math.ceil(ROW_MS / step_ms))
        cuda.synchronize()
        before = self.meter.joules() if self.meter else 0.0
        events[0].record()
        for _ in range(count):
            self.step(call)
        events[1].record()
        cuda.synchronize()
        found = {"row_step": events[0].elapsed_time(events[1]) / count}
        if self.meter:
            found["step_joules"] = (self.meter.joules() - before) / count
        return found | {"burst_forward": self.alone(lambda: self.forward(call)), "burst_step": self.alone(lambda: self.step(call))}

    def round(self, calls: dict[str, Callable], order: list[str], last: dict[str, dict]) -> dict[str, dict]:
        """Returns what was measured of each, by name. `last` has the round before, which tells how many steps take
        SETTLE_MS."""
        times = {}
        for name in order:
            call, before = calls[name], last.get(name)
            for _ in range(math.ceil(SETTLE_MS / before["step"]) if before else 0):
                self.step(call)
            times[name] = self.timed(call)
            if self.regimes and before:
                times[name] |= self.in_regimes(call, before["step"])
        return times

    def exact(self) -> "Exact":
        from .oracle import exact
        right = exact(self.hidden.detach(), self.weight.detach(), self.labels)
        self.torch.cuda.synchronize()
        return right

    def entropy_alone(self, sigma: float) -> None:
        """Makes rows flat, their logits of a standard deviation of `sigma`, a power of 2, and the upstream gradient of the
        entropy the only one."""
        self.hidden = (self.hidden.detach() * (sigma / SIGMA)).requires_grad_()
        self.g = self.torch.zeros_like(self.g)

    def errors_alone(self, listed: "list[Peer]", skip: set[str]) -> None:
        """Tells the errors of every peer that is not skipped; of one that takes a gradient of the entropy, also for that alone
        on flat rows."""
        given = self.hidden, self.g
        problems = [(None, *given, self.exact())]
        for sigma in FLAT:
            self.hidden, self.g = given
            self.entropy_alone(sigma)
            problems.append((sigma, self.hidden, self.g, self.exact()))

        def examine(call: Callable, peer: "Peer") -> dict:
            found = {"entropy_alone": []}
            for sigma, self.hidden, self.g, right in problems:
                if sigma is None:
                    found["errors"] = self.errors_of(call, peer, right)
                elif peer.contract == "rows":
                    found["entropy_alone"].append({"sigma": sigma, "errors": self.errors_of(call, peer, right)})
            return found
        self.each(listed, skip, examine)

    def examine_all(self, listed: "list[Peer]", skip: set[str]) -> dict[str, Callable]:
        """Tells errors and memory. Nothing is left of what errors are measured against."""
        right = self.exact()
        return self.each(listed, skip, lambda call, peer: self.examine(call, peer, right))

    def run(self, listed: "list[Peer]", skip: set[str]) -> None:
        """Tells errors and memory of every peer that is not skipped, and then the times."""
        calls = self.examine_all(listed, skip)
        names = list(calls)
        if not names:
            return
        times = {}
        for i in range(self.rounds + 1):  # the first fills the allocator again
            tell(starts=f"round {i}")
            times = self.round(calls, names[i % len(names):] + names[:i % len(names)], times)
            if i > 0:
                tell(times=times)

    def each(self, listed: "list[Peer]", skip: set[str], examine: Callable[[Callable, "Peer"], dict]) -> dict[str, Callable]:
        """Tells what `examine` finds of every peer that is not skipped. Returns the calls of those that did not fail."""
        from .catalogue import versions
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
                found = examine(call, peer)
            except Exception as fault:  # noqa: BLE001 (whatever it is, the others go on)
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
        return calls


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/peers worker", description=__doc__)
    parser.add_argument("shape")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--peers", required=True, metavar="REGEX")
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--skip", action="append", default=[], metavar="PEER")
    parser.add_argument("--regimes", action="store_true")
    parser.add_argument("--errors", action="store_true")
    arguments = parser.parse_args(words)
    import torch

    from .catalogue import peers
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True  # torch's default, spelled out
    listed = [peer for peer in peers(arguments.library) if re.search(arguments.peers, peer.name)]
    worker = Worker(arguments.shape, arguments.rounds, arguments.regimes)
    (worker.errors_alone if arguments.errors else worker.run)(listed, set(arguments.skip))
    tell(done=True)
    return 0
