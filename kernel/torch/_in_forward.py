# SPDX-License-Identifier: Apache-2.0
"""Gradients in forward: both passes in one call with an upstream gradient of 1 for the loss. Backward multiplies what was
made by the upstream gradient that there is (kernel/TORCH.md, "Gradients in forward")."""

from __future__ import annotations

import torch

from . import _eager, _operators, _passes
from ._operators import library
from ._passes import Options
from ._scalars import scalar

library.define(
    f"linear_cross_entropy_in_forward({_operators.ARGUMENTS}, bool need_hidden, bool need_weight) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
library.define(
    "linear_cross_entropy_scaled(Tensor gradient, Tensor? upstream, Tensor? grad_entropy) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
operator = torch.ops.plumbline.linear_cross_entropy_in_forward.default
scaled = torch.ops.plumbline.linear_cross_entropy_scaled.default

REFUSED = (
    "entropy of linear_cross_entropy has no gradient where gradients are made in forward: use entropy.detach(), or "
    'gradients="backward"'
)


def _run(
    hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, columns, need_hidden, need_weight
):  # fmt: skip
    options = Options(ignore_index, reduction, compute_dtype, columns)
    one = hidden.new_ones((), dtype=torch.float32)
    return _passes.forward_backward(hidden, weight, labels, temperature, options, one, need_hidden, need_weight, True, True)


def _fake(
    hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, columns, need_hidden, need_weight
):  # fmt: skip
    gradients = _operators.fake_gradients(hidden, weight, compute_dtype, need_hidden, need_weight)
    return *_passes.outputs(hidden, reduction), *gradients


def _factor(gradient: torch.Tensor, upstream: torch.Tensor | None, grad_entropy: torch.Tensor | None) -> torch.Tensor:
    """The upstream gradient in fp32. It has one dimension: PyTorch would round a scalar to the dtype of what it multiplies.
    Compilers and checkpoints hand a gradient of entropy on where there is none, as zeros: one that is not is an error on a
    CPU, and on a device, where nothing waits to look, NaN."""
    factor = gradient.new_zeros(1, dtype=torch.float32) if upstream is None else _passes.numbers(upstream).float().reshape(1)
    if grad_entropy is None:
        return factor
    wanted = _passes.numbers(grad_entropy).ne(0).any()
    if gradient.device.type == "cpu" and wanted:
        raise NotImplementedError(REFUSED)
    return torch.where(wanted, torch.nan, factor)


def _scale(gradient: torch.Tensor, factor: torch.Tensor, zero: torch.Tensor, into: torch.Tensor) -> torch.Tensor:
    """The product in fp32, rounded to the dtype of the gradient. To it +0 is added: a gradient of +0, as ignored rows have,
    stays +0 where the factor is negative."""
    return torch.addcmul(zero, gradient, factor, out=into)


def _run_scaled(gradient, upstream, grad_entropy):
    factor = _factor(gradient, upstream, grad_entropy)
    return _scale(gradient, factor, torch.zeros_like(factor), torch.empty_like(gradient))


for _key in ("CPU", "CUDA"):
    library.impl("linear_cross_entropy_in_forward", _run, _key)
    library.impl("linear_cross_entropy_scaled", _run_scaled, _key)
torch.library.register_fake("plumbline::linear_cross_entropy_in_forward", _fake, lib=library)
torch.library.register_fake("plumbline::linear_cross_entropy_scaled", lambda gradient, *_: torch.empty_like(gradient), lib=library)
_operators.register_autocast("linear_cross_entropy_in_forward", operator)


def _keep(ctx, inputs, output) -> None:
    for name, needed, made in zip(("hidden", "weight"), ctx.needs_input_grad, inputs[-2:]):
        if needed and not made:  # a graph that was exported for an input without one
            raise ValueError(f"{name}.requires_grad = True: linear_cross_entropy_in_forward was not asked for its gradient")
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[2:])
    ctx.save_for_backward(*output[4:])


def _differentiate(ctx, grad_loss, grad_entropy, *_):
    asked = grad_loss is not None or grad_entropy is not None
    needed = [each and asked for each in ctx.needs_input_grad[:2]]
    if any(needed):
        _refuse_graph()
    return *(scaled(gradient, grad_loss, grad_entropy) if need else None
             for gradient, need in zip(ctx.saved_tensors, needed, strict=True)), *[None] * 8  # fmt: skip


def _refuse_graph() -> None:
    """Refuses a graph of the gradients. From what forward has made no path leads to hidden and weight, which are not kept:
    what is differentiated by them again would be 0 and no error."""
    if torch.is_grad_enabled():
        raise NotImplementedError(
            "create_graph = True: gradients of linear_cross_entropy that were made in forward have no graph, and there is no "
            'second derivative; gradients="backward" has a graph that refuses it once it is asked for'
        )


torch.library.register_autograd("plumbline::linear_cross_entropy_in_forward", _differentiate, setup_context=_keep, lib=library)
torch.library.register_autograd("plumbline::linear_cross_entropy_scaled", _operators.no_second_derivative, lib=library)


class InForwardFunction(torch.autograd.Function):
    """What register_autograd makes of the registered operator, for _eager.is_direct(). Where the graph is not kept, backward
    writes its gradients over those that forward made."""

    @staticmethod
    def forward(ctx, hidden, weight, labels, temperature, options, with_lse, with_first_invalid):
        needed, one = ctx.needs_input_grad[:2], scalar(1.0, hidden.device)
        *outputs, grad_hidden, grad_weight = _passes.forward_backward(
            hidden, weight, labels, temperature, options, one, *needed, with_lse, with_first_invalid
        )
        ctx.set_materialize_grads(False)
        if with_lse:
            ctx.mark_non_differentiable(outputs[2])
        ctx.save_for_backward(grad_hidden if needed[0] else None, grad_weight if needed[1] else None)
        # What hooks of saved tensors have seen may be held elsewhere.
        ctx.own = torch._C._autograd._top_saved_tensors_default_hooks(True) is None
        return *outputs,

    @staticmethod
    def backward(ctx, grad_loss, grad_entropy, *_):
        made, given = ctx.saved_tensors, [each for each in (grad_loss, grad_entropy) if each is not None]
        if not given:
            made = None, None
        elif torch.is_grad_enabled() or not all(map(_eager.is_plain, given)):
            _refuse_graph()
            made = [each if each is None else scaled(each, grad_loss, grad_entropy) for each in made]
        else:
            over = ctx.own and not torch._C._autograd._get_current_graph_task_keep_graph()
            # What a CUDA graph holds runs at each replay, and would scale what it has scaled.
            over = over and not (given[0].is_cuda and torch.cuda.is_current_stream_capturing())
            factor, zero = _factor(given[0], grad_loss, grad_entropy), scalar(0.0, given[0].device)
            made = [each if each is None else _scale(each, factor, zero, each if over else torch.empty_like(each))
                    for each in made]  # fmt: skip
        return *made, None, None, None, None, None
