# SPDX-License-Identifier: Apache-2.0
"""Dumps on the disk: a weight once, for as long as it is the same, and a file of each rank where ranks share a head."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from .. import arrays, stored
from .record import Dump, Record


@dataclasses.dataclass(frozen=True)
class Where:
    """When a call was made, and by whom."""

    step: int
    call: int
    rank: int


def _put(path: pathlib.Path, tensors: Mapping[str, stored.Tensor], metadata: Mapping[str, str]) -> None:
    """A file that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        stored.write_safetensors(begun, tensors, metadata)
        begun.replace(path)
    finally:
        begun.unlink(missing_ok=True)


class Folder:
    """The dumps of one process."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._weights: dict[str, pathlib.Path] = {}

    def write(self, record: Record, dump: Dump, where: Where) -> pathlib.Path:
        """The file of a dump; one that another names as its weight's is not written again."""
        shard = record.call.shard
        name = f"step{where.step}-rank{where.rank}-call{where.call}.safetensors"
        path = self._folder / name
        if shard is not None:
            path = self._folder / f"step{where.step}-call{where.call}" / f"rank{where.rank}.safetensors"
        return self.write_as(path, record, dump, where)

    def write_as(self, path: pathlib.Path, record: Record, dump: Dump, where: Where) -> pathlib.Path:
        tensors = {name: arrays.tensor_of(name, value, view=True) for name, value in dump.tensors.items()}
        metadata = dump.metadata | {"captured": json.dumps(_about(record, dump, where))}
        shard = record.call.shard
        if shard is not None:
            metadata |= {"rank": str(shard.rank), "world_size": str(shard.world_size)}
            metadata |= {name: str(start) for name, start in shard.starts.items()}
            if shard.own_rows:
                metadata["own_rows"] = "1"
        else:
            digest = tensors["weight"].digest()
            earlier = self._weights.setdefault(digest, path)
            if earlier != path:
                del tensors["weight"]
                metadata |= {"weight_file": os.path.relpath(earlier, path.parent), "weight_digest": digest}
        _put(path, tensors, metadata)
        return path


def _about(record: Record, dump: Dump, where: Where) -> dict[str, Any]:
    inputs = record.inputs
    return {
        "function": record.title,
        **dataclasses.asdict(where),
        "rows": inputs.rows,
        "chosen": None if inputs.chosen is None else list(inputs.chosen),
        "notes": dump.notes,
        "torch": str(sys.modules["torch"].__version__),
    }
