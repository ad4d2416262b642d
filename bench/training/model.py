# SPDX-License-Identifier: Apache-2.0
"""A decoder whose head shares the embedding's weight, and the tokens that it reads."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from training.settings import Settings


class Cache:
    """Keys and values of one block, [sequences, heads, places, width of a head] each."""

    def __init__(self) -> None:
        self.held: tuple[torch.Tensor, ...] = ()

    def places(self) -> int:
        return self.held[0].shape[2] if self.held else 0

    def extended(self, *new: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Keys and values of all places, the new ones last."""
        self.held = tuple(torch.cat(pair, 2) for pair in zip(self.held, new, strict=True)) if self.held else new
        return self.held


class Block(nn.Module):
    """Attention to what came before, and a layer of four times the width."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        width = settings.hidden
        self.heads = settings.heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, hidden: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        rows, length, width = hidden.shape
        parts = self.mixed(self.before(hidden)).view(rows, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        if cache is not None:
            key, value = cache.extended(key, value)
        # A single place sees every key; PyTorch's causal mask would leave it the first one alone.
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=length > 1)
        hidden = hidden + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        return hidden + self.down(functional.gelu(self.up(self.between(hidden))))


class Decoder(nn.Module):
    """The trunk; forward returns hidden states. `embedding.weight` is the head's weight as well. With caches, one a block,
    the tokens follow those before: all of a prompt, or one."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.embedding = nn.Embedding(settings.vocabulary, settings.hidden)
        self.places = nn.Embedding(settings.context, settings.hidden)
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.layers))
        self.last = nn.LayerNorm(settings.hidden)
        for each in self.parameters():
            if each.dim() == 2:
                nn.init.normal_(each, std=0.02)

    def forward(self, tokens: torch.Tensor, caches: Sequence[Cache] | None = None) -> torch.Tensor:
        first = caches[0].places() if caches else 0
        hidden = self.embedding(tokens) + self.places.weight[first:first + tokens.shape[1]]
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks), strict=True):
            hidden = block(hidden, cache)
        return self.last(hidden)


def made(settings: Settings, device: str) -> Decoder:
    """A decoder with the weights of the settings' seed, the same on every device."""
    torch.manual_seed(settings.seed)
    return Decoder(settings).to(device)


def read_tokens(path: Path, device: str) -> torch.Tensor:
    """The tokens of a prepared text, int64."""
    raw = bytearray(path.read_bytes())
    return torch.frombuffer(raw, dtype=torch.uint16).to(torch.int64).to(device)


def narrow(device: str) -> contextlib.AbstractContextManager[None]:
    """Products in bf16, weights in fp32."""
    return torch.autocast(device, dtype=torch.bfloat16)
