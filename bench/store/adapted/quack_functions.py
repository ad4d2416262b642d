# SPDX-License-Identifier: Apache-2.0
"""quack's two pipelines within what LinearCrossEntropy.forward and scaled_exp_lce_supported ask for: multiples of 8 or 128, rows
of 16 bytes, the last stride 1. Called past these, they raise errors of the compiler below them."""

import torch
from quack.linear_cross_entropy import (
    chunked_linear_cross_entropy,
    scaled_exp_linear_cross_entropy,
)

try:
    import plumbline
except ImportError:  # a script of a finding has the functions alone
    plumbline = None

DECLARED = {
    "device": "cuda", "form": "autograd", "returns": ("loss",),
    "reductions": ("mean", "sum"), "weight_layouts": ("vocab_major",), "hidden_multiple": 8, "rows_multiple": 8,
    "base_alignment": 32, "row_alignment": 16, "strided_inputs": False, "negative_strides": False, "empty_extents": False,
    "temperature": "none", "entropy": False, "lse": False, "fp32_grads": False, "first_invalid_row": False,
    "invalid_labels": False, "batch_invariant": False,
}  # fmt: skip


def chunked(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> torch.Tensor:
    """The base pipeline, with the kernels that it has before it is tuned to a shape."""
    return chunked_linear_cross_entropy(
        hidden, weight, labels, ignore_index=ignore_index, reduction=reduction, tuned=False, use_scaled_exp=False
    )


def scaled(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> torch.Tensor:
    """The pipeline with scaled exponentials."""
    return scaled_exp_linear_cross_entropy(hidden, weight, labels, ignore_index=ignore_index, reduction=reduction)


if plumbline:
    plumbline.target(chunked, dtypes=("fp16", "bf16"), vocab_multiple=8, **DECLARED)
    plumbline.target(scaled, dtypes=("bf16",), vocab_multiple=128, **DECLARED)
