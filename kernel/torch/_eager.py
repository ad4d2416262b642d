# SPDX-License-Identifier: Apache-2.0
"""The operator without PyTorch's dispatcher, for plain tensors outside of compilers: that takes a host half of the time
(bench/results/torch-operator.json)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import _operators

_PLAIN = (torch.Tensor, torch.nn.Parameter, type(None))


def _is_batched(tensor: torch.Tensor | None) -> bool:
    """Whether autograd has batched it for is_grads_batched."""
    return tensor is not None and torch._C._functorch.is_legacy_batchedtensor(tensor)


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
        direct = not torch.is_grad_enabled() and is_plain(*gradients[:2])  # the other outputs have none
        return _operators.differentiate(ctx, *gradients, run=_operators.run_backward if direct else _operators.backward)


def is_plain(*tensors: torch.Tensor | None) -> bool:
    """Whether nothing but the operator need see these tensors: no mode, transformation, tracer or subclass."""
    return (
        not torch.compiler.is_compiling()
        and all(type(tensor) in _PLAIN for tensor in tensors)
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch._C._get_tracing_state() is None
        and not any(map(_is_batched, tensors))
    )


def _refuse_forward_mode(tensors: tuple[torch.Tensor | None, ...]) -> None:
    """There are no tangents: PyTorch would take them for 0."""
    interpreter = torch._C._functorch.peek_interpreter_stack()
    if interpreter is not None and interpreter.key() != torch._C._functorch.TransformType.Vmap:
        raise NotImplementedError(
            f"linear_cross_entropy under torch.func's {interpreter.key().name.lower()}: use torch.autograd.grad; there is no "
            "forward mode"
        )
    dual = torch.autograd.forward_ad
    if dual._current_level >= 0 and any(dual.unpack_dual(each).tangent is not None for each in tensors if each is not None):
        raise NotImplementedError("linear_cross_entropy has no forward-mode derivative: use torch.autograd.grad")


def operator_for(*tensors: torch.Tensor | None) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The fastest way to run the operator on these: what others must see goes through the dispatcher."""
    device = tensors[0].device.type
    if not torch.compiler.is_compiling():
        _refuse_forward_mode(tensors)
    plain = device in ("cpu", "cuda") and is_plain(*tensors) and not torch.is_autocast_enabled(device)
    return _without_dispatcher if plain else _operators.forward


def _without_dispatcher(*arguments) -> tuple[torch.Tensor, ...]:
    save = arguments[-1]
    return LinearCrossEntropyFunction.apply(*arguments) if save else _operators.run_forward(*arguments)
