# SPDX-License-Identifier: Apache-2.0
"""Safetensors files: stored cases and dumps, read and written with the standard library alone."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import mmap
import os
import pathlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

ITEM_SIZES = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8, "I32": 4, "I64": 8}
NAMES = {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "I32": "int32", "I64": "int64"}
_FORMATS = {"F16": "e", "F32": "f", "F64": "d", "I32": "i", "I64": "q"}
_MOST_HEADER = 16 << 20


class FormatError(ValueError):
    """A file that is not what it is read as; the text names the file and what is wrong."""


# What is raised where JSON is not of the form that is read: a key or a list is missing, a value is of another type, a number
# is beyond a double, or lists lie deeper than the reader's stack.
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)


@contextlib.contextmanager
def reading(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Raises FormatError, with the file and `what`, where a file is not of the form in which the block reads it."""
    try:
        yield
    except FormatError:
        raise
    except MALFORMED as error:
        # repr() of a UnicodeDecodeError holds the whole file.
        raise FormatError(f"{os.fspath(path)}: {what}: {type(error).__name__}: {error}") from None


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A dense, row-major tensor: its dtype as safetensors spells it, its shape and its bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview  # a view of bytes where the file is mapped

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def values(self) -> list[float] | list[int]:
        """Every element in row-major order. Floats are widened exactly."""
        if self.dtype == "BF16":
            bits = struct.unpack(f"<{self.elements}H", self.data)
            wide = struct.pack(f"<{self.elements}I", *(b << 16 for b in bits))
            return list(struct.unpack(f"<{self.elements}f", wide))
        return list(struct.unpack(f"<{self.elements}{_FORMATS[self.dtype]}", self.data))

    def digest(self) -> str:
        """A hash of its dtype, its shape and its bytes."""
        of = hashlib.blake2b(f"{self.dtype} {self.shape}".encode(), digest_size=16)
        of.update(self.data)
        return of.hexdigest()

    def array(self) -> np.ndarray:
        """A NumPy array; bf16 as float32, which holds each of its values exactly."""
        import numpy as np

        if self.dtype == "BF16":
            wide = np.frombuffer(self.data, "<u2").astype(np.uint32) << 16
            return wide.view(np.float32).reshape(self.shape)
        return np.frombuffer(self.data, "<" + _FORMATS[self.dtype]).reshape(self.shape).copy()


def _tensor(path: pathlib.Path, name: str, entry: Any, data: bytes | memoryview) -> Tensor:
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        size = math.prod(shape) * ITEM_SIZES[dtype]
        whole = 0 <= begin <= end <= len(data) and end - begin == size and all(n >= 0 for n in shape)
    except (KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise FormatError(f"{path}: tensor {name!r} is {entry!r}, of {len(data)} bytes of data")
    return Tensor(dtype, shape, data[begin:end])


def _parsed(path: pathlib.Path, content: bytes | memoryview) -> tuple[dict[str, Tensor], dict[str, str]]:
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(len(content) - 8, _MOST_HEADER):
        raise FormatError(f"{path}: no safetensors file: {len(content)} bytes, a header of {length}")
    try:
        header = json.loads(bytes(content[8 : 8 + length]))
        metadata = header.pop("__metadata__", {})
        entries = header.items()
    except (ValueError, AttributeError, TypeError) as error:
        raise FormatError(f"{path}: the header is no JSON object: {error}") from None
    data = content[8 + length :]
    return {name: _tensor(path, name, entry, data) for name, entry in entries}, metadata


def read_safetensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a file. Raises FormatError, or OSError."""
    path = pathlib.Path(path)
    return _parsed(path, path.read_bytes())


def map_safetensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The same of a file that is mapped, not read: the tensors' bytes are views of it."""
    path = pathlib.Path(path)
    with open(path, "rb") as file:
        try:
            content: bytes | memoryview = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError:  # an empty file
            content = b""
    return _parsed(path, content)


def write_joined(
    path: str | os.PathLike[str], parts: Mapping[str, Sequence[Tensor]], metadata: Mapping[str, str]
) -> None:
    """Writes a file in which each tensor is its parts, one behind another along the first dimension.

    Every tensor is aligned to its elements. No part is copied in memory.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    order = sorted(parts, key=lambda name: (-ITEM_SIZES[parts[name][0].dtype], name))
    offset = 0
    for name in order:
        first = parts[name][0]
        end = offset + sum(len(part.data) for part in parts[name])
        shape = list(first.shape)
        if len(parts[name]) > 1:
            shape[0] = sum(part.shape[0] for part in parts[name])
        header[name] = {"dtype": first.dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.writelines(part.data for part in parts[name])


def write_safetensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Writes a file in which every tensor is aligned to its elements."""
    write_joined(path, {name: [tensor] for name, tensor in tensors.items()}, metadata)


@dataclasses.dataclass(frozen=True)
class Case:
    """A stored case: the tensors of a problem, its options, and what its JSON says (fuzz/cases/CASES.md)."""

    path: pathlib.Path
    tensors: Mapping[str, Tensor]  # empty where the case is stored as its recipe
    json: Mapping[str, Any]

    @property
    def problem(self) -> Mapping[str, Any]:
        return self.json["problem"]

    @property
    def layout(self) -> Mapping[str, Any]:
        return self.problem.get("layout", {})

    @property
    def wanted(self) -> Mapping[str, Any]:
        return self.problem.get("wanted", {})

    @property
    def ignore_index(self) -> int:
        return self.problem["ignore_index"]

    @property
    def reduction(self) -> str:
        return self.problem["reduction"]

    @property
    def shape(self) -> tuple[int, int, int]:
        """N, V, H."""
        (rows, hidden), (vocab, _) = self.tensors["hidden"].shape, self.tensors["weight"].shape
        return rows, vocab, hidden


def read_case(path: str | os.PathLike[str]) -> Case:
    """Reads a stored case. Raises FormatError, or OSError."""
    path = pathlib.Path(path)
    tensors, metadata = read_safetensors(path)
    try:
        stored = json.loads(metadata["case"])
        for key in ("problem", "finding", "target"):
            stored[key]
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: no stored case: {error!r}") from None
    return Case(path, tensors, stored)
