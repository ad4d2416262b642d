# SPDX-License-Identifier: Apache-2.0
"""The operator on DTensors: rows may be sharded, the weight may not. Imported with the first DTensor that is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

_WHOLE = Replicate()


def _whole(outputs: int, arguments: tuple[Any, ...]) -> list[tuple[list[Any], list[Any]]]:
    """The rule of the registered operators: everything on every device. A saved state, whose bytes are of one device's rows,
    is never sharded in another way than it was made; `over_rows` leaves each device its own."""
    return [([_WHOLE] * outputs, [_WHOLE if hasattr(each, "tensor_meta") else None for each in arguments])]


@register_sharding(torch.ops.plumbline.linear_cross_entropy.default)
def _forward(*arguments: Any):
    return _whole(5, arguments)


@register_sharding(torch.ops.plumbline.linear_cross_entropy_backward.default)
def _backward(*arguments: Any):
    return _whole(2, arguments)


@register_sharding(torch.ops.plumbline.linear_cross_entropy_in_forward.default)
def _in_forward(*arguments: Any):
    return _whole(6, arguments)


@register_sharding(torch.ops.plumbline.linear_cross_entropy_scaled.default)
def _scaled(*arguments: Any):
    return _whole(1, arguments)


def _like(name: str, tensor: torch.Tensor, hidden: DTensor, placements: tuple[Any, ...]) -> torch.Tensor:
    """This device's part of a tensor with one number for each row."""
    if isinstance(tensor, DTensor):
        return tensor.redistribute(placements=placements).to_local()
    raise TypeError(f"{name} is a plain tensor and hidden a DTensor: distribute it, or give hidden.to_local()")


def over_rows(
    run: Callable[..., tuple[torch.Tensor, ...]],
    hidden: DTensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    temperature: float | torch.Tensor,
    reduction: str,
) -> tuple[torch.Tensor, ...]:
    """Runs the operator on each device's rows. Outputs are placed as hidden is; a sum is partial. A mean divides by the
    number of rows of all devices, which none of them knows: rows are gathered for it."""
    if not isinstance(weight, DTensor):
        raise TypeError("weight is a plain tensor and hidden a DTensor: distribute it, replicated, or give hidden.to_local()")
    mesh = hidden.device_mesh
    depth = hidden.dim() - 1
    rows = [Shard(p.dim % hidden.dim()) if reduction != "mean" and p.is_shard() and p.dim % hidden.dim() != depth else _WHOLE
            for p in hidden.placements]  # fmt: skip
    local = hidden.redistribute(placements=rows).to_local(grad_placements=rows)
    # A replicated weight has a part of its gradient on each device that has rows of its own.
    parts = [Partial() if p.is_shard() else _WHOLE for p in rows]
    local_weight = weight.to_local(grad_placements=parts)
    local_labels = _like("labels", labels, hidden, rows)
    if isinstance(temperature, torch.Tensor):
        if temperature.dim():
            temperature = _like("temperature", temperature, hidden, rows)
        elif isinstance(temperature, DTensor):
            temperature = temperature.full_tensor()
    result, *others = run(local, local_weight, local_labels, temperature)
    made = [_placed(each, mesh, rows, labels.shape) for each in others]
    if reduction == "none":
        return _placed(result, mesh, rows, labels.shape), *made
    return DTensor.from_local(result, mesh, parts, run_check=False), *made


def _placed(local: torch.Tensor, mesh: Any, placements: list[Any], shape: torch.Size) -> DTensor:
    """A DTensor of all rows; devices need not have the same number."""
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=shape, stride=stride)
