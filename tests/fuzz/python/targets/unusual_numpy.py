# SPDX-License-Identifier: Apache-2.0
"""Right functions in NumPy whose parameters, values or declarations are unusual, and values that no output matches."""

import dataclasses
import functools
import sys

import honest_numpy
import numpy as np
import plumbline

if len(sys.argv) > 1:
    raise RuntimeError(f"a module that reads its arguments was given a worker's: {sys.argv[1:]}")


def _values(hidden, weight, labels):
    found = honest_numpy.linear_cross_entropy(hidden, weight, labels)
    return found["logprob"], found["entropy"]


@plumbline.target(returns="logprob")
def declares_its_value_alone(hidden, weight, labels):
    """What it can do is still found by trying."""
    return _values(hidden, weight, labels)[0]


@plumbline.target(arguments={"hidden": "acts"})
def declares_an_argument_alone(acts, weight, labels):
    """The same."""
    return _values(acts, weight, labels)[0]


def has_an_option(hidden, weight, labels, k=5):
    """`k` is no upstream gradient."""
    return _values(hidden, weight, labels)[0] * np.float32(k / 5)


def reduces_to_the_loss(hidden, weight, labels, *, reduction="none"):
    """A log-probability of each row, and their negated sum or mean, as plumbline.torch has it."""
    found = honest_numpy.linear_cross_entropy(hidden, weight, labels, reduction=reduction)
    return found["logprob" if reduction == "none" else "loss"]


def brings_metrics(hidden, weight, labels):
    """A value that is no output beside those that are."""
    logprob, entropy = _values(hidden, weight, labels)
    return {"logprob": logprob, "entropy": entropy, "metrics": 3, "accuracy": logprob > -1}


def entropy_in_bits(hidden, weight, labels):
    """A second value that is no output, since it is wrong."""
    logprob, entropy = _values(hidden, weight, labels)
    return logprob, entropy / np.float32(np.log(2))


def names_nothing_known(hidden, weight, labels):
    """A mapping without a name that every kernel has."""
    return {"log_probs": _values(hidden, weight, labels)[0]}


@dataclasses.dataclass
class Outputs:
    """Named values."""

    logprob: np.ndarray
    entropy: np.ndarray


def returns_a_dataclass(hidden, weight, labels):
    """Its fields name its values."""
    return Outputs(*_values(hidden, weight, labels))


def _scaled(hidden, weight, labels, by):
    return _values(hidden * np.float32(by), weight, labels)[0]


partial = functools.partial(_scaled, by=1)
