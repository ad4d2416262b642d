# SPDX-License-Identifier: Apache-2.0
"""PyTorch's linear and cross_entropy as people write them: eager, and compiled."""

import torch

try:
    import plumbline
except ImportError:  # the script of a finding runs without it
    plumbline = None


def eager(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> torch.Tensor:
    """Logits in the dtype of hidden, the rest in fp32."""
    logits = torch.nn.functional.linear(hidden, weight).float()
    return torch.nn.functional.cross_entropy(logits, labels, ignore_index=ignore_index, reduction=reduction)


def eager_of_numbers(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> torch.Tensor:
    """The same for numbers alone, and not in fp16: the product of a NaN, or of a logit that overflows, in an ignored row
    with its gradient of 0 is NaN."""
    return eager(hidden, weight, labels, ignore_index, reduction)


if plumbline is not None:
    # What `plumb targets` prints of eager, without special values and fp16.
    eager_of_numbers = plumbline.target(
        framework="torch", form="autograd", returns=("nll",), dtypes=["fp32", "bf16"], label_dtypes=["int64"],
        temperature="none", special_values=False, negative_strides=False, entropy=False, lse=False, batch_invariant=False,
        fp32_grads=False, first_invalid_row=False,
    )(eager_of_numbers)  # fmt: skip

compiled = torch.compile(eager, dynamic=True)
