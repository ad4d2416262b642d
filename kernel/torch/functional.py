# SPDX-License-Identifier: Apache-2.0
"""linear_cross_entropy: what callers see of the operator. kernel/TORCH.md is its guide."""

from __future__ import annotations

import numbers

import torch

from . import _eager, _library
from .heads import check_weight
from .memory import bytes_of, columns_kept
from .support import check_device

MULTIPLIED = (torch.bfloat16, torch.float16, torch.float32)


def linear_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    temperature: float | torch.Tensor = 1.0,
    reduction: str = "none",
    ignore_index: int = -100,
    return_lse: bool = False,
    *,
    compute_dtype: torch.dtype | None = None,
    memory: int | str = "4GiB",
    return_first_invalid: bool = False,
) -> tuple[torch.Tensor, ...]:
    """Returns (logprob, entropy) of `labels` under softmax(hidden @ weight.T / temperature), or (loss, entropy).

    hidden [..., H] and weight [V, H] are bf16, fp16 or fp32, labels [...] int32 or int64. temperature is a number, a
    scalar tensor or has the shape of labels, and gets no gradient. With reduction "sum" or "mean" the first output is
    the loss, minus the sum or mean of the log-probabilities of rows whose label is not ignore_index; entropy is of each
    row in any case. Outputs are fp32. lse follows with return_lse; asking for its gradient is an error (compiled: it is
    detached).

    compute_dtype: what hidden and weight are converted to. None: both have one dtype; under autocast, weight's.
    memory: bytes for logits that forward leaves for backward on a CUDA device, workspace included ("4GiB"); 0 computes
    them again. Changes no bit.
    return_first_invalid: a scalar int64 tensor follows: the first row whose label or temperature is not valid, or -1.
    On a CPU such a row is a ValueError instead; on a device its outputs are NaN.
    """
    _check_kinds(hidden, weight, labels, reduction, ignore_index)
    check_device(hidden.device)
    check_weight(weight)
    allowed = bytes_of(memory)
    compute_dtype = _dtype(hidden, weight, compute_dtype)
    _check_shapes(hidden, weight, labels)
    _check_temperature(temperature, labels, hidden.device)

    def run(hidden, weight, labels, temperature):
        return _run(hidden, weight, labels, temperature, reduction, ignore_index, compute_dtype, allowed, return_lse)

    if hasattr(hidden, "placements"):
        from . import _sharding

        if return_first_invalid:
            raise TypeError("return_first_invalid = True: of a DTensor it would be a row of one device")
        outputs = _sharding.over_rows(lambda *each: run(*each)[:3], hidden, weight, labels, temperature, reduction)
    elif hasattr(weight, "placements"):
        raise TypeError("weight is a DTensor and hidden a plain tensor: distribute hidden, or give weight.to_local()")
    else:
        outputs = run(hidden, weight, labels, temperature)
    return (*outputs[:2], *(outputs[2:3] if return_lse else ()), *(outputs[3:] if return_first_invalid else ()))


def _run(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    temperature: float | torch.Tensor,
    reduction: str,
    ignore_index: int,
    compute_dtype: torch.dtype | None,
    memory: int,
    with_lse: bool,
) -> tuple[torch.Tensor, ...]:
    """logprob or loss, entropy, lse and the first invalid row, of plain tensors that were checked."""
    shape = labels.shape
    rows = labels
    if hidden.dim() != 2:  # each reshaping is a node of the graph: 5 us of a host's time, forward and backward
        rows = labels.reshape(-1)
        hidden = hidden.reshape(rows.shape[0], hidden.shape[-1])
    save = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    columns = 0
    if save and hidden.device.type == "cuda":
        columns = columns_kept(rows.shape[0], weight.shape[1], weight.shape[0], compute_dtype or weight.dtype, memory)
    divisor = _divisor(temperature, hidden.device)
    result, entropy, lse, first_invalid, _ = _eager.operator_for(hidden, weight, rows, divisor)(
        hidden, weight, rows, divisor, ignore_index, _library.REDUCTIONS[reduction], compute_dtype, columns, save
    )
    # A compiler materialises gradients of outputs that nobody differentiates.
    if with_lse and save and not torch.compiler.is_compiling():
        lse = _Refused.apply(lse, hidden, weight)
    if len(shape) != 1:
        result = result.reshape(shape) if reduction == "none" else result
        entropy, lse = entropy.reshape(shape), lse.reshape(shape)
    return result, entropy, lse, first_invalid


