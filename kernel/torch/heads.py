# SPDX-License-Identifier: Apache-2.0
"""Heads and weights whose numbers are not what a plain matrix would say: refused by name."""

from __future__ import annotations

from typing import NoReturn

import torch
from torch.nn.utils import parametrize

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_OF_TRACING = "torch._subclasses."  # fake and functional tensors stand for plain ones


def check_weight(weight: torch.Tensor) -> None:
    """Refuses a weight that is sharded, quantised or not there yet."""
    placements = getattr(weight, "placements", None)
    if placements is not None:
        if all(placement.is_replicate() for placement in placements):
            return
        raise TypeError(
            f"weight is a DTensor with placements {tuple(placements)}: a sharded vocabulary or hidden size is not supported; "
            "call LinearCrossEntropy under FSDP, whose forward gathers it, or weight.full_tensor()"
        )
    if hasattr(weight, "ds_id") and weight.numel() == 0:
        raise TypeError(
            "weight is partitioned (DeepSpeed ZeRO-3): call LinearCrossEntropy, whose forward gathers it, or "
            "deepspeed.zero.GatheredParameters"
        )
    kind = type(weight)
    if kind in _PLAIN or torch.compiler.is_compiling() or kind.__module__.startswith(_OF_TRACING):
        return
    raise TypeError(f"weight is a {kind.__module__}.{kind.__qualname__}: a plain tensor is needed (quantised weights are not)")


def check_head(head: torch.nn.Module) -> None:
    """Refuses a module that multiplies by more than its weight, for callers that go on to read the weight alone: what an
    adapter adds to it would be left out in silence. Subclasses with nn.Linear's own forward, as FSDP2 makes them, pass."""
    if type(head).forward is not torch.nn.Linear.forward:
        _refuse_kind(head)


def _refuse_kind(head: torch.nn.Module) -> NoReturn:
    kind = type(head)
    raise TypeError(
        f"head is a {kind.__module__}.{kind.__qualname__}: nn.Linear is needed (an adapter or a quantised head multiplies by "
        "more than its weight)"
    )


def weight_of(head: torch.nn.Module, *kinds: type[torch.nn.Module]) -> torch.Tensor:
    """The weight of a plain `nn.Linear` without bias, or of a module of `kinds`; anything that would change its product is
    refused."""
    kind = type(head)
    if parametrize.is_parametrized(head):
        names = ", ".join(head.parametrizations)
        raise TypeError(f"head has parametrizations of {names}: its weight is not what it multiplies by")
    if kind not in (torch.nn.Linear, *kinds):
        _refuse_kind(head)
    if "forward" in vars(head):
        raise TypeError("head.forward has been replaced, as some libraries hook modules: it would not run")
    if head.bias is not None:
        raise TypeError(f"head.bias has shape {tuple(head.bias.shape)}: a bias is not supported")
    hooks = [name for name in _HOOKS if getattr(head, name, None)]
    if hooks:
        raise TypeError(f"head has {hooks[0].strip('_')}: they would not run; call LinearCrossEntropy in place of the head")
    check_weight(head.weight)
    return head.weight
