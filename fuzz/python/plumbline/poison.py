# SPDX-License-Identifier: Apache-2.0
"""What fresh memory of the C heap holds while a target runs: a byte pattern, by mallopt(M_PERTURB).

An element of an output that has this pattern in every byte was allocated and never written: it is not
copied, so the harness finds its own poison there. The two patterns are huge numbers in bf16 and fp32 and
NaN in fp16; two runs have different ones.
"""

from __future__ import annotations

import ctypes
import os
from typing import Self

PATTERNS = (0x7F, 0xFE)
_M_PERTURB = -6

# glibc's per-thread cache hands freed blocks out as they are; without it every block is filled.
TUNABLES = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
_OTHER_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc", "hoard", "scudo")


def why_not() -> str | None:
    """Why unwritten elements are not looked for; None if they are."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            mapped = maps.read()
    except OSError as error:
        return f"/proc/self/maps cannot be read: {error.strerror}"
    for name in _OTHER_ALLOCATORS:
        if f"lib{name}" in mapped:
            return f"another allocator is loaded: {name}"
    if not hasattr(_LIBC, "mallopt"):
        return "the C library has no mallopt"
    return None


def environment() -> dict[str, str]:
    """The environment in which blocks are filled; an empty one if this process has it."""
    name, setting = TUNABLES
    present = os.environ.get(name, "")
    if "tcache_count" in present:
        return {}
    return {name: f"{present}:{setting}" if present else setting}


_LIBC = ctypes.CDLL(None)


class Poison:
    """Fills what is allocated inside `with`; another pattern every time."""

    def __init__(self, on: bool) -> None:
        self._on = on
        self._turn = 0
        self.pattern: int | None = None

    def __enter__(self) -> Self:
        if self._on:
            self.pattern = PATTERNS[self._turn % 2]
            self._turn += 1
            _LIBC.mallopt(_M_PERTURB, self.pattern ^ 0xFF)
        return self

    def __exit__(self, *_: object) -> None:
        if self._on:
            _LIBC.mallopt(_M_PERTURB, 0)

    def damage(self) -> str:
        """Nothing is known of what is written outside of blocks of the C heap."""
        return ""
