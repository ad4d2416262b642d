# SPDX-License-Identifier: Apache-2.0
"""A call raises ValueError where a chunk of rows is as long as hidden is wide. Needs torch, quack-kernels and an H100.

Exit status: 1 if one of these shapes is still refused, 0 if not.
"""

import sys

import torch
from quack.linear_cross_entropy import scaled_exp_linear_cross_entropy

wrong = False
for n, h, v in ((128, 128, 256), (64, 128, 256), (128, 256, 256)):  # rows are padded to a multiple of 128
    torch.manual_seed(0)
    hidden = torch.randn(n, h, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    weight = (torch.randn(v, h, dtype=torch.bfloat16, device="cuda") / h**0.5).requires_grad_()
    labels = torch.randint(0, v, (n,), device="cuda")
    try:
        loss = scaled_exp_linear_cross_entropy(hidden, weight, labels, reduction="sum")
        gradients = torch.autograd.grad(loss, [hidden, weight])
        print(f"{n} x {h} x {v}: loss {loss.item()}, gradients of {[tuple(each.shape) for each in gradients]}")
    except ValueError as error:
        print(f"{n} x {h} x {v}: ValueError: {error}")
        wrong = True
sys.exit(1 if wrong else 0)
