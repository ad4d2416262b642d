# SPDX-License-Identifier: Apache-2.0
"""plumbline::linear_cross_entropy and its backward as operators of PyTorch: what torch.compile, CUDA graphs, autograd and
autocast see. functional.py is what callers see."""

from __future__ import annotations

import functools
from typing import Any

import torch

from . import _library
from ._library import ABSENT, describe

_ARGUMENTS = (
    "Tensor hidden, Tensor weight, Tensor labels, Tensor? temperature, int ignore_index, int reduction, "
    "ScalarType? compute_dtype, SymInt saved_columns"
)
_HEADER, _ROW, _ALIGNED = 64, 16, 256  # bytes of a saved state (kernel/OPERATION.md)

library = torch.library.Library("plumbline", "DEF")
# The last output is the saved state; the one before it, the first invalid row.
library.define(
    f"linear_cross_entropy({_ARGUMENTS}, bool save) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
library.define(
    f"linear_cross_entropy_backward({_ARGUMENTS}, Tensor? grad_logprob, Tensor? grad_entropy, Tensor saved, "
    "bool need_hidden, bool need_weight) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
forward = torch.ops.plumbline.linear_cross_entropy.default
backward = torch.ops.plumbline.linear_cross_entropy_backward.default


def _up(bytes_: Any, to: int) -> Any:
    return (bytes_ + to - 1) // to * to


def saved_bytes(device: torch.device, rows: Any, vocabulary: Any, columns: Any) -> Any:
    """The bytes of a saved state with the logits of so many columns. Sizes may be symbolic."""
    if device.type == "cpu":
        return _HEADER + 4 * _up(4 * rows, 64)
    # The same expression where none are kept: whether `columns` is 0 may not be known yet.
    return _rows_bytes(rows) + _up(_kept_bytes(rows, torch.sym_min(columns, vocabulary)), _ALIGNED)


def _rows_bytes(rows: Any) -> Any:
    """The part of a device's state that is written row by row: header, numbers, places."""
    return _up(_HEADER + _ROW * rows, _ALIGNED) + _up(4 * rows, _ALIGNED)


def _kept_bytes(rows: Any, columns: Any) -> Any:
    """Rows of kept logits begin 32 floats apart, or a multiple of that."""
    return 4 * rows * _up(columns, 32)


def _numbers(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """The tensor with its numbers in memory: a view may be a negated one, a gradient of zeros have none."""
    if tensor is None or not (tensor.is_neg() or tensor._is_zerotensor()):
        return tensor
    return tensor.clone() if tensor._is_zerotensor() else tensor.resolve_neg()


def _operand(tensor: torch.Tensor, dtype: torch.dtype | None, either: bool) -> torch.Tensor:
    """The tensor in the dtype that is multiplied in, with a layout that the operator takes."""
    tensor = _numbers(tensor)
    if dtype is not None and tensor.dtype != dtype:
        tensor = tensor.to(dtype)
    rows, columns = tensor.shape
    fits = tensor.stride(1) == 1 or columns <= 1 or (either and (tensor.stride(0) == 1 or rows <= 1))
    return tensor if fits else tensor.contiguous()


def _gradient(like: torch.Tensor, computed: torch.dtype, wanted: bool) -> torch.Tensor:
    """Memory for a gradient: in its tensor's dtype, if the operator writes that, else in fp32."""
    dtype = like.dtype if like.dtype in (computed, torch.float32) else torch.float32
    return like.new_empty(like.shape if wanted else 0, dtype=dtype)


def _guarded(run):
    """The function with the device of its tensors current; labels are the third argument of either pass."""

    @functools.wraps(run)
    def guarded(*arguments):
        device = arguments[2].device
        if device.type == "cpu" or device.index == torch.cuda.current_device():
            return run(*arguments)
        with torch.cuda.device(device):
            return run(*arguments)

    return guarded


def _bytes(count: int, device: torch.device) -> torch.Tensor:
    return torch.empty(count, dtype=torch.uint8, device=device)


def _saved_state(rows: int, vocabulary: int, columns: int, device: torch.device) -> torch.Tensor:
    """A state in which the numbers of rows are zero: those of ignored rows stay so."""
    saved = _bytes(saved_bytes(device, rows, vocabulary, columns), device)
    (saved[: _rows_bytes(rows)] if columns else saved).zero_()
    return saved


@_guarded
def run_forward(hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, saved_columns, save):
    computed = compute_dtype or weight.dtype
    hidden, weight = _operand(hidden, compute_dtype, False), _operand(weight, compute_dtype, True)
    temperature = _numbers(temperature)
    rows, device = hidden.shape[0], hidden.device
    result, entropy, lse, invalid = _outputs(hidden, reduction)
    # Forward asks only whether there is a gradient: then it leaves a state. It writes none.
    gradient = (0, _library.DTYPES[computed], 2, *hidden.shape, max(hidden.shape[1], 1), 1) if save else ABSENT
    reduced = [ABSENT, describe(result)] if reduction else [describe(result), ABSENT]
    call = _library.Call(device, _kept_bytes(rows, saved_columns), ignore_index, reduction, [
        describe(hidden), describe(weight), describe(labels), describe(temperature), ABSENT, ABSENT,
        *reduced, describe(entropy), describe(lse), gradient, ABSENT, describe(invalid),
    ])  # fmt: skip
    workspace_bytes, state_bytes = call.sizes()
    saved = _saved_state(rows, weight.shape[0], saved_columns, device) if save else _bytes(0, device)
    if state_bytes > saved.numel():
        raise RuntimeError(f"linear_cross_entropy: a state of {state_bytes} bytes, not {saved.numel()} as planned")
    call.forward(_bytes(workspace_bytes, device), saved)
    return result, entropy, lse, invalid, saved


def _outputs(hidden: torch.Tensor, reduction: int) -> tuple[torch.Tensor, ...]:
    """logprob or loss, entropy, lse, first invalid row."""
    rows = hidden.new_empty(hidden.shape[0], dtype=torch.float32)
    result = rows.new_empty(()) if reduction else torch.empty_like(rows)
    return result, rows, torch.empty_like(rows), rows.new_empty((), dtype=torch.int64)


@_guarded
def run_backward(
    hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, saved_columns, grad_logprob, grad_entropy,
    saved, need_hidden, need_weight,
):  # fmt: skip
    computed = compute_dtype or weight.dtype
    grad_hidden = _gradient(hidden, computed, need_hidden)
    grad_weight = _gradient(weight, computed, need_weight)
    factors = [each if each is None else _numbers(each).float() for each in (grad_logprob, grad_entropy)]
    temperature = _numbers(temperature)
    operands = [_operand(hidden, compute_dtype, False), _operand(weight, compute_dtype, True)]
    call = _library.Call(hidden.device, _kept_bytes(hidden.shape[0], saved_columns), ignore_index, reduction, [
        *map(describe, operands), describe(labels), describe(temperature), *map(describe, factors),
        ABSENT, ABSENT, ABSENT, ABSENT,
        describe(grad_hidden) if need_hidden else ABSENT, describe(grad_weight) if need_weight else ABSENT, ABSENT,
    ])  # fmt: skip
    workspace_bytes, _ = call.sizes()
    # Hooks of saved tensors may give it back in other memory.
    state = saved if saved.data_ptr() % 64 == 0 else saved.clone()
    call.backward(_bytes(workspace_bytes, hidden.device), state)
    return grad_hidden.to(hidden.dtype), grad_weight.to(weight.dtype)


for _key in ("CPU", "CUDA"):
    library.impl("linear_cross_entropy", run_forward, _key)
    library.impl("linear_cross_entropy_backward", run_backward, _key)


@torch.library.register_fake("plumbline::linear_cross_entropy", lib=library)
def _fake_forward(hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, saved_columns, save):
    size = saved_bytes(hidden.device, hidden.shape[0], weight.shape[0], saved_columns) if save else 0
    return *_outputs(hidden, reduction), hidden.new_empty(size, dtype=torch.uint8)


@torch.library.register_fake("plumbline::linear_cross_entropy_backward", lib=library)
def _fake_backward(
    hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, saved_columns, grad_logprob, grad_entropy,
    saved, need_hidden, need_weight,
):  # fmt: skip
    computed = compute_dtype or weight.dtype
    return (
        _gradient(hidden, computed, need_hidden).to(hidden.dtype),
        _gradient(weight, computed, need_weight).to(weight.dtype),
    )


def keep(ctx, inputs, output) -> None:
    hidden, weight, labels, temperature, *ctx.options, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[2], output[3], output[4])
    ctx.has_temperature = temperature is not None
    ctx.save_for_backward(hidden, weight, labels, *([temperature] if ctx.has_temperature else []), output[4])


def differentiate(ctx, grad_result, grad_entropy, *_, run=backward):
    hidden, weight, labels, *temperature, saved = ctx.saved_tensors
    need_hidden, need_weight = ctx.needs_input_grad[:2]
    grad_hidden = grad_weight = None
    if need_hidden or need_weight:
        grad_hidden, grad_weight = run(
            hidden, weight, labels, temperature[0] if temperature else None, *ctx.options, grad_result, grad_entropy, saved,
            need_hidden, need_weight,
        )  # fmt: skip
    return grad_hidden if need_hidden else None, grad_weight if need_weight else None, *[None] * 7


torch.library.register_autograd("plumbline::linear_cross_entropy", differentiate, setup_context=keep, lib=library)


def _no_second_derivative(ctx, *_):
    raise NotImplementedError("linear_cross_entropy has no second derivative: its gradients cannot be differentiated")


torch.library.register_autograd("plumbline::linear_cross_entropy_backward", _no_second_derivative, lib=library)


def _under_autocast(key: torch._C.DispatchKey):
    """The rule of autocast: what the weight is in is multiplied in, unless a dtype was asked for."""
    excluded = torch._C.DispatchKeySet(key)

    def run(hidden, weight, labels, temperature, ignore_index, reduction, compute_dtype, saved_columns, save):
        with torch._C._ExcludeDispatchKeyGuard(excluded):
            computed = compute_dtype or (weight.dtype if hidden.dtype != weight.dtype else None)
            return forward(hidden, weight, labels, temperature, ignore_index, reduction, computed, saved_columns, save)

    return run


for _key in ("AutocastCPU", "AutocastCUDA"):
    library.impl("linear_cross_entropy", _under_autocast(getattr(torch._C.DispatchKey, _key)), _key)