def _check_kinds(hidden: object, weight: object, labels: object, reduction: object, ignore_index: object) -> None:
    for name, tensor in (("hidden", hidden), ("weight", weight), ("labels", labels)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}: a tensor is needed")
        if tensor.layout != torch.strided or tensor.is_nested:
            raise TypeError(f"{name}.layout = {tensor.layout}{', nested' * tensor.is_nested}: a dense tensor is needed")
    if not isinstance(reduction, str) or reduction not in _library.REDUCTIONS:
        raise ValueError(f'reduction = {reduction!r}: "none", "sum" or "mean"')
    if not isinstance(ignore_index, int) or not -(1 << 63) <= ignore_index < 1 << 63:
        raise ValueError(f"ignore_index = {ignore_index!r}: a number of 64 bits")


def _dtype(hidden: torch.Tensor, weight: torch.Tensor, asked: torch.dtype | None) -> torch.dtype | None:
    for name, tensor in (("hidden", hidden), ("weight", weight)):
        if tensor.dtype not in MULTIPLIED:
            raise TypeError(f"{name}.dtype = {tensor.dtype}: bfloat16, float16 or float32")
    if asked is not None and asked not in MULTIPLIED:
        raise TypeError(f"compute_dtype = {asked}: bfloat16, float16 or float32")
    cast = hidden.device.type != "meta" and torch.is_autocast_enabled(hidden.device.type)
    if asked is None and hidden.dtype != weight.dtype and not cast:
        raise TypeError(
            f"hidden.dtype = {hidden.dtype} and weight.dtype = {weight.dtype}: convert one, or say in which dtype to multiply "
            f"(compute_dtype=torch.float32)"
        )
    return asked


def _check_shapes(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> None:
    if weight.dim() != 2:
        raise ValueError(f"weight.shape = {tuple(weight.shape)}: [vocabulary, hidden size] is needed")
    if hidden.dim() < 1 or hidden.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"hidden.shape = {tuple(hidden.shape)}: its last dimension is {weight.shape[1]} for weight.shape = "
            f"{tuple(weight.shape)}"
        )
    if labels.shape != hidden.shape[:-1]:
        raise ValueError(f"labels.shape = {tuple(labels.shape)}: hidden.shape = {tuple(hidden.shape)} asks for one a row")
    if labels.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"labels.dtype = {labels.dtype}: int64 or int32")
    for name, tensor in (("weight", weight), ("labels", labels)):
        if tensor.device != hidden.device:
            raise ValueError(f"{name}.device = {tensor.device}, hidden.device = {hidden.device}: they must be one")


# The least and the largest number of fp32, in which temperatures are read.
_LEAST, _MOST = 2.0**-149, (2 - 2.0**-23) * 2.0**127


def _check_temperature(temperature: float | torch.Tensor, labels: torch.Tensor, device: torch.device) -> None:
    if not isinstance(temperature, torch.Tensor):
        if not isinstance(temperature, (numbers.Real, torch.SymFloat, torch.SymInt)):
            raise TypeError(f"temperature is a {type(temperature).__name__}: a number or a tensor is needed")
        if not _LEAST <= temperature <= _MOST:
            raise ValueError(f"temperature = {temperature}: finite and greater than 0 in fp32")
        return
    if temperature.is_complex() or temperature.dtype == torch.bool:
        raise TypeError(f"temperature.dtype = {temperature.dtype}: real numbers are needed")
    if temperature.requires_grad:
        raise ValueError("temperature.requires_grad = True: it gets no gradient; give temperature.detach()")
    if temperature.device != device:
        raise ValueError(f"temperature.device = {temperature.device}, hidden.device = {device}: they must be one")
    if temperature.dim() and temperature.shape != labels.shape:
        raise ValueError(f"temperature.shape = {tuple(temperature.shape)}: a scalar, or {tuple(labels.shape)} as labels")


def _divisor(temperature: float | torch.Tensor, device: torch.device) -> torch.Tensor | None:
    """A scalar or one a row, in fp32; None for 1."""
    if isinstance(temperature, torch.Tensor):
        temperature = temperature.float()
        return temperature.reshape(-1) if temperature.dim() else temperature
    if temperature == 1:
        return None
    if torch.compiler.is_compiling():  # which makes a graph of each value that `full` is given
        return torch.ones((), dtype=torch.float32, device=device) * temperature
    return torch.full((), float(temperature), dtype=torch.float32, device=device)


class _Refused(torch.autograd.Function):
    """An output whose gradient the operator lacks: whoever asks for it is told, and does not get 0."""

    @staticmethod
    def forward(ctx, lse: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)
        return lse.clone()

    @staticmethod
    def backward(ctx, gradient: torch.Tensor | None):
        # Functions around it may make zeros of a gradient that there is none of.
        if gradient is not None and gradient.any():
            raise NotImplementedError("lse of linear_cross_entropy has no gradient (as in a z-loss): use lse.detach()")
        return None, None, None
