# SPDX-License-Identifier: Apache-2.0
"""A rollout engine's sampler: temperature, top-k and top-p, and tokens drawn by it."""

from __future__ import annotations

import dataclasses

import torch
from torch.nn import functional

from training import heads, model


@dataclasses.dataclass(frozen=True)
class Sampler:
    temperature: float
    top_k: int  # 0: all
    top_p: float  # 1: all


SAMPLERS = {"t1": Sampler(1.0, 0, 1.0), "t0.7-p0.95": Sampler(0.7, 0, 0.95), "t1-k50": Sampler(1.0, 50, 1.0)}


def kept(logits: torch.Tensor, sampler: Sampler) -> torch.Tensor:
    """The tokens that may be drawn, of logits that the temperature has divided: the k largest, then of these the least
    number whose probabilities reach p. Equal logits are kept or left out in the order of a stable sort."""
    down, places = logits.sort(dim=-1, descending=True, stable=True)
    keep = torch.ones_like(down, dtype=torch.bool)
    if sampler.top_k:
        keep[..., sampler.top_k:] = False
    if sampler.top_p < 1:
        probabilities = down.double().masked_fill(~keep, -torch.inf).softmax(-1)
        keep &= probabilities.cumsum(-1) - probabilities < sampler.top_p
    return torch.empty_like(keep).scatter_(-1, places, keep)


@torch.no_grad()
def drawn(decoder: model.Decoder, prompts: torch.Tensor, length: int, sampler: Sampler, seed: int) -> torch.Tensor:
    """Prompts and what follows them, `length` tokens a row in all. Every token is computed anew from all before it; nothing
    is cached."""
    tokens = prompts
    generator = torch.Generator(prompts.device).manual_seed(seed)
    while tokens.shape[1] < length:
        logits = functional.linear(decoder(tokens)[:, -1], decoder.embedding.weight).float() / sampler.temperature
        logits = logits.masked_fill(~kept(logits, sampler), -torch.inf)
        following = torch.multinomial(logits.softmax(-1), 1, generator=generator)
        tokens = torch.cat((tokens, following), 1)
    return tokens


def hidden_of(decoder: model.Decoder, tokens: torch.Tensor, batch: int) -> torch.Tensor:
    """Hidden states [sequences, places, size] of whole sequences in bf16, `batch` at a time."""
    with torch.no_grad():
        return torch.cat([decoder(each).to(heads.NARROW) for each in tokens.split(batch)])
