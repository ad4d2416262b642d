# SPDX-License-Identifier: Apache-2.0
"""NeMo Automodel's ChunkedCrossEntropy, uncompiled: of logits up to 0.6, of hidden and weight from 0.7 on."""

import inspect

import torch
from nemo_automodel.components.loss.chunked_ce import ChunkedCrossEntropy

TAKES_WEIGHT = "lm_weight" in inspect.signature(ChunkedCrossEntropy.forward).parameters


def chunked(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, ignore_index: int = -100, reduction: str = "sum"
) -> torch.Tensor:
    """The loss in chunks of its default length."""
    loss = ChunkedCrossEntropy(compile=False, ignore_index=ignore_index, reduction=reduction)
    if TAKES_WEIGHT:
        return loss(hidden, labels, weight)
    return loss(hidden @ weight.T, labels)
