# SPDX-License-Identifier: Apache-2.0
"""Liger's cross-entropy of logits, which are made for it and which it overwrites."""

import torch
from liger_kernel.transformers.functional import liger_cross_entropy


def cross_entropy(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> torch.Tensor:
    """The loss. The product is this function's own: in fp32, so that its rounding is no finding."""
    logits = hidden.float() @ weight.float().T
    return liger_cross_entropy(logits, labels, ignore_index=ignore_index, reduction=reduction)
