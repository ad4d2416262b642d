# SPDX-License-Identifier: Apache-2.0
"""flash-linear-attention's fused loss: given another reduction than its two, it returns the sum without a word."""

import torch
from fla.modules.fused_linear_cross_entropy import fused_linear_cross_entropy_loss


def loss(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> torch.Tensor:
    """The mean or the sum."""
    if reduction == "none":
        raise NotImplementedError(reduction)
    return fused_linear_cross_entropy_loss(hidden, labels, weight, ignore_index=ignore_index, reduction=reduction)
