# SPDX-License-Identifier: Apache-2.0
"""Functions whose outputs carry PyTorch's graph: their gradients, and checks of what a graph is used for.

One of the further checks is made in the first call of each problem, all of them where there are at most
four rows, so that a shrunk finding shows again:

* backward twice on one graph, the same upstream gradients: the same bits, unless PyTorch refuses the second one;
* one input alone needs a gradient: the bits that it has beside the other;
* forward under no_grad: the bits of forward with a graph.

Differences that a function shows from one call to the next are no finding of these (graph_checks.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from . import graph_checks
from .call import Call, Misfit, Missing, Returned, no_gradient

if TYPE_CHECKING:
    from .call import Kernel

_MOST_ROOM = 1 << 20  # elements that a negated gradient may take
_INPUT = {"grad_hidden": "hidden", "grad_weight": "weight"}


def _outputs(kernel: Kernel, call: Call, values: dict[str, Any], needing: tuple[str, ...]) -> dict[str, Returned]:
    for name in ("hidden", "weight"):
        values[name] = values[name].detach().requires_grad_(name in needing)
    with torch.set_grad_enabled(bool(needing)):
        return kernel.named(kernel.signature.call(kernel.function, values), call.reduction)


def _negated(gradient: torch.Tensor) -> torch.Tensor:
    """-gradient with its strides, unless they reach too far: a broadcast stays one."""
    if gradient.dim() == 1 and gradient.numel() > 1 and gradient.stride(0) == 0:
        return (-gradient[:1]).expand(gradient.shape)
    if gradient.dim() == 1 and 1 < gradient.stride(0) <= _MOST_ROOM // max(gradient.numel(), 1):
        room = torch.empty(gradient.numel() * gradient.stride(0), dtype=gradient.dtype, device=gradient.device)
        return room[:: gradient.stride(0)].copy_(-gradient)
    return -gradient


def _gradients(
    kernel: Kernel, call: Call, named: dict[str, Returned], upstream: dict[str, Any], retain: bool = False,
    needing: tuple[str, ...] = (), values: dict[str, Any] | None = None,
) -> dict[str, Returned]:
    outputs, weights = [], []
    objective = "logprob" if call.reduction == "none" else "loss"
    for name, role in ((objective, "grad_logprob"), ("entropy", "grad_entropy")):
        given = upstream.get(role)
        if name not in named or given is None:
            continue
        output = named[name]
        if not output.value.requires_grad:
            raise Misfit(f"{name} carries no graph: no gradient can be taken of it")
        if call.reduction == "none" and output.value.shape != given.shape:
            raise Misfit(f"{name} has shape {list(output.value.shape)} where {list(given.shape)} is required")
        outputs.append(output.value)
        given = _negated(given) if output.negate else given
        weights.append(given.to(output.value.dtype))
    if not outputs and objective in named:
        outputs.append(named[objective].value)
        weights.append(torch.zeros_like(named[objective].value))
    inputs = [values[name] for name in needing]
    found = torch.autograd.grad(outputs, inputs, weights, retain_graph=retain, allow_unused=True)
    result = {}
    for name, gradient in zip(needing, found):
        if gradient is None:
            raise Misfit(no_gradient("grad_" + name))
        result["grad_" + name] = Returned(gradient)
    return result


def _checked(
    kernel: Kernel, call: Call, checks: tuple[str, ...], named: dict[str, Returned], first: dict[str, Returned],
    upstream: dict[str, Any], needing: tuple[str, ...], values: dict[str, Any],
) -> dict[str, Returned]:
    """The gradients `first`, once these checks are made. Raises Misfit."""

    def gradients_again(alone: tuple[str, ...]) -> dict[str, Returned]:
        again = _outputs(kernel, call, values, alone)
        return _gradients(kernel, call, again, upstream, False, alone, values)

    if "twice" in checks:
        given, first = first, {name: Returned(each.value.clone()) for name, each in first.items()}
        try:
            second = _gradients(kernel, call, named, upstream, False, needing, values)
        except RuntimeError as error:
            if not graph_checks.is_refused(error):
                raise
            second = {}
        second = {name: each.value.clone() for name, each in second.items()}  # a further call may write over them
        for name, gradient in first.items():
            graph_checks.require_same("after", name, gradient.value, given[name].value)
        for name, value in second.items():
            graph_checks.require_same("again", name, first[name].value, value,
                                      lambda name=name: gradients_again(needing)[name].value)
    for alone in needing if "frozen" in checks and len(needing) == 2 else ():
        name = "grad_" + alone
        graph_checks.require_same("alone", name, first[name].value, gradients_again((alone,))[name].value,
                                  lambda name=name: gradients_again(needing)[name].value)
    if "no_grad" in checks:
        again = _outputs(kernel, call, values, ())
        for name, output in named.items():
            if name not in call.results:
                continue
            if name not in again:
                raise Missing(f"{name} did not come back under no_grad")
            kernel.require_array(name, again[name].value)
            graph_checks.require_same("no_grad", name, output.value, again[name].value,
                                      lambda name=name: _outputs(kernel, call, values, needing)[name].value)
    return first


def call_autograd(kernel: Kernel, call: Call, values: dict[str, Any]) -> dict[str, Returned]:
    """Forward and, where gradients are asked for, backward."""
    upstream = {role: values.pop(role, None) for role in ("grad_logprob", "grad_entropy")}
    needing = tuple(_INPUT[name] for name in call.gradients())
    named = _outputs(kernel, call, values, needing)
    for name, output in named.items():
        kernel.require_array(name, output.value)
    if needing and not any(output.value.requires_grad for output in named.values()):
        raise Missing(f"{' and '.join(call.gradients())} asked for, and no output carries a graph")
    if needing:
        checks = kernel.further_checks(call)
        first = _gradients(kernel, call, named, upstream, "twice" in checks, needing, values)
        named |= _checked(kernel, call, checks, named, first, upstream, needing, values)
    return {name: Returned(output.value.detach(), output.negate) for name, output in named.items()}
