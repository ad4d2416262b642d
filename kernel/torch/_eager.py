# SPDX-License-Identifier: Apache-2.0
"""The operator without PyTorch's dispatcher, for plain tensors outside of compilers: forward and backward take 110 us of a
host's time in place of 270 (tests/kernel/torch/overhead)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import _operators

_PLAIN = (torch.Tensor, torch.nn.Parameter, type(None))


class LinearCrossEntropyFunction(torch.autograd.Function):
    """What register_autograd makes of the registered operators."""

    @staticmethod
    def forward(ctx, *inputs):
        output = _operators.run_forward(*inputs)
        _operators.keep(ctx, inputs, output)
        return output

    @staticmethod
    def backward(ctx, *gradients):
        # With a graph of the gradients wanted, the registered operator says that there is none.
        run = _operators.backward if torch.is_grad_enabled() else _operators.run_backward
        return _operators.differentiate(ctx, *gradients, run=run)


def operator_for(*tensors: torch.Tensor | None) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The fastest way to run the operator on these: what modes, transformations and subclasses of tensors must see goes
    through the dispatcher."""
    plain = (
        tensors[0].device.type in ("cpu", "cuda")
        and not torch.compiler.is_compiling()
        and all(type(tensor) in _PLAIN for tensor in tensors)
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and not torch.is_autocast_enabled(tensors[0].device.type)
    )
    return _without_dispatcher if plain else _operators.forward


def _without_dispatcher(*arguments) -> tuple[torch.Tensor, ...]:
    save = arguments[-1]
    return LinearCrossEntropyFunction.apply(*arguments) if save else _operators.run_forward(*arguments)
