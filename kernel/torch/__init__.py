# SPDX-License-Identifier: Apache-2.0
"""The operator for PyTorch: linear_cross_entropy and the head LinearCrossEntropy. kernel/TORCH.md is its guide."""

from ._library import UnsupportedDevice
from .functional import linear_cross_entropy
from .module import LinearCrossEntropy
from .support import Support, supported
from .trainers import causal_lm_loss, trl_chunked_logprob, verl_linear_cross_entropy

__all__ = [
    "LinearCrossEntropy",
    "Support",
    "UnsupportedDevice",
    "causal_lm_loss",
    "linear_cross_entropy",
    "supported",
    "trl_chunked_logprob",
    "verl_linear_cross_entropy",
]
