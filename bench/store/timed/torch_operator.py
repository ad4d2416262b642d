# SPDX-License-Identifier: Apache-2.0
"""Measures plumbline.torch in the interpreter that runs this, and prints one JSON object: the host's time of a forward and
backward with the library's passes replaced by nothing; on a GPU also a step against the two calls of the library alone, and
the memory that it takes."""

import json
import statistics
import sys
import time

import torch
from plumbline.torch import _library, linear_cross_entropy

ROUNDS, CALLS = 15, 400


class Nothing:
    """The library, whose passes return at once; sizes are asked as ever."""

    def __init__(self, library) -> None:
        for name in ("sizes", "forward_backward_sizes", "message"):
            setattr(self, f"plumbline_operator_{name}", getattr(library, f"plumbline_operator_{name}"))

    def plumbline_operator_forward(self, _) -> int:
        return 0

    plumbline_operator_backward = plumbline_operator_forward_backward = plumbline_operator_forward


def median_us(call) -> dict[str, float]:
    """Median, and the least, over rounds, of the microseconds of a call."""
    rounds = []
    for _ in range(ROUNDS + 1):  # the first is a warm-up
        begun = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append((time.perf_counter() - begun) / CALLS * 1e6)
    return {"median_us": round(statistics.median(rounds[1:]), 1), "least_us": round(min(rounds[1:]), 1)}


def host(device: str) -> dict[str, dict[str, float]]:
    """The problem is so small that nothing but calls is seen."""
    hidden, weight = (torch.randn(rows, 64, device=device, requires_grad=True) for rows in (8, 96))
    labels, upstream = torch.randint(0, 96, (8,), device=device), torch.randn(8, device=device)
    real, _library._LIBRARY = _library._LIBRARY, Nothing(_library._LIBRARY)

    def step() -> None:
        torch.autograd.grad(linear_cross_entropy(hidden, weight, labels), (hidden, weight), (upstream, upstream))

    def floor() -> None:
        """The same by PyTorch's own operators, of which each does next to nothing here."""
        torch.autograd.grad(torch.nn.functional.linear(hidden, weight), (hidden, weight), full)

    full = torch.randn(8, 96, device=device)
    try:
        with torch.no_grad():
            forward = median_us(lambda: linear_cross_entropy(hidden, weight, labels))
        return {"forward_and_backward": median_us(step), "forward": forward, "linear_alone": median_us(floor)}
    finally:
        _library._LIBRARY = real


def timed(runs, rounds: int = 15) -> list[float]:
    """Milliseconds of each call on the current stream, the medians. They take turns, so that they share a clock, and the
    device is kept busy before each, so that the host's time to the first launch is no part of it."""
    found: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds + 2):
        for run, into in zip(runs, found):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(2_000_000)  # about a millisecond
            begin.record()
            run()
            end.record()
            end.synchronize()
            into.append(begin.elapsed_time(end))
    return [statistics.median(each[2:]) for each in found]


def device(rows: int, hidden_size: int, vocabulary: int, memory: str) -> dict:
    """A step in bf16 by autograd, and by the passes alone in memory that is there; what it holds at its most."""
    hidden, weight = (torch.randn(each, hidden_size, device="cuda", dtype=torch.bfloat16).mul_(0.02 if each == vocabulary else 1)
                      .requires_grad_() for each in (rows, vocabulary))  # fmt: skip
    labels, upstream = torch.randint(0, vocabulary, (rows,), device="cuda"), torch.randn(rows, device="cuda")

    def step() -> None:
        torch.autograd.grad(linear_cross_entropy(hidden, weight, labels, memory=memory), (hidden, weight), (upstream, upstream))

    calls = []

    class Noted(_library.Call):
        def _run(self, function, workspace, saved) -> None:
            super()._run(function, workspace, saved)
            calls.append((self, function, workspace, saved))

    step()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    peak = torch.cuda.max_memory_allocated() - before
    real, _library.Call = _library.Call, Noted
    outputs = linear_cross_entropy(hidden, weight, labels, memory=memory)
    gradients = torch.autograd.grad(outputs, (hidden, weight), (upstream, upstream))
    _library.Call = real

    def passes() -> None:
        for call, function, workspace, saved in calls:
            _library.Call._run(call, function, workspace, saved)

    whole, alone = timed((step, passes))
    held = max(calls[0][2].numel(), calls[1][2].numel()) + calls[0][3].numel()
    held += sum(each.numel() * each.element_size() for each in gradients)
    return {"shape": f"{rows}x{hidden_size}x{vocabulary}", "memory": memory, "step_ms": round(whole, 3),
            "passes_ms": round(alone, 3), "ratio": round(whole / alone, 4), "peak_bytes": peak, "planned_bytes": held}  # fmt: skip


def main() -> None:
    found = {"torch": torch.__version__, "host": host("cuda" if torch.cuda.is_available() else "cpu")}
    if torch.cuda.is_available():
        found["device"] = torch.cuda.get_device_name()
        found["steps"] = [device(*shape, memory) for shape in ((8192, 4096, 151936), (128, 4096, 151936))
                          for memory in ("0", "4GiB", "8GiB")]  # fmt: skip
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
