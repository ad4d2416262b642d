# SPDX-License-Identifier: Apache-2.0
"""Backward raises AssertionError where the weight is a transposed view. Needs torch, unsloth and unsloth-zoo.

Exit status: 1 if it raises still, 0 if not.
"""

import os
import sys

os.environ["UNSLOTH_IS_PRESENT"] = "1"  # unsloth_zoo asks for it when it is imported without unsloth

import torch
from unsloth_zoo.rl_replacements import chunked_hidden_states_selective_log_softmax

wrong = False
for name, weight in (("contiguous", torch.zeros(2, 2)), ("transposed", torch.zeros(2, 2).T)):
    hidden = torch.zeros(1, 4, 2, requires_grad=True)
    weight.requires_grad_()
    labels = torch.zeros(1, 4, dtype=torch.int64)
    logprob = chunked_hidden_states_selective_log_softmax(hidden, weight, labels, 4)
    try:
        torch.autograd.grad(logprob.sum(), [hidden, weight])
        print(f"{name} weight, strides {weight.stride()}: gradients came back")
    except AssertionError as fault:
        print(f"{name} weight, strides {weight.stride()}: {str(fault).splitlines()[0]}; expected gradients")
        wrong = True
sys.exit(1 if wrong else 0)
