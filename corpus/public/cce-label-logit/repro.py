# SPDX-License-Identifier: Apache-2.0
"""With one class the loss is not 0: the label's logit is rounded otherwise than the logits of lse. Needs torch, triton
and cut-cross-entropy.

Exit status: 1 if a loss is wrong still, 0 if not.
"""

import sys

import torch
from cut_cross_entropy import linear_cross_entropy

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
INPUTS = [(torch.bfloat16, 3.0, 1.1328125), (torch.bfloat16, 1.0078125, 255.0), (torch.float16, 8.0, 8192.0)]
wrong = False
for dtype, hidden, weight in INPUTS:
    e = torch.tensor([[hidden]], dtype=dtype, device=DEVICE)
    c = torch.tensor([[weight]], dtype=dtype, device=DEVICE)
    labels = torch.tensor([0], device=DEVICE)
    loss = linear_cross_entropy(e, c, labels, reduction="none").item()
    print(f"{dtype}, hidden {hidden}, weight {weight}, logit {hidden * weight}: loss {loss}; expected 0")
    wrong |= not abs(loss) < 1e-4
sys.exit(1 if wrong else 0)
