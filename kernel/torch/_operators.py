# SPDX-License-Identifier: Apache-2.0
"""plumbline::linear_cross_entropy and its backward as operators of PyTorch: what torch.compile, CUDA graphs, autograd and
autocast see. functional.py is what callers see."""

from __future__ import annotations

import torch

from . import _passes
from ._passes import Options

ARGUMENTS = (
    "Tensor hidden, Tensor weight, Tensor labels, Tensor? temperature, int ignore_index, int reduction, "
    "ScalarType? compute_dtype, SymInt saved_columns"
)

library = torch.library.Library("plumbline", "DEF")
# The last output is the saved state; the one before it, the first invalid row.
library.define(
    f"linear_cross_entropy({ARGUMENTS}, bool save) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
library.define(
    f"linear_cross_entropy_backward({ARGUMENTS}, Tensor? grad_logprob, Tensor? grad_entropy, Tensor saved, "
    "bool need_hidden, bool need_weight) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
forward = torch.ops.plumbline.linear_cross_entropy.default
backward = torch.ops.plumbline.linear_cross_entropy_backward.default


def run_forward(hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, saved_columns, save):
    options = Options(ignore_index, reduction, compute_dtype, saved_columns)
    *outputs, saved = _passes.forward(hidden, weight, labels, temperature, options, save, True, True, planned=True)
    return *outputs, hidden.new_empty(0, dtype=torch.uint8) if saved is None else saved


def run_backward(
    hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, saved_columns, grad_logprob, grad_entropy,
    saved, need_hidden, need_weight,
):  # fmt: skip
    options = Options(ignore_index, reduction, compute_dtype, saved_columns)
    return _passes.backward(
        hidden, weight, labels, temperature, options, grad_logprob, grad_entropy, saved, need_hidden, need_weight
    )


for _key in ("CPU", "CUDA"):
    library.impl("linear_cross_entropy", run_forward, _key)
    library.impl("linear_cross_entropy_backward", run_backward, _key)


@torch.library.register_fake("plumbline::linear_cross_entropy", lib=library)
def _fake_forward(hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, saved_columns, save):
    computed = compute_dtype or weight.dtype
    size = _passes.saved_bytes(hidden.device, hidden.shape[0], weight.shape[0], saved_columns, computed) if save else 0
    return *_passes.outputs(hidden, reduction), hidden.new_empty(size, dtype=torch.uint8)


@torch.library.register_fake("plumbline::linear_cross_entropy_backward", lib=library)
def _fake_backward(
    hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, saved_columns, grad_logprob, grad_entropy,
    saved, need_hidden, need_weight,
):  # fmt: skip
    return fake_gradients(hidden, weight, compute_dtype, need_hidden, need_weight)


def fake_gradients(
    hidden: torch.Tensor, weight: torch.Tensor, compute_dtype: torch.dtype | None, need_hidden: bool, need_weight: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients as a pass returns them."""
    computed = compute_dtype or weight.dtype
    return (
        _passes.cast(_passes.gradient(hidden, computed, need_hidden), hidden),
        _passes.cast(_passes.gradient(weight, computed, need_weight), weight),
    )


def _keep(ctx, inputs, output) -> None:
    hidden, weight, labels, temperature, *ctx.options, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[2], output[3], output[4])
    ctx.save_for_backward(hidden, weight, labels, temperature, output[4])


def _differentiate(ctx, grad_result, grad_entropy, *_):
    hidden, weight, labels, temperature, saved = ctx.saved_tensors
    need_hidden, need_weight = ctx.needs_input_grad[:2]
    grad_hidden = grad_weight = None
    if need_hidden or need_weight:
        grad_hidden, grad_weight = backward(
            hidden, weight, labels, temperature, *ctx.options, grad_result, grad_entropy, saved, need_hidden, need_weight
        )
    return grad_hidden if need_hidden else None, grad_weight if need_weight else None, *[None] * 7


torch.library.register_autograd("plumbline::linear_cross_entropy", _differentiate, setup_context=_keep, lib=library)


def no_second_derivative(ctx, *_):
    raise NotImplementedError("linear_cross_entropy has no second derivative: its gradients cannot be differentiated")


torch.library.register_autograd("plumbline::linear_cross_entropy_backward", no_second_derivative, lib=library)


def register_autocast(name: str, operator) -> None:
    """The rule of autocast: what the weight is in is multiplied in, unless a dtype was asked for."""

    def under(key: torch._C.DispatchKey):
        excluded = torch._C.DispatchKeySet(key)

        def run(hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, *others):
            with torch._C._ExcludeDispatchKeyGuard(excluded):
                computed = compute_dtype or (weight.dtype if hidden.dtype != weight.dtype else None)
                return operator(hidden, weight, labels, temperature, ignore_index, reduction, computed, *others)

        return run

    for key in ("AutocastCPU", "AutocastCUDA"):
        library.impl(name, under(getattr(torch._C.DispatchKey, key)), key)


register_autocast("linear_cross_entropy", forward)
