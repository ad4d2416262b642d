# SPDX-License-Identifier: Apache-2.0
"""plumbline.torch under torch.compile: one graph, any number of rows, the bits of the call that is not compiled."""

import sys
import unittest

from support import PACKAGE, bits_are_equal, leaf, problem

sys.path.insert(0, str(PACKAGE))

import torch
from plumbline.torch import LinearCrossEntropy, linear_cross_entropy


def objective(hidden, weight, labels, temperature, reduction):
    """A loss of both outputs."""
    result, entropy = linear_cross_entropy(hidden, weight, labels, temperature, reduction)
    return (result * 0.5).sum() + 0.1 * entropy.sum()


def gradients(function, hidden, weight, *rest):
    inputs = leaf(hidden), leaf(weight)
    function(*inputs, *rest).backward()
    return [each.grad for each in inputs]


class Compiled(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()

    # Fails if a call breaks the graph, is compiled again for another number of rows, or its state has another size.
    def test_dynamic_rows(self):
        hidden, weight, labels, _ = problem(64)
        compiled = torch.compile(objective, fullgraph=True, dynamic=True)
        for rows in (64, 32, 17, 5):
            given = hidden[:rows], weight, labels[:rows].clone(), 0.7, "none"  # a view would tell its base's size
            with torch._dynamo.config.patch(error_on_recompile=True):
                found = gradients(compiled, *given)
            for one, other in zip(found, gradients(objective, *given), strict=True):
                self.assertTrue(bits_are_equal(one, other), rows)

    # Fails if one of these ends the graph: reductions, a temperature by row, a dtype to multiply in, autocast.
    def test_options(self):
        hidden, weight, labels, _ = problem(dtype=torch.bfloat16)
        by_row = torch.linspace(0.5, 2, 24)
        for reduction, temperature in (("sum", 1.0), ("mean", by_row), ("none", by_row)):
            given = hidden, weight, labels, temperature, reduction
            compiled = torch.compile(objective, fullgraph=True, backend="aot_eager")
            for one, other in zip(gradients(compiled, *given), gradients(objective, *given), strict=True):
                self.assertTrue(bits_are_equal(one, other), reduction)

        def cast(hidden, weight, labels):
            with torch.autocast("cpu", torch.bfloat16):
                return objective(hidden, weight, labels, 1.0, "none")

        given = hidden, weight.float().detach(), labels
        compiled = torch.compile(cast, fullgraph=True, backend="aot_eager")
        for one, other in zip(gradients(compiled, *given), gradients(cast, *given), strict=True):
            self.assertTrue(bits_are_equal(one, other))

    # Fails if the head breaks the graph of the model around it, or lse does.
    def test_head(self):
        torch.manual_seed(0)
        head = LinearCrossEntropy(16, 130, return_lse=True)
        hidden, _, labels, _ = problem()
        compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
        for one, other in zip(compiled(hidden, labels), head(hidden, labels), strict=True):
            self.assertTrue(bits_are_equal(one, other))


if __name__ == "__main__":
    unittest.main()
