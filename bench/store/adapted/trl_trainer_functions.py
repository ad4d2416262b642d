# SPDX-License-Identifier: Apache-2.0
"""TRL's log-probabilities of a head that is multiplied chunk by chunk: a function without defaults for its options."""

import inspect

import torch
from trl.trainer.utils import _ChunkedLogProbFunction

CHUNK = 64  # columns: most problems have several chunks
HAS_BIAS = "bias" in inspect.signature(_ChunkedLogProbFunction.forward).parameters


def chunked_logprob(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies, without a bias."""
    bias = (None,) if HAS_BIAS else ()
    return _ChunkedLogProbFunction.apply(hidden, weight, *bias, labels, temperature, CHUNK)
