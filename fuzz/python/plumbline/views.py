# SPDX-License-Identifier: Apache-2.0
"""Tensors of the harness as Python sees them: an address, extents and strides in elements, no copy."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import struct

from . import abi

ITEM_SIZES = {"bf16": 2, "fp16": 2, "fp32": 4, "int32": 4, "int64": 8}


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor that the harness owns. `device` is None in host memory, else the CUDA device's number."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int | None = None

    @property
    def item_size(self) -> int:
        return ITEM_SIZES[self.dtype]

    @functools.cached_property
    def elements(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @functools.cached_property
    def contiguous(self) -> bool:
        return self.elements == 0 or self.strides == contiguous(self.shape)

    @functools.cached_property
    def span(self) -> tuple[int, int]:
        """The lowest address and the number of bytes from there that hold every element."""
        if self.elements == 0:
            return self.address, 0
        reach = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides)]
        low = sum(r for r in reach if r < 0)
        high = sum(r for r in reach if r > 0)
        return self.address + low * self.item_size, (high - low + 1) * self.item_size


def view_of(pointer: ctypes._Pointer) -> View | None:
    """Reads a DLTensor; None where it is absent."""
    if not pointer:
        return None
    tensor = pointer.contents
    rank = tensor.ndim
    shape = tuple(tensor.shape[:rank]) if rank else ()
    if tensor.strides:
        strides = tuple(tensor.strides[:rank]) if rank else ()
    else:
        strides = contiguous(shape)
    return View(
        (tensor.data or 0) + tensor.byte_offset,
        shape,
        strides,
        abi.DTYPES[tensor.dtype.code, tensor.dtype.bits],
        tensor.device.id if tensor.device.type == abi.CUDA else None,
    )


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


_CODES = {name: key for key, name in abi.DTYPES.items()}
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

# A DLManagedTensor of at most two extents, and behind it its shape and its strides.
_RECORD = struct.Struct("=Q ii i BBH QQQ QQ 2q 2q")
_BEHIND = 64

# Records by address: those exported and not given back, which must live until then, and those to be used again.
_exported: dict[int, object] = {}
_free: list[tuple[int, object]] = []


@abi.DELETER
def _give_back(managed: int) -> None:
    record = _exported.pop(managed, None)
    if record is not None:
        _free.append((managed, record))


_GIVE_BACK = ctypes.cast(_give_back, ctypes.c_void_p).value


def exported() -> int:
    """The number of capsules whose importer still holds the memory."""
    return len(_exported)


def forget() -> None:
    """Gives up on what is still held; the importer's deleter is then a no-op, and memory of it leaks."""
    _leaked.extend(_exported.values())
    _exported.clear()


_leaked: list[object] = []


class Capsule:
    """A View that offers itself by DLPack's Python protocol."""

    def __init__(self, view: View) -> None:
        self._view = view

    def __dlpack_device__(self) -> tuple[int, int]:
        on_device = self._view.device is not None
        return (abi.CUDA, self._view.device) if on_device else (abi.CPU, 0)

    def __dlpack__(self, stream: object = None, **_: object) -> object:
        view = self._view
        if not _free:
            record = ctypes.create_string_buffer(_RECORD.size)
            _free.append((ctypes.addressof(record), record))
        address, record = _free.pop()
        code, bits = _CODES[view.dtype]
        shape, strides = (tuple(v) + (0,) * (2 - len(v)) for v in (view.shape, view.strides))
        _RECORD.pack_into(
            record, 0, view.address, *self.__dlpack_device__(), len(view.shape), code, bits, 1,
            address + _BEHIND, address + _BEHIND + 16, 0, 0, _GIVE_BACK, *shape, *strides,
        )  # fmt: skip
        _exported[address] = record
        return _new_capsule(address, b"dltensor", None)
