# SPDX-License-Identifier: Apache-2.0
"""The trunk as an engine runs it: the prompt at once, then one place of each sequence at a time, with a cache."""

from __future__ import annotations

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from training import model

# cuDNN's attention, which PyTorch 2.11 may prefer on an H100, is not among them: it builds a plan for each number of keys.
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


@torch.no_grad()
def decoded(decoder: model.Decoder, tokens: torch.Tensor, prompt: int) -> torch.Tensor:
    """Hidden states of given tokens, [sequences, places, size], in the weights' dtype; the first `prompt` places are the
    prompt's."""
    caches = [model.Cache() for _ in decoder.blocks]
    widths = [prompt] + [1] * (tokens.shape[1] - prompt)
    with sdpa_kernel(ATTENTION):
        return torch.cat([decoder(each, caches) for each in tokens.split(widths, 1)], 1)


def hidden_of(decoder: model.Decoder, tokens: torch.Tensor, prompt: int, batch: int) -> torch.Tensor:
    """The same, `batch` sequences at a time."""
    return torch.cat([decoded(decoder, each, prompt) for each in tokens.split(batch)])
