# SPDX-License-Identifier: Apache-2.0
"""TRL's log-probabilities and entropies in chunks of the vocabulary; on the CPU its kernels are PyTorch's."""

import torch
from trl.kernels import ChunkedLogProbFunction


def chunked_log_prob(
    hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, temperature: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both outputs, 4096 columns at a time."""
    outputs = ChunkedLogProbFunction.apply(hidden, weight, None, targets, temperature, 4096, None, 1.0, ("entropy",))
    return outputs[:2]
