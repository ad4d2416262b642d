# SPDX-License-Identifier: Apache-2.0
"""linear_cross_entropy: what callers see of the operator. kernel/TORCH.md is its guide."""

from __future__ import annotations

import numbers

import torch

from . import _eager, _in_forward, _library, _operators, _passes
from .heads import check_weight
from .memory import bytes_of, columns_kept, made_in_forward
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
    gradients: str = "backward",
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
    gradients: "backward" makes them there. "forward" makes those of the loss in forward, with an upstream gradient of 1,
    and multiplies them in backward by the one that there is, which rounds them once more unless it is a power of two;
    entropy then has no gradient, and asking for it is an error. "auto" makes them in forward where that saves time and they
    fit in memory.
    """
    _check_kinds(hidden, weight, labels, reduction, ignore_index)
    device = hidden.device
    if device.type != "cpu":
        check_device(device)
    check_weight(weight)
    allowed = bytes_of(memory)
    compute_dtype = _dtype(hidden, weight, compute_dtype)
    _check_shapes(hidden, weight, labels)
    _check_temperature(temperature, labels, device)
    if gradients != "backward":
        gradients = _gradients(gradients, _is_differentiated(hidden, weight), reduction, hidden.dtype, weight.dtype, compute_dtype)
    options = reduction, int(ignore_index), compute_dtype, allowed, return_lse, return_first_invalid, gradients
    if hasattr(hidden, "placements"):
        from . import _sharding

        if return_first_invalid:
            raise TypeError("return_first_invalid = True: of a DTensor it would be a row of one device")

        def run(*tensors):
            return _run(*tensors, *options)[: 3 if return_lse else 2]

        outputs = _sharding.over_rows(run, hidden, weight, labels, temperature, reduction)
    else:
        for name, tensor in (("weight", weight), ("labels", labels), ("temperature", temperature)):
            if isinstance(tensor, torch.Tensor) and hasattr(tensor, "placements"):
                raise TypeError(f"{name} is a DTensor and hidden a plain tensor: distribute hidden, or give {name}.to_local()")
        outputs = _run(hidden, weight, labels, temperature, *options)
    return (*outputs[:2], *(outputs[2:3] if return_lse else ()), *(outputs[3:4] if return_first_invalid else ()))


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
    with_first_invalid: bool,
    gradients: str,
) -> tuple[torch.Tensor | None, ...]:
    """logprob or loss, entropy, lse and the first invalid row, of plain tensors that were checked; the last two are None
    where nobody asks for them and they cost time."""
    shape = labels.shape
    rows = labels
    if hidden.dim() != 2:  # each reshaping is a node of the graph: 5 us of a host's time, forward and backward
        rows = labels.reshape(-1)
        hidden = hidden.reshape(rows.shape[0], hidden.shape[-1])
    save = _is_differentiated(hidden, weight)
    columns = 0
    if save and hidden.is_cuda:
        columns = columns_kept(rows.shape[0], weight.shape[1], weight.shape[0], compute_dtype or weight.dtype, memory)
    in_forward = save and gradients != "backward" and made_in_forward(gradients, hidden, weight, columns, memory)
    options = _passes.Options(ignore_index, _library.REDUCTIONS[reduction], compute_dtype, columns)
    outputs = _outputs(hidden, weight, rows, _divisor(temperature), options, save, in_forward, with_lse, with_first_invalid)
    result, entropy, lse, first_invalid, *_ = outputs
    # A compiler materialises gradients of outputs that nobody differentiates.
    if save and not torch.compiler.is_compiling():
        if with_lse:
            lse = _Refused.apply(lse, hidden, weight, _NO_GRADIENT_OF_LSE)
        if gradients == "auto" and not in_forward:  # as where they are made in forward, whatever fits in memory
            entropy = _Refused.apply(entropy, hidden, weight, _in_forward.REFUSED)
    if len(shape) != 1:
        result = result.reshape(shape) if reduction == "none" else result
        entropy, lse = entropy.reshape(shape), lse.reshape(shape) if with_lse else lse
    return result, entropy, lse, first_invalid


def _is_differentiated(hidden: torch.Tensor, weight: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and (_needs_gradient(hidden) or _needs_gradient(weight))


def _needs_gradient(tensor: torch.Tensor) -> bool:
    """Whether a gradient of it is asked for, also where torch.vmap hides that behind a part of a batch."""
    if tensor.requires_grad or torch.compiler.is_compiling():
        return tensor.requires_grad
    return _of_batch(tensor).requires_grad


def _of_batch(tensor: torch.Tensor) -> torch.Tensor:
    """The batch that torch.vmap shows a part of, or the tensor itself."""
    while torch._C._functorch.is_batchedtensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def _outputs(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    divisor: float | torch.Tensor | None,
    options: _passes.Options,
    save: bool,
    in_forward: bool,
    *wanted: bool,
) -> tuple[torch.Tensor | None, ...]:
    """The outputs by the fastest way: what others must see goes through the dispatcher."""
    if _eager.is_direct(hidden, weight, labels, divisor if isinstance(divisor, torch.Tensor) else None):
        if not save:
            return _passes.forward(hidden, weight, labels, divisor, options, False, *wanted)
        function = _in_forward.InForwardFunction if in_forward else _eager.LinearCrossEntropyFunction
        return function.apply(hidden, weight, labels, divisor, options, *wanted)
    tensors = hidden, weight, labels, _eager.as_tensor(divisor, hidden.device)
    if in_forward:
        return _in_forward.operator(*tensors, *options, _needs_gradient(hidden), _needs_gradient(weight))
    return _operators.forward(*tensors, *options, save)


def _check_kinds(hidden: object, weight: object, labels: object, reduction: object, ignore_index: object) -> None:
    for name, tensor in (("hidden", hidden), ("weight", weight), ("labels", labels)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}: a tensor is needed")
        _check_dense(name, tensor)
    if not isinstance(reduction, str) or reduction not in _library.REDUCTIONS:
        raise ValueError(f'reduction = {reduction!r}: "none", "sum" or "mean"')
    check_ignore_index(ignore_index)


def check_ignore_index(ignore_index: object) -> None:
    if not isinstance(ignore_index, (int, numbers.Integral)) or not -(1 << 63) <= ignore_index < 1 << 63:
        raise ValueError(f"ignore_index = {ignore_index!r}: a number of 64 bits")


def _check_dense(name: str, tensor: torch.Tensor) -> None:
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise TypeError(f"{name}.layout = {tensor.layout}{', nested' * tensor.is_nested}: a dense tensor is needed")


def _dtype(hidden: torch.Tensor, weight: torch.Tensor, asked: torch.dtype | None) -> torch.dtype | None:
    for name, tensor in (("hidden", hidden), ("weight", weight)):
        if tensor.dtype not in MULTIPLIED:
            raise TypeError(f"{name}.dtype = {tensor.dtype}: bfloat16, float16 or float32")
    if asked is not None and asked not in MULTIPLIED:
        raise TypeError(f"compute_dtype = {asked}: bfloat16, float16 or float32")
    if asked is None and hidden.dtype != weight.dtype and not _is_autocast(hidden.device.type):
        raise TypeError(
            f"hidden.dtype = {hidden.dtype} and weight.dtype = {weight.dtype}: convert one, or say in which dtype to multiply "
            f"(compute_dtype=torch.float32)"
        )
    return asked


def _is_autocast(device: str) -> bool:
    return device != "meta" and torch.is_autocast_enabled(device)


def _gradients(asked: object, made: bool, reduction: str, *dtypes: torch.dtype | None) -> str:
    """Where gradients may be made, if any are: "auto" is "backward" where forward cannot make them."""
    if asked not in ("forward", "auto"):
        raise ValueError(f'gradients = {asked!r}: "backward", "forward" or "auto"')
    if not made:
        return "backward"
    if reduction != "none" and torch.float16 not in dtypes:
        return asked
    if asked == "auto":
        return "backward"
    if reduction == "none":
        raise ValueError('gradients = "forward" with reduction = "none": there is no one loss; take "sum" or "mean", or "backward"')
    raise ValueError(
        'gradients = "forward" with torch.float16: what is too small for it would be lost before the factor of a loss scaler '
        'comes; multiply in bfloat16 or float32, or take "backward"'
    )


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
LEAST, MOST = 2.0**-149, (2 - 2.0**-23) * 2.0**127


def _check_temperature(temperature: float | torch.Tensor, labels: torch.Tensor, device: torch.device) -> None:
    if not isinstance(temperature, torch.Tensor):
        if type(temperature) is not float and not isinstance(temperature, (numbers.Real, torch.SymFloat, torch.SymInt)):
            raise TypeError(f"temperature is a {type(temperature).__name__}: a number or a tensor is needed")
        if not LEAST <= temperature <= MOST:
            # A compiler has no text of a number that is an input of its graph.
            shown = "" if torch.compiler.is_compiling() else f" = {temperature}"
            raise ValueError(f"temperature{shown}: finite and greater than 0 in fp32")
        return
    _check_dense("temperature", temperature)
    if temperature.is_complex() or temperature.dtype == torch.bool:
        raise TypeError(f"temperature.dtype = {temperature.dtype}: real numbers are needed")
    if _needs_gradient(temperature):
        raise ValueError("temperature.requires_grad = True: it gets no gradient; give temperature.detach()")
    if temperature.device != device:
        raise ValueError(f"temperature.device = {temperature.device}, hidden.device = {device}: they must be one")
    if temperature.dim() and temperature.shape != labels.shape:
        raise ValueError(f"temperature.shape = {tuple(temperature.shape)}: a scalar, or {tuple(labels.shape)} as labels")


def _divisor(temperature: float | torch.Tensor) -> float | torch.Tensor | None:
    """A number, a scalar or one a row, in fp32; None for 1."""
    if isinstance(temperature, torch.Tensor):
        temperature = temperature.float()
        return temperature.reshape(-1) if temperature.dim() else temperature
    if temperature == 1:
        return None
    return temperature if torch.compiler.is_compiling() else float(temperature)


_NO_GRADIENT_OF_LSE = "lse of linear_cross_entropy has no gradient (as in a z-loss): use lse.detach()"


class _Refused(torch.autograd.Function):
    """An output whose gradient the operator lacks: whoever asks for it is told, and does not get 0."""

    generate_vmap_rule = True

    @staticmethod
    def forward(output: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor, said: str) -> torch.Tensor:
        return output.clone()

    @staticmethod
    def setup_context(ctx, inputs: tuple[object, ...], output: torch.Tensor) -> None:
        ctx.set_materialize_grads(False)
        ctx.said = inputs[3]

    @staticmethod
    def backward(ctx, gradient: torch.Tensor | None):
        # Functions around it may make zeros of a gradient that there is none of.
        if gradient is not None and _of_batch(gradient).any():
            raise NotImplementedError(ctx.said)
        return None, None, None, None
