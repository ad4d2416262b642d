# SPDX-License-Identifier: Apache-2.0
"""The operator in NumPy and fp32, as fused kernels have it: tiles of the vocabulary, a running maximum, logits computed
again in backward, chunks of rows for the gradient of weight.

SHORTCUT names the one rounding that is taken and BUG the one line that is wrong; "" names none.
shortcut_and_bug.py lists the names. Nothing here needs plumbline.
"""

import numpy as np

TILE, CHUNK = 64, 16  # columns, and rows
F32 = np.float32


def kept_bits(x, dropped):
    """x in fp32, rounded to nearest even with so many bits of its significand dropped."""
    bits = np.asarray(x, F32, order="C").view(np.uint32)
    one = np.uint32(1)
    odd = (bits >> np.uint32(dropped)) & one
    rounded = (bits + ((one << np.uint32(dropped - 1)) - one + odd)) & ~((one << np.uint32(dropped)) - one)
    return np.where(np.isfinite(x), rounded.view(F32), x)


def bf16(x):
    return kept_bits(x, 16)


def tf32(x):
    return kept_bits(x, 13)


def fp16(x):
    return x.astype(np.float16).astype(F32)


def logits_of(h, w, scale, shortcut):
    """z / T of a tile."""
    z = h @ w.T
    if shortcut == "logits_bf16":
        z = bf16(z)
    if shortcut == "logits_fp16":
        z = fp16(z)
    x = z / scale
    return bf16(x) if shortcut == "scaled_logits_bf16" else x


def softmax_of(h, w, labels, scale, shortcut, bug):
    """(logprob, entropy, lse, largest, ln of the sum) of rows, in one pass over the vocabulary."""
    rows, vocab = len(h), len(w)
    largest, total, product, at_label = np.full(rows, -np.inf, F32), *np.zeros((3, rows), F32)
    last = vocab // TILE * TILE if bug == "tail_dropped" and vocab > TILE else vocab
    for start in range(0, last, TILE):
        x = logits_of(h, w[start : start + TILE], scale, shortcut)
        if bug == "phantom_columns" and start:
            x = np.pad(x, ((0, 0), (0, TILE - x.shape[1])))
        maximum = np.maximum(largest, x.max(1))
        moved = np.where(largest == -np.inf, 0, maximum - largest).astype(F32)
        factor = np.exp(-moved)
        gap = maximum[:, None] - x
        e = np.exp(-gap)
        rebased = 0 if bug == "entropy_not_rebased" else np.where(factor == 0, 0, factor * moved) * total
        product = factor * product + rebased + np.where(e == 0, 0, e * gap).sum(1)
        if bug == "sum_not_rescaled":
            factor = F32(1)
        total = factor * total + e.sum(1)
        here = np.flatnonzero((labels >= start) & (labels < start + x.shape[1]))
        if bug != "label_in_last_tile" or start == 0 or start + TILE <= vocab:
            at_label[here] = x[here, labels[here] - start]
        largest = maximum
    log_total = np.log(total)
    logprob = (at_label - largest) - log_total
    if shortcut == "log_probs_bf16":
        logprob = bf16(logprob)
    return logprob, log_total + product / total, largest + log_total, largest, log_total


def gradients_of(h, w, labels, scale, softmax, g, k, shortcut, bug):
    """grad_hidden and grad_weight of the rows: a tile of the vocabulary after another, chunks of rows in each."""
    _, entropy, _, largest, log_total = softmax
    grad_hidden, grad_weight = np.zeros(h.shape, F32), np.zeros(w.shape, F32)
    for start in range(0, len(w), TILE):
        tile = w[start : start + TILE]
        log_p = (logits_of(h, tile, scale, shortcut) - largest[:, None]) - log_total[:, None]
        if shortcut == "log_probs_bf16":
            log_p = bf16(log_p)
        p = np.exp(log_p)
        if shortcut == "probabilities_bf16":
            p = bf16(p)
        one = labels[:, None] == np.arange(start, start + len(tile))
        spread = np.where(p == 0, 0, p * (log_p + entropy[:, None]))
        dx = g[:, None] * (one - p) - (0 if bug == "entropy_gradient_dropped" else k[:, None] * spread)
        if bug != "temperature_in_backward":
            dx = dx / scale
        if shortcut == "d_logits_bf16":
            dx = bf16(dx)
        if shortcut == "d_logits_fp16":
            dx = fp16(dx)
        if shortcut == "filter":
            dx = np.where((p < 2**-12) & ~one, 0, dx)
        dx = dx.astype(F32)
        part = (tf32(dx) if shortcut == "inputs_tf32" else dx) @ tile
        grad_hidden = part if bug == "tile_overwritten" and start else grad_hidden + part
        if shortcut == "grad_hidden_bf16":
            grad_hidden = bf16(grad_hidden)
        for first in range(0, len(h), CHUNK):
            chunk = dx[first : first + CHUNK]
            part = (tf32(chunk) if shortcut == "inputs_tf32" else chunk).T @ h[first : first + CHUNK]
            grad_weight[start : start + TILE] += part
            if shortcut == "grad_weight_bf16":
                grad_weight[start : start + TILE] = bf16(grad_weight[start : start + TILE])
    return grad_hidden, grad_weight


