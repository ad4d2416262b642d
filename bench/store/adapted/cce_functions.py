# SPDX-License-Identifier: Apache-2.0
"""cut_cross_entropy's other implementation; `cce` is its default and needs no function here."""

import torch
from cut_cross_entropy import linear_cross_entropy


def torch_compile(
    e: torch.Tensor, c: torch.Tensor, targets: torch.Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> torch.Tensor:
    """impl="torch_compile"."""
    return linear_cross_entropy(e, c, targets, ignore_index, reduction=reduction, impl="torch_compile")
