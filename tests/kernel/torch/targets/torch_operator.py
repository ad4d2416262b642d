# SPDX-License-Identifier: Apache-2.0
"""plumbline.torch as a target of plumb: what a caller of it gets, by the names that plumb knows."""

import plumbline
import plumbline.torch
import torch

# What kernel/OPERATION.md says that the host computes, as `plumb targets host` prints it.
HOST = {
    "accumulate": "fp32", "shift": "exact_max", "scale": "after", "scale_roundings": 1, "scale_exact_powers": True,
    "argument_roundings": 1, "exp_error": 2, "exp_gradual": True, "log_error_absolute": 0, "log_error_relative": 1.1,
    "division_error": 1, "tile": 64, "tile_depth": 7, "splits": 8, "label_logit_separate": False,
    "recompute_same_bits": True, "probability": "ratio", "d_logits": "fp32", "conventions": "definition", "signs": True,
}  # fmt: skip


@plumbline.target(
    framework="torch", form="autograd", contract=HOST, batch_invariant=True, negative_strides=False, fp32_grads=False,
    first_invalid_row=False,
)  # fmt: skip
def operator(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    temperature: float | torch.Tensor = 1.0,
    reduction: str = "none",
    ignore_index: int = -100,
) -> dict[str, torch.Tensor]:
    """All outputs."""
    result, entropy, lse, first_invalid_row = plumbline.torch.linear_cross_entropy(
        hidden, weight, labels, temperature, reduction, ignore_index, return_lse=True, return_first_invalid=True
    )
    name = "logprob" if reduction == "none" else "loss"
    return {name: result, "entropy": entropy, "lse": lse, "first_invalid_row": first_invalid_row}


@plumbline.target(
    framework="torch", form="autograd", contract=HOST, batch_invariant=True, negative_strides=False, fp32_grads=False,
    first_invalid_row=False, entropy=False, reductions=["sum", "mean"], dtypes=["fp32"],
)  # fmt: skip
def in_forward(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    temperature: float | torch.Tensor = 1.0,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> dict[str, torch.Tensor]:
    """Gradients in forward. The contract pays for one rounding of a gradient to bf16 and not for two, so fp32 alone.

    A long hunt finds what kernel/TORCH.md says of it, in about 1 of 300 cases: a gradient that is subnormal before a large
    upstream gradient multiplies it, and one of 0 times NaN.
    """
    loss, _, lse = plumbline.torch.linear_cross_entropy(
        hidden, weight, labels, temperature, reduction, ignore_index, return_lse=True, gradients="forward"
    )
    return {"loss": loss, "lse": lse}


class _One(torch.autograd.Function):
    """A defect: an upstream gradient is taken for 1, as gradients that forward made stand for."""

    @staticmethod
    def forward(ctx, loss):
        return loss.view_as(loss)

    @staticmethod
    def backward(ctx, gradient):
        return torch.ones_like(gradient)


@plumbline.target(
    framework="torch", form="autograd", contract=HOST, entropy=False, lse=False, reductions=["sum", "mean"], dtypes=["fp32"]
)
def in_forward_is_not_scaled(hidden, weight, labels, temperature=1.0, reduction="mean", ignore_index=-100):
    """A defect: backward hands on what forward made."""
    loss, _ = plumbline.torch.linear_cross_entropy(
        hidden, weight, labels, temperature, reduction, ignore_index, gradients="forward"
    )
    return {"loss": _One.apply(loss)}


def _called(hidden, weight, labels, temperature, reduction, ignore_index):
    result, entropy = plumbline.torch.linear_cross_entropy(hidden, weight, labels, temperature, reduction, ignore_index)
    return {"logprob" if reduction == "none" else "loss": result, "entropy": entropy}


@plumbline.target(framework="torch", form="autograd", contract=HOST)
def temperature_of_the_next_row(hidden, weight, labels, temperature=1.0, reduction="none", ignore_index=-100):
    """A defect: temperatures by row are moved by one."""
    if isinstance(temperature, torch.Tensor) and temperature.dim():
        temperature = temperature.roll(1)
    return _called(hidden, weight, labels, temperature, reduction, ignore_index)


class _Dense(torch.autograd.Function):
    """A defect: an upstream gradient is taken for its first element, as one that is broadcast."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.flatten()[:1].expand_as(gradient) if gradient.numel() else gradient


@plumbline.target(framework="torch", form="autograd", contract=HOST)
def upstream_read_densely(hidden, weight, labels, temperature=1.0, reduction="none", ignore_index=-100):
    """A defect of strides of the upstream gradient."""
    outputs = _called(hidden, weight, labels, temperature, reduction, ignore_index)
    return {name: _Dense.apply(output) for name, output in outputs.items()}


@plumbline.target(framework="torch", form="autograd", contract=HOST)
def ignored_index_is_default(hidden, weight, labels, temperature=1.0, reduction="none", ignore_index=-100):
    """A defect: ignore_index is not handed on; labels that are no entry of the vocabulary are ignored."""
    labels = torch.where(labels == ignore_index, labels.clamp(min=0, max=max(weight.shape[0] - 1, 0)), labels)
    return _called(hidden, weight, labels, temperature, reduction, -100)
