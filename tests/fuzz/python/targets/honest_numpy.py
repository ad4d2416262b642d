# SPDX-License-Identifier: Apache-2.0
"""The operator in NumPy, in float64 and rounded once: no case may be a finding of it."""

import numpy as np
import plumbline


def linear_cross_entropy(
    hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none", grad_logprob=None, grad_entropy=None
):
    """Every output and both gradients; a row that takes no part is left out and never multiplied by 0."""
    rows, vocab = hidden.shape[0], weight.shape[0]
    scale = np.broadcast_to(np.asarray(temperature, np.float64), (rows,))
    taken = labels != ignore_index
    good = taken & (labels >= 0) & (labels < vocab) & np.isfinite(scale) & (scale > 0)
    results = {name: np.where(taken, np.nan, 0.0) for name in ("logprob", "entropy", "lse")}
    grad_hidden, grad_weight = np.zeros(hidden.shape), np.zeros(weight.shape)
    count = int(taken.sum())
    g = _upstream(grad_logprob, reduction, rows, count)
    k = np.zeros(rows) if grad_entropy is None else grad_entropy.astype(np.float64)
    with np.errstate(all="ignore"):
        at = np.flatnonzero(good)
        h, w, y, t = hidden[at].astype(np.float64), weight.astype(np.float64), labels[at], scale[at][:, None]
        x = (h @ w.T) / t
        gap = x.max(axis=1, initial=-np.inf)[:, None] - x
        e = np.exp(-gap)
        s = e.sum(axis=1)
        picked = gap[np.arange(len(at)), y]
        entropy = np.log(s) + np.where(e == 0, 0, e * gap).sum(axis=1) / s
        results["logprob"][at] = -(picked + np.log(s))
        results["entropy"][at] = entropy
        results["lse"][at] = x.max(axis=1, initial=-np.inf) + np.log(s)
        p = e / s[:, None]
        one = np.arange(vocab) == y[:, None]
        surprise = np.where(p == 0, 0, p * (entropy[:, None] - gap - np.log(s)[:, None]))
        dz = (g[at][:, None] * (one - p) - k[at][:, None] * surprise) / t
        use = (g[at] != 0) | (k[at] != 0)
        grad_hidden[at[use]] = dz[use] @ w
        grad_weight += dz[use].T @ h[use]
    bad = taken & ~good
    grad_hidden[bad] = np.nan
    if bad.any():
        grad_weight[:] = np.nan
    return _rounded(results, grad_hidden, grad_weight, hidden.dtype, reduction, taken)


def _upstream(grad_logprob, reduction, rows, count):
    if grad_logprob is None:
        return np.zeros(rows)
    if reduction == "none":
        return grad_logprob.astype(np.float64)
    return np.full(rows, -float(grad_logprob) / (max(count, 1) if reduction == "mean" else 1))


def _rounded(results, grad_hidden, grad_weight, dtype, reduction, taken):
    logprob = results.pop("logprob")
    found = {name: value.astype(np.float32) for name, value in results.items()}
    if reduction == "none":
        found["logprob"] = logprob.astype(np.float32)
    else:
        total = -logprob[taken].sum()
        found["loss"] = np.float32(total / max(taken.sum(), 1) if reduction == "mean" else total)
    with np.errstate(over="ignore"):
        return found | {"grad_hidden": grad_hidden.astype(dtype), "grad_weight": grad_weight.astype(dtype)}


CAPABILITIES = {
    "dtypes": ["fp16", "fp32"],
    "fp32_grads": False,
    "first_invalid_row": False,
    "batch_invariant": False,
}
plumbline.target(linear_cross_entropy, form="returned", contract={"d_logits": "fp32"}, **CAPABILITIES)


@plumbline.target(form="returned", **CAPABILITIES)
def one_column_short(
    hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none", grad_logprob=None, grad_entropy=None
):
    """The last column is left out of the softmax where V is one more than a multiple of eight."""
    found = linear_cross_entropy(
        hidden, weight, labels, temperature, ignore_index, reduction, grad_logprob, grad_entropy
    )
    if weight.shape[0] % 8 == 1 and weight.shape[0] > 1:
        short = linear_cross_entropy(hidden, weight[:-1], labels, temperature, ignore_index, "none")
        found["lse"] = short["lse"]
    return found
