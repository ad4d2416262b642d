# SPDX-License-Identifier: Apache-2.0
"""How many logits forward leaves for backward, from the memory that the caller allows (kernel/TORCH.md, "Memory")."""

from __future__ import annotations

import re
from typing import Any

import torch

_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
# What the passes take beside rows and kept logits: at most 248 MiB of d_logits, a packed chunk of weight among them, or
# 1 GiB with many rows (kernel/OPERATION.md, "What the CUDA operator computes").
_CHUNKS = 256 << 20


def bytes_of(memory: int | str) -> int:
    """The number of bytes that "4GiB", "500 MB" or a number of bytes says."""
    if memory == "4GiB":  # the default, on every call
        return 4 << 30
    if isinstance(memory, int) and not isinstance(memory, bool) and memory >= 0:
        return memory
    found = _NUMBER.fullmatch(memory.strip()) if isinstance(memory, str) else None
    if not found or found[2].upper() not in _UNITS:
        raise ValueError(f'memory = {memory!r}: a number of bytes, or one with a unit such as "4GiB"')
    return int(float(found[1]) * _UNITS[found[2].upper()])


def columns_kept(rows: Any, hidden_size: int, vocabulary: int, dtype: torch.dtype, memory: int) -> Any:
    """The columns of the vocabulary whose logits fit in `memory` bytes beside what the passes take in any case, a
    multiple of 64 (fp32: of 1536), or all. `rows` may be symbolic."""
    planes = 4 if dtype == torch.float32 else 1
    padded = -(-hidden_size // 8) * 8
    taken = _CHUNKS + (rows + 255) * (40 + (4 + 2 * planes) * padded)
    # d_logits of kept columns take a quarter of what is kept.
    fits = torch.sym_max(memory - taken, 0) * 4 // 5 // (4 * torch.sym_max(rows, 1))
    unit = 1536 if planes > 1 else 64
    return torch.sym_min(fits // unit * unit, vocabulary)
