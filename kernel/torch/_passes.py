# SPDX-License-Identifier: Apache-2.0
"""The library's passes on plain tensors: memory for what they write, and tensors in a form that they read."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from . import _library
from ._library import ABSENT, describe
from ._scalars import scalar
from .memory import kept_form

_HEADER, _ROW, _ALIGNED = 64, 16, 256  # bytes of a saved state (kernel/OPERATION.md)
_FP32 = _library.DTYPES[torch.float32]


class Options(NamedTuple):
    """What a pass is given beside tensors, in the order of the registered operators."""

    ignore_index: int
    reduction: int
    compute_dtype: torch.dtype | None
    columns: Any  # of the vocabulary, whose logits are kept for backward; may be symbolic


def _up(bytes_: Any, to: int) -> Any:
    return (bytes_ + to - 1) // to * to


def saved_bytes(device: torch.device, rows: Any, vocabulary: Any, columns: Any, dtype: torch.dtype) -> Any:
    """The bytes of a saved state with the logits of so many columns, by operands of a dtype. Sizes may be symbolic."""
    if device.type == "cpu":
        return _HEADER + 4 * _up(4 * rows, 64)
    # The same expression where none are kept: whether `columns` is 0 may not be known yet.
    kept = torch.sym_min(columns, vocabulary)
    return _rows_bytes(rows, kept, dtype) + _up(_kept_bytes(rows, kept, dtype), _ALIGNED)


def _rows_bytes(rows: Any, columns: Any, dtype: torch.dtype) -> Any:
    """The part of a device's state that is written row by row, not all of it: header, numbers, places, and the offsets of
    tiles of exponents."""
    offsets = _up(columns, 128) // 128 + torch.sym_min(columns, 1) if kept_form(dtype)[0] == 2 else 0
    return _up(_HEADER + _ROW * rows, _ALIGNED) + _up(4 * rows, _ALIGNED) + _up(4 * rows * offsets, _ALIGNED)


def _kept_bytes(rows: Any, columns: Any, dtype: torch.dtype) -> Any:
    """Rows of kept logits begin a line apart, or a multiple of that."""
    size, group = kept_form(dtype)
    return size * rows * _up(columns, group)


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its numbers in memory: a view may be a negated one, a gradient of zeros have none."""
    if tensor._is_zerotensor():
        return tensor.clone()
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def _operand(tensor: torch.Tensor, dtype: torch.dtype | None, either: bool) -> torch.Tensor:
    """The tensor in the dtype that is multiplied in, with a layout that the operator takes."""
    tensor = numbers(tensor)
    if dtype is not None and tensor.dtype != dtype:
        tensor = tensor.to(dtype)
    if tensor.is_contiguous() or tensor.stride(1) == 1:
        return tensor
    rows, columns = tensor.shape
    return tensor if columns <= 1 or (either and (tensor.stride(0) == 1 or rows <= 1)) else tensor.contiguous()


def gradient(like: torch.Tensor, computed: torch.dtype, wanted: bool) -> torch.Tensor:
    """Memory for a gradient: in its tensor's dtype, if the operator writes that, else in fp32."""
    dtype = like.dtype if like.dtype in (computed, torch.float32) else torch.float32
    if wanted:
        return torch.empty_like(like, dtype=dtype, memory_format=torch.contiguous_format)
    return like.new_empty(0, dtype=dtype)


