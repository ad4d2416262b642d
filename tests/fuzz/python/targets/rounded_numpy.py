# SPDX-License-Identifier: Apache-2.0
"""Functions in NumPy that round something to bf16, alone or beside a defect of their gradients."""

import numpy as np


def _bf16(values):
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).astype(np.uint32).view(np.float32)


def _without_the_last(gradient):
    """The planted defect: of a vocabulary of 8 k + 1 columns the last has no gradient."""
    if gradient.shape[1] % 8 == 1 and gradient.shape[1] > 1:
        gradient[:, -1] = 0
    return gradient


def _loss(hidden, weight, labels, upstream, logits_of, log2_of_e, defect=lambda gradient: gradient):
    rows = np.arange(len(labels))
    logits = logits_of((hidden.astype(np.float64) @ weight.astype(np.float64).T).astype(np.float32))
    top = logits.max(1, keepdims=True)
    mass = np.exp2(((logits - top) * np.float32(log2_of_e)).astype(np.float32)).astype(np.float64)
    total = mass.sum(1, keepdims=True)
    found = {"logprob": ((logits[rows, labels] - top[:, 0]) - np.log(total[:, 0])).astype(np.float32)}
    if upstream is not None:
        gradient = -mass / total * upstream[:, None].astype(np.float64)
        gradient[rows, labels] += upstream
        gradient = defect(gradient)
        found["grad_hidden"] = (gradient @ weight.astype(np.float64)).astype(hidden.dtype)
        found["grad_weight"] = (gradient.T @ hidden.astype(np.float64)).astype(weight.dtype)
    return found


def logits(hidden, weight, labels, *, grad_logprob=None):
    """Rounds logits, which a contract may declare."""
    return _loss(hidden, weight, labels, grad_logprob, _bf16, np.log2(np.e))


def logits_and_a_column(hidden, weight, labels, *, grad_logprob=None):
    return _loss(hidden, weight, labels, grad_logprob, _bf16, np.log2(np.e), _without_the_last)


def exponentials(hidden, weight, labels, *, grad_logprob=None):
    """Rounds log2(e), which no contract declares."""
    return _loss(hidden, weight, labels, grad_logprob, lambda x: x, _bf16([np.log2(np.e)])[0])


def exponentials_and_a_column(hidden, weight, labels, *, grad_logprob=None):
    return _loss(hidden, weight, labels, grad_logprob, lambda x: x, _bf16([np.log2(np.e)])[0], _without_the_last)
