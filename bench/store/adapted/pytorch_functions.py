# SPDX-License-Identifier: Apache-2.0
"""PyTorch's linear and cross_entropy as people write them: eager, and compiled."""

import torch


def eager(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> torch.Tensor:
    """Logits in the dtype of hidden, the rest in fp32."""
    logits = torch.nn.functional.linear(hidden, weight).float()
    return torch.nn.functional.cross_entropy(logits, labels, ignore_index=ignore_index, reduction=reduction)


compiled = torch.compile(eager, dynamic=True)
