# SPDX-License-Identifier: Apache-2.0
"""Functions in NumPy with a planted defect each. They are declared where plumbline is there, and need it nowhere."""

import itertools

import numpy as np

try:
    import plumbline
except ImportError:
    plumbline = None


def right(hidden, weight, labels, temperature=1.0):
    """The log-probability by row."""
    x = hidden.astype(np.float64) @ weight.astype(np.float64).T
    x = x / np.asarray(temperature, np.float64).reshape(-1, 1)
    x = x - x.max(axis=1, keepdims=True)
    logprob = x[np.arange(len(labels)), labels] - np.log(np.exp(x).sum(axis=1))
    return {"logprob": logprob.astype(np.float32)}


def tail(hidden, weight, labels, temperature=1.0):
    """Off by 0.1 where V is one more than a multiple of eight."""
    found = right(hidden, weight, labels, temperature)
    if weight.shape[0] % 8 == 1:
        found["logprob"] += np.float32(0.1)
    return found


def logits_fp16(hidden, weight, labels):
    """Logits are rounded to fp16."""
    with np.errstate(over="ignore", invalid="ignore"):
        x = (hidden.astype(np.float64) @ weight.astype(np.float64).T).astype(np.float16).astype(np.float64)
        x = x - x.max(axis=1, keepdims=True)
        logprob = x[np.arange(len(labels)), labels] - np.log(np.exp(x).sum(axis=1))
    return {"logprob": logprob.astype(np.float32)}


def hidden_major(hidden, weight, labels, temperature=1.0):
    """Off by 0.1 where weight is stored hidden-major with padding."""
    found = right(hidden, weight, labels, temperature)
    if weight.strides[0] == weight.itemsize and weight.strides[1] > weight.shape[0] * weight.itemsize:
        found["logprob"] += np.float32(0.1)
    return found


def entropy_of_whole_tiles(hidden, weight, labels):
    """The entropy is off by 1 where V is no multiple of 256. What is returned has no names."""
    x = hidden.astype(np.float64) @ weight.astype(np.float64).T
    x = x - x.max(axis=1, keepdims=True)
    log_p = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    entropy = -(np.exp(log_p) * log_p).sum(axis=1) + (len(weight) % 256 != 0)
    return log_p[np.arange(len(labels)), labels].astype(np.float32), entropy.astype(np.float32)


class Module:
    """Is made without arguments and called as a torch.nn.Module is. Off by 0.1."""

    def __call__(self, *arguments, **named):
        return self.forward(*arguments, **named)

    def forward(self, hidden, weight, labels):
        return right(hidden, weight, labels)["logprob"] + np.float32(0.1)


def positive(hidden, weight, labels):
    """The log-probability by itself."""
    return right(hidden, weight, labels)["logprob"]


def negative(hidden, weight, labels):
    """Minus the log-probability."""
    return -positive(hidden, weight, labels)


def both(hidden, weight, labels, *, reduction="none", grad_logprob=None):
    """Value and gradient of hidden."""
    logprob, grad_hidden, _ = gradients(hidden, weight, labels, grad_logprob, reduction)
    found = {"logprob": logprob} if reduction == "none" else {"loss": np.float32(-logprob.sum())}
    return found | {"grad_hidden": grad_hidden}


def gradients(hidden, weight, labels, upstream, reduction="none"):
    """The log-probability, and both gradients."""
    logprob = positive(hidden, weight, labels)
    x = hidden.astype(float) @ weight.T.astype(float)
    p = np.exp(x - np.log(np.exp(x).sum(1))[:, None])
    g = np.asarray(upstream, float) if reduction == "none" else np.full(len(labels), -float(upstream))
    dz = g[:, None] * (np.eye(weight.shape[0])[labels] - p)
    return logprob, (dz @ weight).astype(np.float32), (dz.T @ hidden).astype(np.float32)


class a_pair:
    """Forward and backward apart."""

    @staticmethod
    def forward(hidden, weight, labels):
        return positive(hidden, weight, labels), (hidden, weight, labels)

    @staticmethod
    def backward(saved, grad_logprob):
        return gradients(*saved, grad_logprob)[1:]


def raises(hidden, weight, labels):
    """Fails."""
    raise KeyError("no such block")


def narrow(hidden, weight, labels):
    """The right values in fp16."""
    return positive(hidden, weight, labels).astype(np.float16)


def writes(hidden, weight, labels):
    """Overwrites an input."""
    hidden *= 2
    return positive(hidden, weight, labels)


_CALLS = itertools.count()


def wavers(hidden, weight, labels):
    """Off by 1 in every other call."""
    return positive(hidden, weight, labels) + np.float32(next(_CALLS) % 2)


CAPABILITIES = {
    "dtypes": ["fp32"],
    "reductions": ["none"],
    "entropy": False,
    "lse": False,
    "grad_hidden": False,
    "grad_weight": False,
    "first_invalid_row": False,
    "ignore_index": False,
    "invalid_labels": False,
    "special_values": False,
    "empty_extents": False,
    "batch_invariant": False,
}
if plumbline is not None:
    for function in (tail, hidden_major):
        plumbline.target(function, framework="numpy", form="forward", **CAPABILITIES)
