# SPDX-License-Identifier: Apache-2.0
"""The harness's heap in the place of PyTorch's allocator of device memory: what a target allocates lies
between guard bands and holds a pattern (fuzz/target/interface/device_heap.h).

It is put there when torch has been imported, before anything of it has allocated.
$PLUMBLINE_DEVICE_ALLOCATOR=framework leaves PyTorch its own.
"""

from __future__ import annotations

import ctypes
import glob
import os
import types
from typing import Self

from .. import poison
from ..library import path_of_worker_library
from .after_import import after_import

_SETTING = "PLUMBLINE_DEVICE_ALLOCATOR"
_NOT_ASKED = "PyTorch was not imported"
BEYOND = "unwritten elements of, and writes outside of, what it allocates on the device beyond 1 GiB in a run"


class DeviceHeap:
    """One for a process."""

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None
        self._why_not: str = _NOT_ASKED

    def prepare(self) -> None:
        """Takes the allocator's place as soon as torch is imported, where there is a GPU."""
        if os.environ.get(_SETTING) == "framework":
            self._why_not = f"${_SETTING} is framework"
        elif not glob.glob("/dev/nvidia[0-9]*"):
            self._why_not = "there is no GPU"
        else:
            after_import("torch", self._install)

    def why_not(self) -> str | None:
        """Why PyTorch has its own allocator; None if it has this one."""
        return self._why_not or None

    def _install(self, torch: types.ModuleType) -> None:
        try:
            path = path_of_worker_library()
            library = ctypes.CDLL(path)
            if not library.plumbline_heap_is_built():
                self._why_not = "this build has no CUDA"
                return
            library.plumbline_heap_end.restype = ctypes.c_longlong
            library.plumbline_heap_end.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
            memory = torch.cuda.memory
            memory.change_current_allocator(
                memory.CUDAPluggableAllocator(path, "plumbline_heap_allocate", "plumbline_heap_free")
            )
        except Exception as error:  # noqa: BLE001 - of a PyTorch without it, or whose allocator is in use
            self._why_not = f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"
            return
        self._library, self._why_not = library, ""

    def begin(self, pattern: int) -> None:
        self._library.plumbline_heap_begin(pattern)

    def end(self) -> str:
        """What was damaged, in words; empty if nothing was."""
        text = ctypes.create_string_buffer(512)
        self._library.plumbline_heap_end(text, len(text))
        return text.value.decode(errors="replace")


HEAP = DeviceHeap()


class DevicePoison:
    """What fresh device memory holds while a target runs, as poison.Poison does for the C heap."""

    def __init__(self) -> None:
        self._on = HEAP.why_not() is None
        self._turn = 0
        self.pattern: int | None = None

    def __enter__(self) -> Self:
        if self._on:
            self.pattern = poison.PATTERNS[self._turn % 2]
            self._turn += 1
            HEAP.begin(self.pattern)
        return self

    def __exit__(self, *_: object) -> None:
        """What is copied of the results is still part of the run."""

    def damage(self) -> str:
        """Ends the run: what it wrote outside of what it allocated, in words; empty if nothing."""
        return HEAP.end() if self._on else ""


def cannot_show() -> str:
    """The line of a verdict on a target whose tensors lie on a device."""
    why_not = HEAP.why_not()
    if why_not is None:
        return BEYOND
    return f"unwritten elements of, and writes outside of, what it allocates on the device: {why_not}"
