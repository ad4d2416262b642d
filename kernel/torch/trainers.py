# SPDX-License-Identifier: Apache-2.0
"""The operator under the arguments with which trainers call theirs. What the operator lacks is refused by name."""

from __future__ import annotations

import numbers
from collections.abc import Collection

import torch

from .functional import LEAST, MOST, check_ignore_index, linear_cross_entropy

_OUTPUTS_OF_TRL = "log_probs", "entropy"


def _refuse(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            shown = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
            raise TypeError(f"{name} = {shown}: linear_cross_entropy does not support it; give None")


def _check_tensors(**given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} is a {type(value).__name__}: a tensor is needed")


def _check_hidden(name: str, hidden: torch.Tensor) -> None:
    if hidden.dim() < 1:
        raise ValueError(f"{name}.shape = (): [..., hidden size] is needed")


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
    _check_tensors(hidden=hidden, weight=weight, labels=labels)
    _check_hidden("hidden", hidden)
    if reduction is not None and not isinstance(reduction, str):
        raise TypeError(f"reduction = {reduction!r}: a text or None is needed")
    reduction = (reduction or "none").lower()
    if labels.dim() != 1 and labels.shape != hidden.shape[:-1]:  # the number of flat ones is checked where they are used
        raise ValueError(f"labels.shape = {tuple(labels.shape)}: hidden.shape = {tuple(hidden.shape)} asks for one a row")
    flat = hidden.flatten(0, -2) if hidden.dim() > 1 else hidden[None], weight, labels.reshape(-1)
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
    outputs: Collection[str] | None = None,
) -> tuple[torch.Tensor | None, ...]:
    """trl.trainer.utils._ChunkedLogProbFunction.apply: (logprobs, entropy) of tokens. chunk_size is not needed.

    As there, a weight of another dtype is converted to last_hidden's. Targets of -100, which TRL masks afterwards, are
    ignored. outputs, TRL 1.16's, may name "log_probs" and "entropy"; with it the five results of that release are returned,
    None in the place of entropy where it is not named, and of the three that the operator lacks.
    """
    _refuse(bias=bias, final_logit_softcapping=final_logit_softcapping)
    _check_tensors(last_hidden=last_hidden, weight=weight, targets=targets)
    if outputs is not None and not (
        isinstance(outputs, (tuple, list, set, frozenset)) and all(each in _OUTPUTS_OF_TRL for each in outputs)
    ):
        raise TypeError(f'outputs = {outputs!r}: linear_cross_entropy makes ("log_probs", "entropy") and no others')
    dtype = last_hidden.dtype if weight.dtype != last_hidden.dtype else None
    divisor = _divisor(temperature, logit_scale)
    logprob, entropy = linear_cross_entropy(last_hidden, weight, targets, divisor, compute_dtype=dtype)
    return (logprob, entropy) if outputs is None else (logprob, entropy if "entropy" in outputs else None, None, None, None)


def _divisor(temperature: float, logit_scale: float) -> float:
    """temperature / logit_scale."""
    if not isinstance(temperature, (numbers.Real, torch.Tensor, torch.SymFloat, torch.SymInt)):
        raise TypeError(f"temperature is a {type(temperature).__name__}: a number is needed")
    number = isinstance(logit_scale, (numbers.Real, torch.SymFloat, torch.SymInt))
    if not number or not 1 / MOST <= logit_scale <= 1 / LEAST:
        # A compiler has no text of a number that is an input of its graph.
        shown = "" if torch.compiler.is_compiling() else f" = {logit_scale!r}"
        raise ValueError(f"logit_scale{shown}: a number greater than 0 whose inverse is one of fp32")
    return temperature / logit_scale


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
    _check_tensors(hidden_states=hidden_states, lm_head_weight=lm_head_weight)
    _check_hidden("hidden_states", hidden_states)
    divisor = _divisor(1.0, logit_scale)
    if shift_labels is None:
        if labels is None:
            raise TypeError("labels and shift_labels are None: one of them is needed")
        shift_labels = _shifted(labels, hidden_states.shape, ignore_index)
    _check_tensors(shift_labels=shift_labels)
    shift_labels = shift_labels.to(hidden_states.device)
    if shift_labels.dim() == 1 and shift_labels.numel() == hidden_states.shape[:-1].numel():
        shift_labels = shift_labels.reshape(hidden_states.shape[:-1])
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss, _ = linear_cross_entropy(
        hidden_states, lm_head_weight, shift_labels, divisor, reduction, ignore_index, gradients=gradients
    )
    if isinstance(num_items_in_batch, torch.Tensor):
        num_items_in_batch = num_items_in_batch.to(loss.device)
    return loss if num_items_in_batch is None else loss / num_items_in_batch


def _shifted(labels: torch.Tensor, shape: torch.Size, ignore_index: int) -> torch.Tensor:
    """Labels of what comes next in each sequence; that of its last position is ignored."""
    _check_tensors(labels=labels)
    if labels.dim() == 1 and len(shape) == 3 and shape[0] == 1:
        labels = labels[None]  # flat, of one sequence
    if labels.dim() == 0 or labels.shape != shape[:-1]:
        raise ValueError(f"labels.shape = {tuple(labels.shape)}: hidden_states.shape = {tuple(shape)} asks for one a position")
    if labels.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"labels.dtype = {labels.dtype}: int64 or int32")
    check_ignore_index(ignore_index)
    if labels.dtype == torch.int32 and not -(1 << 31) <= ignore_index < 1 << 31:
        labels = labels.long()
    return torch.nn.functional.pad(labels, (0, 1), value=int(ignore_index))[..., 1:]
