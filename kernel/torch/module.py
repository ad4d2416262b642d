# SPDX-License-Identifier: Apache-2.0
"""LinearCrossEntropy: the operator as a head."""

from __future__ import annotations

from typing import Self

import torch

from .functional import linear_cross_entropy
from .heads import check_weight, weight_of


class LinearCrossEntropy(torch.nn.Linear):
    """An nn.Linear without bias whose forward takes labels, so that hooks of FSDP2 and ZeRO gather its weight.

    forward(hidden, labels, …) is linear_cross_entropy(hidden, self.weight, labels, …) with the arguments given here as
    defaults; forward(hidden) returns logits, as nn.Linear does (for sampling). The state dict is nn.Linear's.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: object,
    ) -> None:
        if bias:
            raise TypeError("bias = True: a bias is not supported")
        super().__init__(in_features, out_features, bias=False, device=device, dtype=dtype)
        self.options = options

    @classmethod
    def from_linear(cls, head: torch.nn.Linear, **options: object) -> Self:
        """A head that shares the weight of a plain nn.Linear: tied weights stay tied."""
        weight = weight_of(head, LinearCrossEntropy)
        options = {**getattr(head, "options", {}), **options}
        made = cls(head.in_features, head.out_features, device="meta", dtype=weight.dtype, **options)
        made.weight = weight
        return made.train(head.training)

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor | None = None, **options: object):
        check_weight(self.weight)
        if labels is None:
            return super().forward(hidden)
        return linear_cross_entropy(hidden, self.weight, labels, **{**self.options, **options})

    def extra_repr(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return super().extra_repr() + options
