# SPDX-License-Identifier: Apache-2.0
"""Gradients are NaN where the logits of the label's block of columns are 89 below the largest. Needs torch, quack-kernels and
an H100.

Exit status: 1 if a value is wrong still, 0 if not.
"""

import sys

import torch
from quack.linear_cross_entropy import scaled_exp_linear_cross_entropy

wrong = False
for below in (16.0, 64.0, 96.0, 128.0):
    hidden = torch.zeros(8, 8, dtype=torch.bfloat16, device="cuda")
    hidden[:, 0] = 1
    weight = torch.zeros(640, 8, dtype=torch.bfloat16, device="cuda")  # five blocks of 128 columns
    weight[:128, 0] = -below
    labels = torch.full((8,), 3, device="cuda")
    inputs = [each.requires_grad_() for each in (hidden, weight)]
    loss = scaled_exp_linear_cross_entropy(hidden, weight, labels, reduction="sum")
    got = torch.autograd.grad(loss, inputs)
    same = torch.nn.functional.cross_entropy(hidden.double() @ weight.double().T, labels, reduction="sum")
    expected = torch.autograd.grad(same, inputs)
    for name, row, one, other in zip(("hidden", "weight"), (0, 3), got, expected):
        a, b = one[row, 0].item(), other[row, 0].item()
        print(f"label's block {below} below: loss {loss.item()}, gradient of {name}[{row}, 0] {a}; expected {b}")
        wrong |= not abs(a - b) <= 0.05 * abs(b)
sys.exit(1 if wrong else 0)
