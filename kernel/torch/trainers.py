# SPDX-License-Identifier: Apache-2.0
"""The operator under the arguments with which trainers call theirs. What the operator lacks is refused by name."""

from __future__ import annotations

import torch

from .functional import linear_cross_entropy

_NO_LABEL = -(1 << 63)  # an ignore_index that no label is


def _refuse(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            shown = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
            raise TypeError(f"{name} = {shown}: linear_cross_entropy does not support it; give None")


def verl_linear_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    temperature: float = 1.0,
    reduction: str = "none",
    dist_process_group: object = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """verl.utils.kernel.linear_cross_entropy.linear_cross_entropy: (logprobs, entropy), both [tokens].

    As there, no label is ignored, hidden of three dimensions gives vectors, and a reduction is of log-probabilities.
    """
    _refuse(dist_process_group=dist_process_group)
    result, entropy = linear_cross_entropy(
        hidden.reshape(-1, hidden.shape[-1]), weight, labels.reshape(-1), temperature, reduction.lower(), _NO_LABEL
    )
    return (result if reduction.lower() == "none" else -result), entropy


def trl_chunked_logprob(
    last_hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    targets: torch.Tensor,
    temperature: float,
    chunk_size: int | None = None,
    final_logit_softcapping: float | None = None,
    logit_scale: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """trl.trainer.utils._ChunkedLogProbFunction.apply: (logprobs, entropy) of tokens. chunk_size is not needed."""
    _refuse(bias=bias, final_logit_softcapping=final_logit_softcapping)
    if not logit_scale > 0:
        raise ValueError(f"logit_scale = {logit_scale}: greater than 0")
    return linear_cross_entropy(last_hidden, weight, targets, temperature / logit_scale, ignore_index=_NO_LABEL)


def causal_lm_loss(
    hidden_states: torch.Tensor,
    lm_head_weight: torch.Tensor,
    labels: torch.Tensor | None = None,
    *,
    shift_labels: torch.Tensor | None = None,
    num_items_in_batch: torch.Tensor | int | None = None,
    ignore_index: int = -100,
    logit_scale: float = 1.0,
    final_logit_softcapping: float | None = None,
    lm_head_bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """transformers' ForCausalLMLoss of a head's inputs: the loss, in fp32.

    labels [..., S] are those of the inputs themselves: position s predicts labels[..., s + 1]. shift_labels are moved
    already. The sum of the losses is divided by num_items_in_batch, or where there is none by the labels not ignored.
    """
    _refuse(final_logit_softcapping=final_logit_softcapping, lm_head_bias=lm_head_bias)
    if not logit_scale > 0:
        raise ValueError(f"logit_scale = {logit_scale}: greater than 0")
    if shift_labels is None:
        if labels is None:
            raise TypeError("labels and shift_labels are None: one of them is needed")
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss, _ = linear_cross_entropy(
        hidden_states, lm_head_weight, shift_labels, 1 / logit_scale, reduction, ignore_index
    )
    return loss if num_items_in_batch is None else loss / num_items_in_batch