def cast(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype == like.dtype else tensor.to(like.dtype)


def _bytes(count: int, device: torch.device) -> torch.Tensor:
    return torch.empty(count, dtype=torch.uint8, device=device)


def _divisor(temperature: torch.Tensor | float | None, device: torch.device) -> torch.Tensor | None:
    """The tensor that is divided by. Its caller names it until the call has been made."""
    if isinstance(temperature, float):
        return scalar(temperature, device)
    return temperature if temperature is None else numbers(temperature)


def outputs(
    hidden: torch.Tensor, reduction: int, with_lse: bool = True, with_first_invalid: bool = True
) -> tuple[torch.Tensor | None, ...]:
    """Memory for logprob or loss, entropy, lse, first invalid row."""
    entropy = hidden.new_empty(hidden.shape[0], dtype=torch.float32)
    return (
        entropy.new_empty(()) if reduction else torch.empty_like(entropy),
        entropy,
        torch.empty_like(entropy) if with_lse else None,
        entropy.new_empty((), dtype=torch.int64) if with_first_invalid else None,
    )


def _described(made: tuple[torch.Tensor | None, ...], reduction: int, *gradients: tuple[int, ...]) -> tuple[int, ...]:
    """outputs() and two gradients as a call has them."""
    result, entropy, lse, first_invalid = made
    dense = _FP32, 1, entropy.shape[0], 1, 1, 1
    reduced = (*ABSENT, *describe(result)) if reduction else (result.data_ptr(), *dense, *ABSENT)
    return (
        *reduced, entropy.data_ptr(), *dense, *((lse.data_ptr(), *dense) if lse is not None else ABSENT),
        *gradients[0], *gradients[1], *describe(first_invalid),
    )  # fmt: skip


def forward(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    temperature: torch.Tensor | float | None,
    options: Options,
    save: bool,
    with_lse: bool = False,
    with_first_invalid: bool = False,
    planned: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """outputs(), and the saved state if one is asked for. `planned`: it has saved_bytes(), all of them written."""
    ignore_index, reduction, compute_dtype, columns = options
    hidden, weight = _operand(hidden, compute_dtype, False), _operand(weight, compute_dtype, True)
    rows, device = hidden.shape[0], hidden.device
    divisor = _divisor(temperature, device)
    made = outputs(hidden, reduction, with_lse, with_first_invalid)
    matrix = describe(hidden)
    # Forward asks only whether there is a gradient: then it leaves a state. It writes none.
    absent = (0, matrix[1], 2, *hidden.shape, max(hidden.shape[1], 1), 1) if save else ABSENT
    call = _library.Call(device, _kept_bytes(rows, columns, hidden.dtype), ignore_index, reduction, (
        *matrix, *describe(weight), *describe(labels), *describe(divisor), *ABSENT, *ABSENT,
        *_described(made, reduction, absent, ABSENT),
    ))  # fmt: skip
    workspace, state = call.sizes()
    saved = None
    if save:
        plan = rows, weight.shape[0], columns, hidden.dtype
        saved = _planned(state, *plan, device) if planned else _bytes(state, device)
    call.forward(_bytes(workspace, device), saved)
    return *made, saved


def _planned(
    least: int, rows: int, vocabulary: int, columns: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Forward writes no numbers of ignored rows, and no offsets of tiles that another path would have."""
    bytes_ = saved_bytes(device, rows, vocabulary, columns, dtype)
    if least > bytes_:
        raise RuntimeError(f"linear_cross_entropy: a state of {least} bytes, not {bytes_} as planned")
    saved = _bytes(bytes_, device)
    (saved[: _rows_bytes(rows, min(columns, vocabulary), dtype)] if columns else saved).zero_()
    return saved


def backward(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    temperature: torch.Tensor | float | None,
    options: Options,
    grad_result: torch.Tensor | None,
    grad_entropy: torch.Tensor | None,
    saved: torch.Tensor,
    need_hidden: bool,
    need_weight: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of hidden and weight; one that is not needed has no elements."""
    ignore_index, reduction, compute_dtype, columns = options
    computed = weight.dtype if compute_dtype is None else compute_dtype
    device = hidden.device
    grad_hidden, grad_weight = gradient(hidden, computed, need_hidden), gradient(weight, computed, need_weight)
    # Tensors that a call reads are named until it has been made: what is computed here has no other owner.
    divisor = _divisor(temperature, device)
    factors = [each if each is None else numbers(each).float() for each in (grad_result, grad_entropy)]
    operands = _operand(hidden, compute_dtype, False), _operand(weight, compute_dtype, True)
    call = _library.Call(device, _kept_bytes(hidden.shape[0], columns, computed), ignore_index, reduction, (
        *describe(operands[0]), *describe(operands[1]), *describe(labels), *describe(divisor),
        *describe(factors[0]), *describe(factors[1]), *ABSENT, *ABSENT, *ABSENT, *ABSENT,
        *(describe(grad_hidden) if need_hidden else ABSENT), *(describe(grad_weight) if need_weight else ABSENT), *ABSENT,
    ))  # fmt: skip
    workspace, _ = call.sizes()
    # Hooks of saved tensors may give it back in other memory.
    state = saved if saved.data_ptr() % 64 == 0 else saved.clone()
    call.backward(_bytes(workspace, device), state)
    return cast(grad_hidden, hidden), cast(grad_weight, weight)


def forward_backward(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    temperature: torch.Tensor | float | None,
    options: Options,
    one: torch.Tensor,
    need_hidden: bool,
    need_weight: bool,
    with_lse: bool = False,
    with_first_invalid: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """outputs() of a reduction, and both gradients of the loss for an upstream gradient of `one`."""
    ignore_index, reduction, compute_dtype, columns = options
    computed = weight.dtype if compute_dtype is None else compute_dtype
    device = hidden.device
    divisor = _divisor(temperature, device)
    made = outputs(hidden, reduction, with_lse, with_first_invalid)
    grad_hidden, grad_weight = gradient(hidden, computed, need_hidden), gradient(weight, computed, need_weight)
    operands = _operand(hidden, compute_dtype, False), _operand(weight, compute_dtype, True)
    call = _library.Call(device, _kept_bytes(hidden.shape[0], columns, computed), ignore_index, reduction, (
        *describe(operands[0]), *describe(operands[1]), *describe(labels), *describe(divisor),
        *describe(one), *ABSENT,
        *_described(made, reduction, describe(grad_hidden) if need_hidden else ABSENT,
                    describe(grad_weight) if need_weight else ABSENT),
    ))  # fmt: skip
    workspace, _ = call.sizes_at_once()
    call.forward_backward(_bytes(workspace, device))
    return *made, cast(grad_hidden, hidden), cast(grad_weight, weight)
