# SPDX-License-Identifier: Apache-2.0
"""The loss of a label whose logit is -infinity is what the memory held before. Needs torch, quack-kernels and an H100.

Exit status: 1 if a loss is wrong still, 0 if not.
"""

import math
import sys

import torch
from quack.linear_cross_entropy import scaled_exp_linear_cross_entropy

wrong = False
for before in (0.0, 7.0, 42.0):
    for graph in (False, True):
        hidden = torch.ones(8, 8, dtype=torch.bfloat16, device="cuda", requires_grad=graph)
        weight = torch.zeros(128, 8, dtype=torch.bfloat16, device="cuda")
        weight[61, 0] = -math.inf
        labels = torch.full((8,), 61, device="cuda")
        memory = [torch.full((size,), before, device="cuda") for size in (8, 128) for _ in range(64)]
        del memory  # the allocator gives it to the call
        loss = scaled_exp_linear_cross_entropy(hidden, weight, labels, reduction="sum").item()
        expected = torch.nn.functional.cross_entropy((hidden @ weight.T).double(), labels, reduction="sum").item()
        print(f"memory held {before}, {'with' if graph else 'without'} a graph: loss {loss}; expected {expected}")
        wrong |= loss != expected
sys.exit(1 if wrong else 0)
