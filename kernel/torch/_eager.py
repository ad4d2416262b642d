# SPDX-License-Identifier: Apache-2.0
"""The operator without PyTorch's dispatcher, for plain tensors outside of compilers: that takes a host half of the time
(bench/results/torch-operator.json)."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

from . import _operators, _passes

_KINDS = frozenset((torch.Tensor, torch.nn.Parameter, type(None)))
_BATCHING = torch._C._parse_dispatch_key("VmapMode")  # by autograd, for is_grads_batched
# Looked up once: is_plain() asks them twice in each step.
_modes, _transformation = torch._C._len_torch_dispatch_stack, torch._C._functorch.peek_interpreter_stack
_tracer, _has_key = torch._C._get_tracing_state, torch._C._dispatch_tls_is_dispatch_key_included
_is_compiling = torch.compiler.is_compiling


class LinearCrossEntropyFunction(torch.autograd.Function):
    """What register_autograd makes of the registered operators. A temperature that is a number is none of its tensors."""

    @staticmethod
    def forward(ctx, hidden, weight, labels, temperature, options, with_lse, with_first_invalid):
        outputs = _passes.forward(hidden, weight, labels, temperature, options, True, with_lse, with_first_invalid)
        ctx.set_materialize_grads(False)
        if with_lse:
            ctx.mark_non_differentiable(outputs[2])
        number = isinstance(temperature, float)
        ctx.options, ctx.number = options, temperature if number else None
        ctx.save_for_backward(hidden, weight, labels, None if number else temperature, outputs[4])
        return outputs[:4]

    @staticmethod
    def backward(ctx, grad_result, grad_entropy, *_):
        hidden, weight, labels, temperature, saved = ctx.saved_tensors
        need_hidden, need_weight, *_ = ctx.needs_input_grad
        others = grad_result, grad_entropy, saved, need_hidden, need_weight
        # With a graph of the gradients wanted, the registered operator says that there is none.
        if torch.is_grad_enabled() or not is_plain(grad_result, grad_entropy):
            temperature = as_tensor(ctx.number, hidden.device) if temperature is None else temperature
            gradients = _operators.backward(hidden, weight, labels, temperature, *ctx.options, *others)
        else:
            temperature = ctx.number if temperature is None else temperature
            gradients = _passes.backward(hidden, weight, labels, temperature, ctx.options, *others)
        return gradients[0] if need_hidden else None, gradients[1] if need_weight else None, None, None, None, None, None


def as_tensor(temperature: float | torch.Tensor | None, device: torch.device) -> torch.Tensor | None:
    """A temperature as the registered operators take it."""
    if temperature is None or isinstance(temperature, torch.Tensor):
        return temperature
    if torch.compiler.is_compiling():  # which makes a graph of each value that `full` is given
        return torch.ones((), dtype=torch.float32, device=device) * temperature
    return torch.full((), temperature, dtype=torch.float32, device=device)


def is_plain(*tensors: torch.Tensor | None) -> bool:
    """Whether nothing but the operator need see these tensors: no mode, transformation, tracer or subclass."""
    return (
        _KINDS.issuperset(map(type, tensors))
        and not _is_compiling()
        and _modes() == 0
        and _transformation() is None
        and _tracer() is None
        and not _has_key(_BATCHING)
    )


def _refuse_forward_mode(tensors: tuple[torch.Tensor | None, ...]) -> None:
    """There are no tangents: PyTorch would take them for 0."""
    interpreter = torch._C._functorch.peek_interpreter_stack()
    if interpreter is not None and interpreter.key() != torch._C._functorch.TransformType.Vmap:
        raise NotImplementedError(
            f"linear_cross_entropy under torch.func's {interpreter.key().name.lower()}: use torch.autograd.grad; there is no "
            "forward mode"
        )
    if forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(each).tangent is not None for each in tensors if each is not None
    ):
        raise NotImplementedError("linear_cross_entropy has no forward-mode derivative: use torch.autograd.grad")


def is_direct(*tensors: torch.Tensor | None) -> bool:
    """Whether the operator may be run on these without the dispatcher. Refuses derivatives that there are not."""
    if forward_ad._current_level < 0 and is_plain(*tensors):
        if tensors[0].is_cpu:
            return not torch.is_autocast_enabled("cpu")
        return tensors[0].is_cuda and not torch.is_autocast_enabled("cuda")
    if not torch.compiler.is_compiling():
        _refuse_forward_mode(tensors)
    return False
