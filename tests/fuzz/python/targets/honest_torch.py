# SPDX-License-Identifier: Apache-2.0
"""The operator in PyTorch, in fp32, in each form that a target may have: no case may be a finding of it."""

import types

import plumbline
import torch

CAPABILITIES = {"fp32_grads": False, "first_invalid_row": False, "batch_invariant": False}


def _scattered(values, at, rows, rest=0.0):
    """`values` in the rows `at`, `rest` in the others."""
    return torch.full((rows, *values.shape[1:]), rest, dtype=values.dtype).index_copy(0, at, values)


@plumbline.target(form="autograd", contract="pytorch-fp32-logits", special_values=False, **CAPABILITIES)
def eager(hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
    """PyTorch's functions and its graph. A row without part whose values are NaN would need its upstream gradient."""
    labels = labels.long()
    rows = len(labels)
    at = (labels != ignore_index).nonzero()[:, 0]
    label = labels.index_select(0, at)
    if ((label < 0) | (label >= weight.shape[0])).any():
        raise IndexError("a label is outside the vocabulary")
    x = hidden.index_select(0, at).float() @ weight.float().T
    if isinstance(temperature, torch.Tensor):
        scale = temperature.index_select(0, at)
        if not (scale.isfinite() & (scale > 0)).all():
            raise ValueError("a temperature is not finite and positive")
        x = x / scale[:, None]
    elif temperature != 1.0:
        x = x / temperature
    log_p = torch.log_softmax(x, 1)
    p = log_p.exp()
    entropy = -(p * log_p.masked_fill(p == 0, 0.0)).sum(1)
    logprob = log_p.gather(1, label[:, None])[:, 0]
    found = {"entropy": _scattered(entropy, at, rows), "lse": _scattered(torch.logsumexp(x, 1), at, rows)}
    if reduction == "none":
        return found | {"logprob": _scattered(logprob, at, rows)}
    return found | {"loss": -logprob.sum() / (max(len(at), 1) if reduction == "mean" else 1)}


def forward_of(hidden, weight, labels, temperature, ignore_index, reduction):
    """logprob or loss, entropy, lse, and what backward_of needs."""
    labels = labels.long()
    rows, vocab = len(labels), weight.shape[0]
    scale = torch.as_tensor(temperature, dtype=torch.float32).expand(rows)
    taken = labels != ignore_index
    good = taken & (labels >= 0) & (labels < vocab) & scale.isfinite() & (scale > 0)
    at = good.nonzero()[:, 0]
    h, label, t = hidden[at].float(), labels[at][:, None], scale[at][:, None]
    x = (h @ weight.float().T) / t
    m = x.amax(1, keepdim=True) if vocab else x.new_zeros(len(at), 1)
    gap = m - x
    e = torch.exp(-gap)
    s = e.sum(1, keepdim=True)
    q = (e * gap).masked_fill(e == 0, 0.0).sum(1, keepdim=True) / s
    logprob = -(gap.gather(1, label) + s.log())
    values = []
    for value in (logprob, s.log() + q, m + s.log()):
        filled = torch.where(taken, torch.nan, 0.0).to(torch.float32)
        values.append(filled.index_copy(0, at, value[:, 0]))
    count = max(int(taken.sum()), 1) if reduction == "mean" else 1
    if reduction != "none":
        values[0] = -values[0][taken].sum() / count
    bad = (taken & ~good).nonzero()[:, 0]
    return values, (hidden, weight, at, bad, label, t, gap, e, s, q), count


def backward_of(tensors, count, reduction, g, k):
    """Both gradients. A row with g = k = 0 is left out, whatever it holds."""
    hidden, weight, at, bad, label, t, gap, e, s, q = tensors
    rows = hidden.shape[0]
    g = torch.zeros(rows) if g is None else g
    g = (g if reduction == "none" else (-g / count).expand(rows))[at][:, None]
    k = (torch.zeros(rows) if k is None else k)[at][:, None]
    use = ((g != 0) | (k != 0))[:, 0].nonzero()[:, 0]
    g, k, label, t, gap, e, s, q = (v[use] for v in (g, k, label, t, gap, e, s, q))
    p = e / s
    one = torch.zeros_like(p).scatter(1, label, 1.0)
    dz = (g * (one - p) - k * (p * (q - gap)).masked_fill(p == 0, 0.0).where(s.isfinite(), torch.nan)) / t
    grad_hidden = _scattered(dz @ weight.float(), at[use], rows).index_fill(0, bad, torch.nan)
    grad_weight = dz.T @ hidden[at[use]].float()
    if len(bad):
        grad_weight = torch.full_like(grad_weight, torch.nan)
    return grad_hidden.to(hidden.dtype), grad_weight.to(weight.dtype)


class Fused(torch.autograd.Function):
    """Fused.apply is asked what it can do: a bound method has no place for a declaration."""

    @staticmethod
    def forward(ctx, hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
        (nll, entropy, lse), tensors, ctx.count = forward_of(
            hidden, weight, labels, temperature, ignore_index, reduction
        )
        ctx.save_for_backward(*tensors)
        ctx.reduction = reduction
        ctx.mark_non_differentiable(lse)
        return -nll if reduction == "none" else nll, entropy, lse

    @staticmethod
    def backward(ctx, g, k, _):
        g = -g if ctx.reduction == "none" else g
        return *backward_of(ctx.saved_tensors, ctx.count, ctx.reduction, g, k), None, None, None, None


@plumbline.target(returns=("nll", "entropy", "lse"), contract={"d_logits": "fp32"}, **CAPABILITIES)
def fused(hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
    """A torch.autograd.Function behind a function."""
    return Fused.apply(hidden, weight, labels, temperature, ignore_index, reduction)


class _Scales(Fused):
    """Backward writes to what it saved, so that PyTorch refuses a second one."""

    @staticmethod
    def backward(ctx, g, k, _):
        gradients = Fused.backward(ctx, g, k, _)
        ctx.saved_tensors[7].mul_(2)  # the exponentials
        return gradients


@plumbline.target(form="autograd", returns=("nll", "entropy", "lse"), contract={"d_logits": "fp32"}, **CAPABILITIES)
def once(hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
    """A function whose graph can be used once, and says so."""
    return _Scales.apply(hidden, weight, labels, temperature, ignore_index, reduction)


def _named(values, reduction):
    return dict(zip(("logprob" if reduction == "none" else "loss", "entropy", "lse"), values))


@plumbline.target(form="returned", contract={"d_logits": "fp32"}, **CAPABILITIES)
def returned(
    hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none", grad_logprob=None, grad_entropy=None
):
    """Gradients beside the outputs."""
    values, tensors, count = forward_of(hidden, weight, labels, temperature, ignore_index, reduction)
    gradients = backward_of(tensors, count, reduction, grad_logprob, grad_entropy)
    return _named(values, reduction) | dict(zip(("grad_hidden", "grad_weight"), gradients))


def _forward(hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
    values, tensors, count = forward_of(hidden, weight, labels, temperature, ignore_index, reduction)
    return _named(values, reduction), (tensors, count, reduction)


def _backward(saved, grad_logprob, grad_entropy):
    return backward_of(*saved, grad_logprob, grad_entropy)


pair = types.SimpleNamespace(forward=_forward, backward=_backward)
plumbline.target(pair, framework="torch", form="pair", contract={"d_logits": "fp32"}, **CAPABILITIES)
