# SPDX-License-Identifier: Apache-2.0
"""A second backward of one graph returns other gradients, and changes those of the first. Needs torch, triton and liger-kernel.

Exit status: 1 if it does still, 0 if not. Without a GPU: TRITON_INTERPRET=1.
"""

import sys

import torch
from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
hidden = torch.tensor([[1.0]], device=DEVICE, requires_grad=True)
weight = torch.tensor([[0.0], [1.0]], device=DEVICE, requires_grad=True)
labels = torch.tensor([0], device=DEVICE)
upstream = torch.tensor(2.0, device=DEVICE)

loss = liger_fused_linear_cross_entropy(hidden, weight, labels, reduction="sum")
first = torch.autograd.grad(loss, [hidden, weight], upstream, retain_graph=True)
before = [each.tolist() for each in first]
second = [each.tolist() for each in torch.autograd.grad(loss, [hidden, weight], upstream)]
after = [each.tolist() for each in first]
print(f"gradients of hidden and weight, first backward: {before}")
print(f"those of the second backward:                   {second}; expected the same")
print(f"those of the first, read after the second:      {after}; expected the same")
sys.exit(1 if second != before or after != before else 0)