def upstream(grad_logprob, grad_entropy, reduction, count, rows):
    """The gradients of logprob and of the entropy by row."""
    k = np.zeros(rows, F32) if grad_entropy is None else grad_entropy.astype(F32)
    if grad_logprob is None:
        return np.zeros(rows, F32), k
    if reduction == "none":
        return grad_logprob.astype(F32), k
    return np.full(rows, -F32(grad_logprob) / F32(max(count, 1) if reduction == "mean" else 1)), k


def linear_cross_entropy(hidden, weight, labels, options, shortcut, bug):
    """Every output and both gradients. A row that takes no part is left out and never multiplied by 0."""
    temperature, ignore_index, reduction, grad_logprob, grad_entropy = options
    rows, vocab = len(hidden), len(weight)
    scale = np.broadcast_to(np.asarray(temperature, F32), (rows,))
    taken = labels != ignore_index
    if bug == "label_zero_ignored":
        taken = taken & (labels != 0)
    good = taken & (labels >= 0) & (labels < vocab) & np.isfinite(scale) & (scale > 0)
    if bug == "negative_label":
        labels = np.where(taken & (labels < 0) & (labels >= -vocab), labels + vocab, labels)
        good = taken & (labels >= 0) & (labels < vocab) & np.isfinite(scale) & (scale > 0)
    count = int(taken.sum())
    results = [np.where(taken, np.nan, 0).astype(F32) for _ in range(3)]
    g, k = upstream(grad_logprob, grad_entropy, reduction, count, rows)
    grad_hidden, grad_weight = np.zeros(hidden.shape, F32), np.zeros(weight.shape, F32)
    with np.errstate(all="ignore"):
        at = np.flatnonzero(good)
        h, w, y, t = hidden[at].astype(F32), weight.astype(F32), labels[at].astype(np.int64), scale[at][:, None]
        if shortcut == "inputs_tf32":
            h, w = tf32(h), tf32(w)
        softmax = softmax_of(h, w, y, t, shortcut, bug)
        for result, value in zip(results, softmax, strict=False):
            result[at] = value
        use = (g[at] != 0) | (k[at] != 0)
        of_rows = [each[use] for each in softmax]
        grad_hidden[at[use]], grad_weight = gradients_of(
            h[use], w, y[use], t[use], of_rows, g[at][use], k[at][use], shortcut, bug
        )
        if bug == "ignored_rows" and np.isfinite(hidden[~taken]).all():
            mean_p = F32(1 / vocab)  # what a row without a logit of its own has
            grad_weight -= mean_p * (np.where(taken, 0, g)[:, None] * hidden.astype(F32)).sum(0)
    bad = taken & ~good
    grad_hidden[bad] = np.nan
    if bad.any():
        grad_weight[:] = np.nan
    logprob, entropy, lse = results
    found = {"entropy": entropy, "lse": lse}
    if reduction == "none":
        found["logprob"] = logprob
    else:
        n = rows if bug == "mean_of_all_rows" else count
        loss = F32(-logprob[taken].sum(dtype=F32) / F32(max(n, 1) if reduction == "mean" else 1))
        found["loss"] = F32(bf16(loss)) if shortcut == "loss_bf16" else loss
    with np.errstate(over="ignore"):
        return found | {"grad_hidden": grad_hidden.astype(hidden.dtype), "grad_weight": grad_weight.astype(weight.dtype)}
