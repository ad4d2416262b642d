# SPDX-License-Identifier: Apache-2.0
"""A head that several ranks hold: which shard of the vocabulary, or of the rows, is this rank's."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any


class ShardError(Exception):
    """A head that is spread in a way that no dump can join; the text names the tensor and its placements."""


@dataclasses.dataclass(frozen=True)
class Shard:
    """This rank's part of a call."""

    rank: int  # within the group
    world_size: int
    ranks: tuple[int, ...]  # of the group, as the job counts them
    starts: dict[str, int]  # vocabulary_start, row_start; empty where ranks follow one another
    own_rows: bool = False  # each rank has other rows of hidden, and a shard of one weight


def _distributed() -> Any:
    return sys.modules["torch"].distributed


def of_group(name: str, group: Any) -> Shard | None:
    """The shard of the vocabulary that a rank of a process group holds; None of a group of one."""
    starts: dict[str, int] = {}
    if hasattr(group, "group") and hasattr(group, "start"):  # cut-cross-entropy's VocabParallelOptions
        starts, group = {"vocabulary_start": int(group.start)}, group.group
    distributed = _distributed()
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    if not isinstance(group, distributed.ProcessGroup):
        raise ShardError(f"{name} is a {type(group).__name__}, not a process group")
    ranks = tuple(distributed.get_process_group_ranks(group))
    return Shard(distributed.get_rank(group), len(ranks), ranks, starts) if len(ranks) > 1 else None


def _dtensor() -> Any:
    module = sys.modules.get("torch.distributed.tensor")
    return getattr(module, "DTensor", None)


def is_sharded(*tensors: Any) -> bool:
    kind = _dtensor()
    return kind is not None and any(isinstance(tensor, kind) for tensor in tensors)


def _split_at(name: str, tensor: Any) -> int | None:
    """The dimension along which a DTensor is split; None where every rank has the whole."""
    if not isinstance(tensor, _dtensor()):
        return None
    if tensor.device_mesh.ndim != 1:
        raise ShardError(f"{name} is spread over a mesh of {tensor.device_mesh.ndim} dimensions: {tensor.placements}")
    (placement,) = tensor.placements
    if placement.is_replicate():
        return None
    if not placement.is_shard():
        raise ShardError(f"{name} has the placement {placement}")
    return placement.dim % tensor.dim()


def _start(tensor: Any, dim: int) -> int:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return int(offset[dim])


def local(tensor: Any) -> Any:
    """This rank's part of a tensor."""
    kind = _dtensor()
    return tensor.to_local() if kind is not None and isinstance(tensor, kind) else tensor


def of_tensors(hidden: Any, weight: Any, labels: Any) -> tuple[Shard | None, tuple[Any, Any, Any]]:
    """The shard of tensors of which one is a DTensor, and this rank's parts. Raises ShardError."""
    given = {"hidden": hidden, "weight": weight, "labels": labels}
    split = {name: _split_at(name, tensor) for name, tensor in given.items()}
    parts = (local(hidden), local(weight), local(labels))
    spread = next(tensor for tensor in given.values() if isinstance(tensor, _dtensor()))
    mesh = spread.device_mesh
    ranks = tuple(mesh.mesh.flatten().tolist())
    if split["weight"] == 1:
        raise ShardError(f"weight is split along hidden: {weight.placements}")
    if split["weight"] == 0 and split["hidden"] is not None:
        raise ShardError(f"weight {weight.placements} and hidden {hidden.placements} are both split")
    if split["weight"] == 0:
        own = not isinstance(hidden, _dtensor())
        starts = {"vocabulary_start": _start(weight, 0)}
        return Shard(mesh.get_local_rank(), len(ranks), ranks, starts, own), parts
    if split["hidden"] is None:
        return None, parts
    if split["hidden"] == hidden.dim() - 1 or hidden.dim() > 2 and split["hidden"] > 0:
        raise ShardError(f"hidden {list(hidden.shape)} has the placement {hidden.placements}: no range of rows")
    rows = hidden.shape[1:-1].numel()
    return Shard(mesh.get_local_rank(), len(ranks), ranks, {"row_start": _start(hidden, 0) * rows}), parts
