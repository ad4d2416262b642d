# SPDX-License-Identifier: Apache-2.0
"""The operator in float64, from kernel/OPERATION.md, for the small and benign problems of the probe.

It tells answers apart and never judges one: that is the harness's oracle.
"""

from __future__ import annotations

import numpy as np


def evaluate(
    hidden: np.ndarray,
    weight: np.ndarray,
    labels: np.ndarray,
    temperature: np.ndarray | float,
    ignore_index: int,
    reduction: str,
    grad_logprob: np.ndarray | None,
    grad_entropy: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """Outputs by the operator's names; inputs in float64, shapes [N, H], [V, H], [N]."""
    rows = np.arange(len(labels))
    scale = np.broadcast_to(np.asarray(temperature, np.float64), labels.shape)[:, None]
    taken = labels != ignore_index
    label = np.where(taken, labels, 0)
    x = (hidden @ weight.T) / scale
    lse = np.logaddexp.reduce(x, axis=1) if x.size else np.full(len(rows), -np.inf)
    log_p = x - lse[:, None]
    p = np.exp(log_p)
    entropy = -(p * log_p).sum(axis=1)
    logprob = log_p[rows, label] if x.size else np.zeros(len(rows))
    count = int(taken.sum())
    results = {
        "entropy": np.where(taken, entropy, 0.0),
        "lse": np.where(taken, lse, 0.0),
        "logprob": np.where(taken, logprob, 0.0),
    }
    total = -results["logprob"].sum()
    results["loss"] = np.asarray(total / count if reduction == "mean" and count else total)
    g = np.zeros(len(rows)) if grad_logprob is None else np.asarray(grad_logprob, np.float64)
    if reduction != "none":
        g = np.full(len(rows), -float(g.flat[0]) if g.size else 0.0) / (count or 1 if reduction == "mean" else 1)
    k = np.zeros(len(rows)) if grad_entropy is None else np.asarray(grad_entropy, np.float64)
    one_hot = np.zeros_like(p)
    if x.size:
        one_hot[rows, label] = 1
    d_logits = g[:, None] * (one_hot - p) - k[:, None] * p * (log_p + entropy[:, None])
    d_logits = np.where(taken[:, None], d_logits / scale, 0.0)
    results["grad_hidden"] = d_logits @ weight
    results["grad_weight"] = d_logits.T @ hidden
    return results
