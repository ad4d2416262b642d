# SPDX-License-Identifier: Apache-2.0
"""verl's Triton kernel in Triton's interpreter: it asserts that tensors are on a GPU, so all say that they are."""

import torch
from verl.utils.kernel.linear_cross_entropy import LinearCrossEntropy

torch.Tensor.is_cuda = True
linear_cross_entropy = LinearCrossEntropy.apply
