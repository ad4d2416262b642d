# SPDX-License-Identifier: Apache-2.0
"""The package as it lies in the build, and problems for it."""

import os
import pathlib

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = pathlib.Path(os.environ.get("PLUMBLINE_PYTHON_PACKAGE", ROOT / "build/release/python")).resolve()


def problem(rows=24, hidden_size=16, vocabulary=130, dtype=torch.float32, seed=0):
    """hidden and weight that require gradients, labels of which one is ignored, and an upstream gradient for each row."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, hidden_size, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(vocabulary, hidden_size, generator=generator).to(dtype).requires_grad_()
    labels = torch.randint(0, vocabulary, (rows,), generator=generator)
    if rows > 3:
        labels[3] = -100
    return hidden, weight, labels, torch.randn(rows, generator=generator)


def leaf(tensor):
    """A leaf with the same numbers and no gradient yet."""
    return tensor.detach().clone().requires_grad_()


def bits_are_equal(one, other):
    one_bytes, other_bytes = (each.detach().contiguous().reshape(-1).view(torch.uint8) for each in (one, other))
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one_bytes, other_bytes)
