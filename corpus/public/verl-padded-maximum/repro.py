# SPDX-License-Identifier: Apache-2.0
"""Log-probability and entropy are infinite or NaN where every logit of a row is below about -104. Needs torch, triton,
verl and a GPU.

Exit status: 1 if a value is wrong still, 0 if not.
"""

import math
import sys

import torch
from verl.utils.kernel.linear_cross_entropy import LinearCrossEntropy

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EXPECTED = math.log(2.0)
wrong = False
for logit in (-16.0, -100.0, -128.0):
    hidden = torch.zeros(2, 128, device=DEVICE)
    weight = torch.zeros(2, 128, device=DEVICE)
    hidden[:, 0], weight[:, 0] = 1.0, logit  # both columns have this logit
    labels = torch.tensor([0, 1], device=DEVICE)
    logprob, entropy = LinearCrossEntropy.apply(hidden, weight, labels, 1.0, "none")
    print(f"logits {logit}: logprob {logprob.tolist()}; expected {-EXPECTED}; entropy {entropy.tolist()}; expected {EXPECTED}")
    wrong |= not bool(((logprob + EXPECTED).abs() < 1e-3).all() & ((entropy - EXPECTED).abs() < 1e-3).all())
sys.exit(1 if wrong else 0)
