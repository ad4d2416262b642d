# SPDX-License-Identifier: Apache-2.0
"""The operator under the arguments with which trainers call theirs. What the operator lacks is refused by name."""

from __future__ import annotations

import torch

from .functional import linear_cross_entropy


def _refuse(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            shown = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
            raise TypeError(f"{name} = {shown}: linear_cross_entropy does not support it; give None")


def verl_linear_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    temperature: float | None = 1.0,
    reduction: str | None = "none",
    dist_process_group: object = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """verl.utils.kernel.linear_cross_entropy.linear_cross_entropy: (logprobs, entropy), both [tokens].

    As there, hidden of three dimensions gives vectors, and a reduction is of log-probabilities. Labels of -100, for which
    verl has no rule, are ignored.
    """
    _refuse(dist_process_group=dist_process_group)
    reduction = (reduction or "none").lower()
    flat = hidden.reshape(-1, hidden.shape[-1]), weight, labels.reshape(-1)
    result, entropy = linear_cross_entropy(*flat, 1.0 if temperature is None else temperature, reduction)
    return (result if reduction == "none" else -result), entropy


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
    """trl.trainer.utils._ChunkedLogProbFunction.apply: (logprobs, entropy) of tokens. chunk_size is not needed.

    As there, a weight of another dtype is converted to last_hidden's. Targets of -100, which TRL masks afterwards, are
    ignored.
    """
    _refuse(bias=bias, final_logit_softcapping=final_logit_softcapping)
    _check_scale(logit_scale)
    dtype = last_hidden.dtype if weight.dtype != last_hidden.dtype else None
    return linear_cross_entropy(last_hidden, weight, targets, temperature / logit_scale, compute_dtype=dtype)


def _check_scale(logit_scale: float) -> None:
    if not isinstance(logit_scale, (int, float)) or not logit_scale > 0:
        raise ValueError(f"logit_scale = {logit_scale!r}: a number greater than 0")


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
    gradients: str = "backward",
) -> torch.Tensor:
    """transformers' ForCausalLMLoss of a head's inputs: the loss, in fp32.

    labels [..., S] are those of the inputs themselves: position s predicts labels[..., s + 1]. shift_labels are moved
    already, and may be flat. The sum of the losses is divided by num_items_in_batch, or where there is none by the labels
    not ignored; where all are ignored the loss is 0, and not NaN. gradients is linear_cross_entropy's.
    """
    _refuse(final_logit_softcapping=final_logit_softcapping, lm_head_bias=lm_head_bias)
    _check_scale(logit_scale)
    if shift_labels is None:
        if labels is None:
            raise TypeError("labels and shift_labels are None: one of them is needed")
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    shift_labels = shift_labels.to(hidden_states.device)
    if shift_labels.dim() == 1 and shift_labels.numel() == hidden_states.shape[:-1].numel():
        shift_labels = shift_labels.reshape(hidden_states.shape[:-1])
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss, _ = linear_cross_entropy(
        hidden_states, lm_head_weight, shift_labels, 1 / logit_scale, reduction, ignore_index, gradients=gradients
    )
    if isinstance(num_items_in_batch, torch.Tensor):
        num_items_in_batch = num_items_in_batch.to(loss.device)
    return loss if num_items_in_batch is None else loss / num_items_in_batch
