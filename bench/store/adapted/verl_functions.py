# SPDX-License-Identifier: Apache-2.0
"""verl's FusedLinearForPPO on activations of three dimensions, as its models give them."""

import torch
from verl.utils.experimental.torch_functional import FusedLinearForPPO

fused = FusedLinearForPPO()


def time_major(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows [T * B, H] are time-major activations of B = 2 sequences, 1 where the number of rows is odd, and verl gets
    [B, T, H]."""
    batch = 2 if len(labels) % 2 == 0 else 1
    found = fused(
        hidden.unflatten(0, (-1, batch)).transpose(0, 1), weight, labels.unflatten(0, (-1, batch)).transpose(0, 1), temperature
    )
    logprob, entropy = (each.transpose(0, 1).flatten() for each in found)
    return logprob, entropy
