# SPDX-License-Identifier: Apache-2.0
"""Heads: the loss of a batch, and the log-probability of each row, from the same bf16 hidden states and weight.

plumbline            the operator
fp32                 logits in fp32, of the product of the bf16 operands, which fp32 holds exactly
fp32, bf16 gradient  the same, but the logits' gradient is rounded to bf16 before both products, as the operator stores it on
                     a GPU; in training alone
bf16                 logits as a bf16 product writes them, converted to fp32 before the softmax, as trainers have it under
                     autocast
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

NARROW = torch.bfloat16
Head = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]


@torch.library.custom_op("plumbline_bench::rounded", mutates_args=())
def rounded(wide: torch.Tensor) -> torch.Tensor:
    """bf16's numbers in fp32. The gradient is not rounded, as the operator's gradient of an fp32 weight is not. An operator of
    its own, because a compiler may leave out a conversion to bf16 and back."""
    return wide.to(NARROW).float()


@rounded.register_fake
def _(wide: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(wide)


rounded.register_autograd(lambda _, gradient: gradient)


@torch.library.custom_op("plumbline_bench::narrow_gradient", mutates_args=())
def narrow_gradient(logits: torch.Tensor) -> torch.Tensor:
    """The same numbers, whose gradient is rounded to bf16."""
    return logits.clone()


@narrow_gradient.register_fake
def _(logits: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(logits)


narrow_gradient.register_autograd(lambda _, gradient: rounded(gradient))


def operator_loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float) -> torch.Tensor:
    from plumbline.torch import linear_cross_entropy

    return linear_cross_entropy(hidden, weight, labels, temperature, "mean", compute_dtype=NARROW)[0]


def fp32_loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float) -> torch.Tensor:
    logits = functional.linear(hidden.to(NARROW).float(), rounded(weight)) / temperature
    return functional.cross_entropy(logits, labels)


def narrow_gradient_loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float) -> torch.Tensor:
    logits = narrow_gradient(functional.linear(hidden.to(NARROW).float(), rounded(weight))) / temperature
    return functional.cross_entropy(logits, labels)


def bf16_loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float) -> torch.Tensor:
    logits = functional.linear(hidden.to(NARROW), weight.to(NARROW)).float() / temperature
    return functional.cross_entropy(logits, labels)


def operator_logprob(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float) -> torch.Tensor:
    from plumbline.torch import linear_cross_entropy

    return linear_cross_entropy(hidden, weight, labels, temperature)[0]


def chosen(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.log_softmax(logits, -1).gather(-1, labels[:, None])[:, 0]


def fp32_logprob(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float) -> torch.Tensor:
    return chosen(functional.linear(hidden.float(), weight.float()) / temperature, labels)


def bf16_logprob(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float) -> torch.Tensor:
    return chosen(functional.linear(hidden, weight).float() / temperature, labels)


LOSSES: dict[str, Head] = {"plumbline": operator_loss, "fp32": fp32_loss, "bf16": bf16_loss,
                            "fp32, bf16 gradient": narrow_gradient_loss}
LOGPROBS: dict[str, Head] = {"plumbline": operator_logprob, "fp32": fp32_logprob, "bf16": bf16_logprob}
