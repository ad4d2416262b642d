# SPDX-License-Identifier: Apache-2.0
"""The weight gets no gradient where hidden needs none. Needs torch, triton and liger-kernel.

Exit status: 1 if it gets none still, 0 if it does. Without a GPU: TRITON_INTERPRET=1.
"""

import sys

import torch
from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
expected = [[-0.7310585786300049], [0.7310585786300049]]
wrong = False
for reduction in ("sum", "mean"):
    hidden = torch.tensor([[1.0]], device=DEVICE)
    weight = torch.tensor([[0.0], [1.0]], device=DEVICE, requires_grad=True)
    labels = torch.tensor([0], device=DEVICE)
    liger_fused_linear_cross_entropy(hidden, weight, labels, reduction=reduction).backward()
    found = None if weight.grad is None else weight.grad.tolist()
    print(f"reduction {reduction}: gradient of weight {found}; expected {expected}")
    wrong |= found is None
sys.exit(1 if wrong else 0)
