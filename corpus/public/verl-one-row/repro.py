# SPDX-License-Identifier: Apache-2.0
"""The kernel does not compile for one row. Needs torch, triton, verl and a GPU.

Exit status: 1 if it does not still, 0 if it does.
"""

import sys

import torch
from triton.compiler.errors import CompilationError
from verl.utils.kernel.linear_cross_entropy import LinearCrossEntropy

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
wrong = False
for rows in (2, 1):
    hidden = torch.zeros(rows, 128, device=DEVICE)
    weight = torch.zeros(2, 128, device=DEVICE)
    labels = torch.zeros(rows, dtype=torch.int64, device=DEVICE)
    try:
        logprob, _ = LinearCrossEntropy.apply(hidden, weight, labels, 1.0, "none")
        print(f"{rows} rows: logprob {logprob.tolist()}")
    except CompilationError as fault:
        print(f"{rows} rows: {str(fault).strip().splitlines()[-1]}; expected a logprob of -0.6931471805599453")
        wrong = True
sys.exit(1 if wrong else 0)
