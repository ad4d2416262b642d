# SPDX-License-Identifier: Apache-2.0
"""unsloth_zoo's fused loss, of labels that are shifted already, and its log-probabilities. Both take a batch.

Its import wants to be told that unsloth is there, and the package unsloth to be installed.
"""

import os

os.environ["UNSLOTH_IS_PRESENT"] = "1"

import torch
from unsloth_zoo.fused_losses.cross_entropy_loss import unsloth_fused_ce_loss
from unsloth_zoo.rl_replacements import chunked_hidden_states_selective_log_softmax


def fused_ce(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean over labels that are not -100."""
    return unsloth_fused_ce_loss(None, hidden[None], weight, None, labels[None], torch_compile=False, shift_labels=False)


def log_probs(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Four chunks of rows; compiled by the package."""
    return chunked_hidden_states_selective_log_softmax(hidden[None], weight, labels[None], 4, temperature=temperature)[0]
