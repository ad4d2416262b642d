# SPDX-License-Identifier: Apache-2.0
"""A NaN in one row of a bf16 matrix reaches another row of its product. Needs torch and a CPU with AMX.

Exit status: 1 if a row that holds no NaN gets one, 0 if not.
"""

import sys
from pathlib import Path

import torch

ROWS, COLUMNS, DEPTH = 17, 4, 65  # rows above 16, and a depth that is no multiple of 32
hidden = torch.zeros(ROWS, DEPTH, dtype=torch.bfloat16)
weight = torch.zeros(COLUMNS, DEPTH, dtype=torch.bfloat16)
labels = torch.zeros(ROWS, dtype=torch.int64)
hidden[15, 29] = float("nan")
labels[15] = -100  # the row is ignored

logits = torch.nn.functional.linear(hidden, weight).float()
losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
wrong = [row for row in range(ROWS) if row != 15 and bool(logits[row].isnan().any())]
print(f"torch {torch.__version__}, AMX {'amx_bf16' in Path('/proc/cpuinfo').read_text(encoding='utf-8')}")
print(f"rows with a NaN logit, of those that hold none: {wrong}; expected []")
print(f"loss of row 14: {losses[14].item()}; expected 1.3862943611198906")
sys.exit(1 if wrong else 0)
