# SPDX-License-Identifier: Apache-2.0
"""The log-ratio between rollout and training, split into factors that add up to it.

    trunk             exact log-probability from rollout's hidden states less that from training's
    rounding          what rounding exact logits to bf16 changes; 0 for a head with fp32 logits
    head_batch        rollout's head in its batches less the same head with all rows in one batch
    head_arithmetic   that head with all rows in one batch, less what exact arithmetic on its logits' dtype gives
    truncation        minus the log of what the sampler keeps: top-k and top-p renormalise
    training_head     exact log-probability from training's hidden states less what training's head computes

Exact is fp64 on the bf16 hidden states and weights: a product of two bf16 numbers is exact in it, and sums err by 2^-53 an
addition. `head` is the sum of all but trunk and truncation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn import functional

from training import heads
from training.sampler import Sampler, kept

# (rollout's head, training's head)
PAIRS = (("plumbline", "plumbline"), ("fp32", "fp32"), ("bf16", "bf16"), ("bf16", "plumbline"))
FACTORS = ("trunk", "rounding", "head_batch", "head_arithmetic", "truncation", "training_head")
HEAD = ("rounding", "head_batch", "head_arithmetic", "training_head")
AT_ONCE = 512  # rows whose fp64 logits are held
LEAST, MOST = 0.9, 1.1


def logits_of(hidden: torch.Tensor, weight: torch.Tensor, temperature: float) -> Iterator[torch.Tensor]:
    """Exact logits, some rows at a time."""
    wide = weight.double()
    for rows in hidden.split(AT_ONCE):
        yield functional.linear(rows.double(), wide) / temperature


def exact(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float) -> torch.Tensor:
    parts = zip(logits_of(hidden, weight, temperature), labels.split(AT_ONCE), strict=True)
    return torch.cat([heads.chosen(logits, theirs) for logits, theirs in parts])


def any_order(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float) -> torch.Tensor:
    """A bound on the error of fp32 log-probabilities, whatever the order of sums, if each addition of a product's sum errs
    by 2^-22 of the sum of magnitudes at most, and every other operation by 2^-22 of its result. plumb's oracle has bounds
    that are sharper; this one shows a wrong label or temperature."""
    unit = 2.0**-22
    size, vocabulary = weight.shape[1], weight.shape[0]
    found = []
    for rows, logits, theirs in zip(hidden.split(AT_ONCE), logits_of(hidden, weight, temperature), labels.split(AT_ONCE),
                                    strict=True):
        magnitudes = functional.linear(rows.double().abs(), weight.double().abs()) / temperature
        of_logits = 2 * (size + 2) * unit * magnitudes.amax(-1)  # the label's logit, and lse, which moves by the largest
        spread = (logits.amax(-1, keepdim=True) - logits).amax(-1)  # an exponent's rounding is its term's relative error
        of_sum = (vocabulary + 4 + spread) * unit
        of_rest = 4 * unit * (logits.abs().amax(-1) + logits.logsumexp(-1).abs() + heads.chosen(logits, theirs).abs())
        found.append(of_logits + of_sum + of_rest)
    return torch.cat(found)


def of_sampler(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, sampler: Sampler,
               narrow: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """(what rounding logits to bf16 changes, minus the log of what is kept of them); the second is NaN where the label is
    not kept. The dtype's own logits decide what is kept."""
    rounding, truncation = [], []
    for logits, theirs in zip(logits_of(hidden, weight, 1.0), labels.split(AT_ONCE), strict=True):
        seen = logits.to(heads.NARROW).double() if narrow else logits
        seen, logits = seen / sampler.temperature, logits / sampler.temperature
        rounding.append(heads.chosen(seen, theirs) - heads.chosen(logits, theirs))
        keep = kept(seen, sampler)
        mass = seen.masked_fill(~keep, -torch.inf).logsumexp(-1) - seen.logsumexp(-1)
        inside = keep.gather(-1, theirs[:, None])[:, 0]
        truncation.append(torch.where(inside, -mass, torch.nan))
    return torch.cat(rounding), torch.cat(truncation)


def split(rollout: torch.Tensor, training: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, sampler: Sampler,
          pair: tuple[str, str], logprobs: Mapping[str, heads.Head]) -> dict[str, torch.Tensor]:
    """Each factor of each token, in fp64; hidden states are [sequences in rollout's batches, places, size]. `total` is the
    log-ratio by its definition, of which the factors' sum differs by fp64's rounding alone."""
    engine, trainer = (logprobs[name] for name in pair)
    temperature, flat = sampler.temperature, labels.flatten()
    rows, trained = rollout.flatten(0, 2), training.flatten(0, 2)
    # An engine's head has one place of each sequence of its batch.
    steps = [engine(each[:, place].contiguous(), weight, theirs[:, place].contiguous(), temperature)
             for each, theirs in zip(rollout, labels, strict=True) for place in range(labels.shape[2])]
    alone = torch.stack(steps).unflatten(0, (labels.shape[0], -1)).transpose(1, 2).flatten().double()
    whole = engine(rows, weight, flat, temperature).double()
    said = trainer(trained, weight, flat, temperature).double()
    here, there = exact(rows, weight, flat, temperature), exact(trained, weight, flat, temperature)
    rounding, truncation = of_sampler(rows, weight, flat, sampler, pair[0] == "bf16")
    return {"trunk": here - there, "rounding": rounding, "head_batch": alone - whole,
            "head_arithmetic": whole - here - rounding, "truncation": truncation, "training_head": there - said,
            "total": alone + truncation - said}


def figures(values: torch.Tensor) -> dict[str, float]:
    """Root mean square, 99th percentile of the magnitude (by nearest rank), and the share whose ratio is outside."""
    ordered = values.abs().sort().values
    ratio = values.exp()
    rank = -(-99 * len(ordered) // 100) - 1
    outside = (ratio < LEAST) | (ratio > MOST)
    return {"rms": values.square().mean().sqrt().item(), "p99": ordered[rank].item(), "largest": ordered[-1].item(),
            "outside": outside.double().mean().item()}


def summary(parts: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """The figures of each factor, of the head's together, of all but truncation, and of the whole, over the tokens that
    the sampler keeps; the head's share is of mean squares."""
    inside = ~parts["truncation"].isnan()
    held = {name: each[inside] for name, each in parts.items()}
    if not len(held["total"]):
        raise ValueError("the sampler keeps none of the tokens")
    held["head"] = sum(held[name] for name in HEAD)
    held["without_truncation"] = held["head"] + held["trunk"]
    shown = {name: figures(each) for name, each in held.items()}
    return {"not_kept": int((~inside).sum()),
            "share_of_head": {name: share(shown, name) for name in ("without_truncation", "total")},
            "apart": (sum(held[name] for name in FACTORS) - held["total"]).abs().max().item(), "factors": shown}


def share(shown: Mapping[str, Mapping[str, float]], whole: str) -> float | None:
    """The head's mean square over that of the whole; None where there is no ratio but 1."""
    return (shown["head"]["rms"] / shown[whole]["rms"])**2 if shown[whole]["rms"] else None


def of_batch(rollout: torch.Tensor, training: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, sampler: Sampler,
             batch: int, logprobs: Mapping[str, heads.Head]) -> list[dict[str, Any]]:
    """A record for each pair of heads; hidden states are [sequences, places, size]."""
    sizes = (-1, batch)
    folded = [each.unflatten(0, sizes) for each in (rollout, training, labels)]
    return [{"batch": batch, "rollout": pair[0], "training": pair[1],
             **summary(split(folded[0], folded[1], weight, folded[2], sampler, pair, logprobs))} for pair in PAIRS]
