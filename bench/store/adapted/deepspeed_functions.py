# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's TiledLoss, which is given logits, called as its own documentation has it; the loss itself, which it calls
for each shard, where a release has it no longer."""

import torch
from deepspeed.runtime.sequence_parallel import ulysses_sp

TILED = getattr(ulysses_sp, "TiledLoss", None)
SHARDS = 2
IGNORED = -100  # the only one that it knows


def _loss(logits: torch.Tensor, labels: None, vocab_size: int, shift_labels: torch.Tensor) -> torch.Tensor:
    """The mean over what is not ignored, as models of transformers have it."""
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, vocab_size).float(), shift_labels.reshape(-1), ignore_index=IGNORED
    )


def tiled_loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, ignore_index: int = IGNORED) -> torch.Tensor:
    """The mean over rows in two shards; one shard, and rows of which none counts, are no case of TiledLoss. The product is
    this function's own: in fp32, so that its rounding is no finding."""
    labels = labels.long()
    labels = labels.masked_fill(labels == ignore_index, IGNORED)[None]
    logits = (hidden.float() @ weight.float().T)[None]
    if (labels == IGNORED).all():
        return (logits.sum() * 0.0).float()
    if TILED is None or labels.shape[1] < SHARDS:
        return _loss(logits, None, weight.shape[0], labels)
    return TILED.apply(_loss, logits, weight.shape[0], labels, SHARDS)
