# SPDX-License-Identifier: Apache-2.0
"""usage: python -m training.train RUN SETTINGS DATA OUT.json [CHECKPOINT]

Trains the model once, in a process of its own, and writes the loss of every step, the median time of a step, tokens a second
and the most memory. CHECKPOINT gets the weights, in bf16.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from training import heads, model
from training.settings import RUNS, Settings
from training.text import TOKENS


def batches(tokens: torch.Tensor, settings: Settings, order: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """(inputs, labels) of each step. The rows of a step are the same in every order; where they lie is not."""
    drawn, placed = (torch.Generator().manual_seed(seed) for seed in (settings.seed, 1000 + order))
    along = torch.arange(settings.context + 1, device=tokens.device)
    for _ in range(settings.steps):
        starts = torch.randint(0, len(tokens) - settings.context, (settings.rows,), generator=drawn)
        if order:
            starts = starts[torch.randperm(settings.rows, generator=placed)]
        rows = tokens[starts.to(tokens.device)[:, None] + along]
        yield rows[:, :-1], rows[:, 1:]


def loss_of(decoder: model.Decoder, head: heads.Head, settings: Settings, device: str) -> Callable[..., torch.Tensor]:
    """The loss of (inputs, labels) under torch.compile, unless the settings say otherwise.

    Trunk and head are compiled apart, so that all heads have one trunk, and hidden states and their gradient are bf16 between
    them. In one graph a compiler may leave out a conversion to bf16 and back. On a CPU the fp32 head then had losses that
    differ from eager ones by up to 3e-4 within 40 steps, a hundred times what the order of rows did; the operator's did not.
    """

    def trunk(inputs: torch.Tensor) -> torch.Tensor:
        with model.narrow(device):
            return decoder(inputs).to(heads.NARROW).flatten(0, 1)

    def last(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return head(hidden, weight, labels, settings.temperature)

    if settings.compiled:
        trunk, last = torch.compile(trunk, fullgraph=True), torch.compile(last, fullgraph=True)
    return lambda inputs, labels: last(trunk(inputs), decoder.embedding.weight, labels.flatten())


class Clock:
    """Marks on a device's stream, which nothing waits for until the end; on a CPU the time of day."""

    def __init__(self, device: str) -> None:
        self.on_device = device == "cuda"
        self.marks: list[Any] = []

    def mark(self) -> None:
        if self.on_device:
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()
        else:
            self.marks.append(time.perf_counter())

    def milliseconds(self) -> list[float]:
        if self.on_device:
            torch.cuda.synchronize()
        return [first.elapsed_time(second) if self.on_device else 1e3 * (second - first)
                for first, second in itertools.pairwise(self.marks)]


def train(decoder: model.Decoder, head: heads.Head, order: int, tokens: torch.Tensor, settings: Settings) -> dict[str, Any]:
    """Loss of every step, times and memory. The decoder is trained in place."""
    device = tokens.device.type
    optimiser = torch.optim.AdamW(decoder.parameters(), lr=settings.learning_rate, fused=device == "cuda")
    rising = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, (step + 1) / settings.warm_up))
    loss_at = loss_of(decoder, head, settings, device)
    losses = torch.empty(settings.steps, dtype=torch.float32, device=device)
    clock = Clock(device)
    for step, (inputs, labels) in enumerate(batches(tokens, settings, order)):
        if step == settings.not_timed and device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        clock.mark()
        loss = loss_at(inputs, labels)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        rising.step()
        losses[step] = loss.detach()
    clock.mark()
    spent = clock.milliseconds()
    median = statistics.median(spent[settings.not_timed:] or spent)
    return {"loss": losses.tolist(), "step_ms": round(median, 3),
            "tokens_per_second": round(settings.rows * settings.context / median * 1e3),
            "peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else None}


def main(words: list[str]) -> None:
    begun = time.monotonic()
    run, settings, data, out = words[0], Settings.of(words[1]), Path(words[2]), Path(words[3])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind, order = RUNS[run]
    decoder = model.made(settings, device)
    found = train(decoder, heads.LOSSES[kind], order, model.read_tokens(data / TOKENS, device), settings)
    if words[4:]:
        torch.save({name: each.to(heads.NARROW).cpu() for name, each in decoder.state_dict().items()}, words[4])
    found |= {"run": run, "seconds": round(time.monotonic() - begun, 1)}
    out.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
