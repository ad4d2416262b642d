# SPDX-License-Identifier: Apache-2.0
"""usage: train.py [CALLS]: a job of six steps, CALLS calls in each; prints a digest of every number that it computes."""

import hashlib
import sys

import torch
from vendored_kernel import fused

torch.manual_seed(0)
of = hashlib.blake2b(digest_size=8)
embedding, head = torch.nn.Embedding(50, 32), torch.nn.Linear(32, 50, bias=False)
optimizer = torch.optim.AdamW([*embedding.parameters(), *head.parameters()], lr=1e-2)
for _ in range(6):
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        tokens = torch.randint(0, 50, (64,))
        hidden = embedding(tokens)
        # hidden has two uses, of which the kernel is one.
        loss = fused(hidden, head.weight, tokens.roll(-1), 0.75).mean() + 1e-3 * hidden.square().mean()
        loss.backward()
        of.update(loss.detach().numpy().tobytes())
    for each in (embedding.weight, head.weight):
        of.update(each.grad.numpy().tobytes())
    optimizer.step()
    optimizer.zero_grad()
print(of.hexdigest())
