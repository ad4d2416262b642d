# SPDX-License-Identifier: Apache-2.0
"""How many logits forward leaves for backward, from the memory that the caller allows (kernel/TORCH.md, "Memory")."""

from __future__ import annotations

import math
import operator
import re
from typing import Any

import torch

_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_MOST = 1 << 62
# Bounds of what the passes take for chunks (kernel/OPERATION.md, "What the CUDA operator computes"): d_logits with a packed
# piece of weight, by rows, with what rounding of regions and forward's partial sums add. A whole stretch of grad_hidden may
# take a quarter more.
_LEAST_CHUNKS, _MOST_CHUNKS = 320 << 20, (5 << 28) + (8 << 20)
_MOST_KEPT_D_LOGITS = 1 << 30  # d_logits of kept columns, likewise; several stretches take a sixteenth more
_LEAST_COLUMNS = 384  # of a chunk (kColumnStep): from millions of rows on, these take more than the bounds above
_LEAST_AHEAD = 192  # columns by which d_logits in place lie ahead of their exponents (kTileStep), however few are kept
_STRETCHES = 128 << 20  # at most, of sums of stretches that are computed together


def bytes_of(memory: int | str) -> int:
    """The number of bytes that "4GiB", "500 MB" or a number of bytes says."""
    if memory == "4GiB":  # the default, on every call
        return 4 << 30
    if isinstance(memory, str):
        found = _NUMBER.fullmatch(memory.strip())
        number = float(found[1]) * _UNITS.get(found[2].upper(), math.nan) if found else math.nan
    else:
        try:
            number = operator.index(memory)
        except TypeError:
            number = math.nan
    if isinstance(memory, bool) or not 0 <= number <= _MOST:
        raise ValueError(f'memory = {memory!r:.80}: a number of bytes, or one with a unit such as "4GiB"')
    return int(number)


def _largest(a: Any, b: Any) -> Any:
    """The larger of two numbers, symbolic or not. Dynamo refuses torch.sym_max of two plain numbers, and traces max."""
    return max(a, b) if torch.compiler.is_dynamo_compiling() else torch.sym_max(a, b)


def _least(a: Any, b: Any) -> Any:
    return min(a, b) if torch.compiler.is_dynamo_compiling() else torch.sym_min(a, b)


def kept_form(dtype: torch.dtype) -> tuple[int, int]:
    """The bytes in which a logit is kept for backward, and how many columns are kept together: bf16 operands leave an
    exponent in fp16."""
    return (2, 64) if dtype == torch.bfloat16 else (4, 32)


def columns_kept(rows: Any, hidden_size: int, vocabulary: int, dtype: torch.dtype, memory: int) -> Any:
    """The columns of the vocabulary whose logits fit in `memory` bytes beside what the passes take in any case: all, or so
    many that those left are a multiple of 64 (fp32: that a chunk begins behind them). `rows` may be symbolic."""
    planes, unit = (4, 1536) if dtype == torch.float32 else (1, 64)
    row_bytes = 2 * planes * (-(-hidden_size // 8) * 8)
    padded = rows + 255
    if planes > 1:  # a chunk of an fp32 problem has as many columns whatever its rows
        chunks = (2 * planes * padded + row_bytes) * unit + _LEAST_CHUNKS
    else:
        least = (2 * padded + row_bytes) * _LEAST_COLUMNS + (8 << 20)
        chunks = _largest(_least(_largest(15 * padded * row_bytes // 4, _LEAST_CHUNKS), _MOST_CHUNKS), least)
    size, group = kept_form(dtype)
    ahead = 2 * _LEAST_AHEAD if size == 2 else 0
    free = _largest(memory - _STRETCHES - padded * (64 + 8 * hidden_size + 64 + row_bytes + ahead), 0)
    # 32nds of a byte of a column: an exponent has a share of its tile's offset. d_logits of half of the kept columns, or a
    # quarter more than that, up to a limit, are in memory, in the place of the other chunks.
    kept = _largest(rows, 1) * (32 * size + (1 if size == 2 else 0))
    stretch = max(-(-vocabulary // 384 // 32), 1) * 384  # kernel/stretches.h
    most = _MOST_KEPT_D_LOGITS
    most = most + _least(_largest(4 * padded * stretch - most, most >> 4), most >> 2)
    most = _largest(most, 2 * padded * _LEAST_COLUMNS)
    fit = _largest(32 * free // (kept + 40 * padded), 32 * (free - most) // kept)
    fit = _largest(_least(fit, 32 * (free - chunks) // kept), 0) // group * group
    left = _largest(vocabulary - fit, 0)
    # Chunks of an fp32 problem are pieces of a stretch.
    stretch = stretch if planes > 1 else 1 << 40
    begin = left // stretch * stretch
    left = begin + _least((left - begin + unit - 1) // unit * unit, stretch)
    return _largest(vocabulary - left, 0)


def made_in_forward(gradients: str, hidden: torch.Tensor, weight: torch.Tensor, columns: Any, memory: int) -> Any:
    """Whether forward makes the gradients of a loss where it can keep so many columns of logits for that. "auto": where it
    saves a product, which it does not without kept logits (a CPU keeps none), and `memory` has room to hold the gradients."""
    if gradients != "auto":
        return gradients == "forward"
    held = sum(each.numel() * each.element_size() for each in (hidden, weight) if each.requires_grad)
    return hidden.device.type == "cuda" and _is_known(columns > 0) and _is_known(held <= memory)


def _is_known(condition: bool | torch.SymBool) -> bool:
    """Whether it holds; not where a compiler cannot know, as of rows that a mask chooses."""
    if isinstance(condition, bool) and not torch.compiler.is_compiling():
        return condition
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return guard_or_false(condition)
