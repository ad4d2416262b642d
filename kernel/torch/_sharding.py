# SPDX-License-Identifier: Apache-2.0
"""How DTensor runs the operator: rows may be sharded, the weight may not. Imported with the first DTensor that is seen."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.distributed.tensor.experimental import register_sharding

_WHOLE, _ROWS, _SUM = Replicate(), Shard(0), Partial()
_NO_TENSOR = 4  # ignore_index, reduction, compute_dtype, saved_columns


def _optional(spec: Any, placement: Any) -> Any:
    return None if spec is None else placement


def _of_row(spec: Any, rows: Any) -> Any:
    """A scalar is on every device, a vector with the rows."""
    return None if spec is None else rows if len(spec.shape) else _WHOLE


@register_sharding(torch.ops.plumbline.linear_cross_entropy.default)
def _forward(hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, saved_columns, save):
    whole = ([_WHOLE] * 5, [_WHOLE, _WHOLE, _WHOLE, _optional(temperature, _WHOLE), *[None] * (_NO_TENSOR + 1)])
    inputs = [_ROWS, _WHOLE, _ROWS, _of_row(temperature, _ROWS), *[None] * (_NO_TENSOR + 1)]
    # A mean divides by the number of rows on all devices, which none of them knows: rows are gathered for it.
    if reduction == 2:
        return [whole]
    return [whole, ([_SUM if reduction else _ROWS, _ROWS, _ROWS, _WHOLE, _ROWS], inputs)]


@register_sharding(torch.ops.plumbline.linear_cross_entropy_backward.default)
def _backward(
    grad_logprob, grad_entropy, hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, saved_columns,
    saved, need_hidden, need_weight,
):  # fmt: skip
    def inputs(rows: Any) -> list[Any]:
        return [
            _of_row(grad_logprob, rows), _of_row(grad_entropy, rows), rows, _WHOLE, rows, _of_row(temperature, rows),
            *[None] * _NO_TENSOR, rows, None, None,
        ]  # fmt: skip

    whole = ([_WHOLE, _WHOLE], inputs(_WHOLE))
    return [whole] if reduction == 2 else [whole, ([_ROWS, _SUM], inputs(_ROWS))]


def placed(hidden: torch.Tensor, **others: torch.Tensor | None) -> list[torch.Tensor | None]:
    """The other tensors of a call whose hidden is a DTensor: a scalar is replicated, any else must be a DTensor."""
    made = []
    for name, tensor in others.items():
        if tensor is None or isinstance(tensor, DTensor):
            made.append(tensor)
        elif tensor.dim() == 0:
            made.append(distribute_tensor(tensor, hidden.device_mesh, [_WHOLE] * hidden.device_mesh.ndim))
        else:
            raise TypeError(f"{name} is a plain tensor and hidden a DTensor: distribute it, or give hidden.to_local()")
    return made
