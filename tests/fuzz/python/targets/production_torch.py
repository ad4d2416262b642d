# SPDX-License-Identifier: Apache-2.0
"""The operator in PyTorch at production size: ROWS rows at a time, every product in fp32, so that an error is a rounding's.

`right` rounds nothing else. `bf16_logits` rounds the logits. `bf16_accumulator` adds grad_hidden up in bf16, COLUMNS
columns of the vocabulary at a time.
"""

import plumbline
import torch

ROWS, COLUMNS = 1024, 256
DECLARED = {
    "framework": "torch",
    "device": "cuda" if torch.cuda.is_available() else "cpu",
    "form": "autograd",
    "returns": ("logprob", "entropy", "lse"),
    "reductions": ["none"],
    "temperature": "none",
    "fp32_grads": False,
    "first_invalid_row": False,
    "invalid_labels": False,
    "special_values": False,
    "empty_extents": False,
    "batch_invariant": False,
    "contract": {"accumulate": "fp32", "d_logits": "fp32"},
}


def softmax_of(hidden, wide, rounding):
    """Logits minus their maximum, the maximum, exponentials and their sum."""
    z = hidden.float() @ wide.T
    if rounding == "logits":
        z = z.bfloat16().float()
    m = z.amax(1, keepdim=True)
    t = z - m
    e = t.exp()
    return t, m, e, e.sum(1, keepdim=True)


def grad_hidden_of(d, wide, rounding):
    """The rows' gradient of hidden."""
    if rounding != "accumulator":
        return d @ wide
    total = torch.zeros(len(d), wide.shape[1], dtype=torch.bfloat16, device=d.device)
    for first in range(0, d.shape[1], COLUMNS):
        total += (d[:, first : first + COLUMNS] @ wide[first : first + COLUMNS]).bfloat16()
    return total.float()


class LinearCrossEntropy(torch.autograd.Function):
    """logprob, entropy and lse of each row, and both gradients; logits are computed again in backward."""

    @staticmethod
    def forward(ctx, hidden, weight, labels, ignore_index, rounding):
        wide, labels = weight.float(), labels.long()
        live = labels != ignore_index
        at = torch.where(live, labels, 0)[:, None]
        results = [torch.empty(len(hidden), device=hidden.device) for _ in range(3)]
        for first in range(0, len(hidden), ROWS):
            chunk = slice(first, first + ROWS)
            t, m, e, s = softmax_of(hidden[chunk], wide, rounding)
            log_s = s.log()
            values = t.gather(1, at[chunk]) - log_s, log_s - (e * t).sum(1, keepdim=True) / s, m + log_s
            for result, value in zip(results, values):
                result[chunk] = torch.where(live[chunk], value[:, 0], 0.0)
        ctx.save_for_backward(hidden, weight, at, live, results[1])
        ctx.rounding = rounding
        ctx.mark_non_differentiable(results[2])
        return tuple(results)

    @staticmethod
    def backward(ctx, g, k, _):
        hidden, weight, at, live, entropy = ctx.saved_tensors
        wide = weight.float()
        grad_hidden = torch.empty_like(hidden, memory_format=torch.contiguous_format)
        grad_weight = torch.zeros(weight.shape, device=weight.device)
        for first in range(0, len(hidden), ROWS):
            chunk = slice(first, first + ROWS)
            block = hidden[chunk].float().masked_fill(~live[chunk, None], 0.0)
            t, _, e, s = softmax_of(block, wide, ctx.rounding)
            p = e / s
            d = -g[chunk, None] * p - k[chunk, None] * p * (t - s.log() + entropy[chunk, None])
            d.scatter_add_(1, at[chunk], g[chunk, None])
            d = torch.where(live[chunk, None], d, 0.0)
            grad_hidden[chunk] = grad_hidden_of(d, wide, ctx.rounding).to(hidden.dtype)
            grad_weight += d.T @ block
        return grad_hidden, grad_weight.to(weight.dtype), None, None, None


def _target(name: str, rounding: str):
    def function(hidden, weight, labels, ignore_index=-100):
        return LinearCrossEntropy.apply(hidden, weight, labels, ignore_index, rounding)

    function.__name__ = function.__qualname__ = name
    return plumbline.target(function, **DECLARED)


right = _target("right", "")
bf16_logits = _target("bf16_logits", "logits")
bf16_accumulator = _target("bf16_accumulator", "accumulator")
