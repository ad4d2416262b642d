# SPDX-License-Identifier: Apache-2.0
"""Log-probability is NaN where the first 1024 logits of a row are all -infinity. Needs torch, triton, trl and a GPU.

Exit status: 1 if a value is wrong still, 0 if not.
"""

import math
import sys

import torch
from trl.kernels import ChunkedLogProbFunction

wrong = False
for masked in (0, 1023, 1376, 4000):
    hidden = torch.ones(1, 1, dtype=torch.bfloat16, device="cuda")
    weight = torch.zeros(masked + 2, 1, dtype=torch.bfloat16, device="cuda")
    weight[:masked] = -math.inf
    label = torch.tensor([masked + 1], device="cuda")
    logprob, *_ = ChunkedLogProbFunction.apply(hidden, weight, None, label, 1.0, 4096, None, 1.0, ())
    expected = torch.log_softmax((hidden @ weight.T).double(), -1)[0, -1].item()
    print(f"{masked} logits of -infinity before two of 0: logprob {logprob.item()}; expected {expected}")
    wrong |= not abs(logprob.item() - expected) < 1e-3
sys.exit(1 if wrong else 0)
