# SPDX-License-Identifier: Apache-2.0
"""usage: sharded.py HOW: a call on each of several ranks whose head is spread over them, in the way that HOW says."""

import sys

import torch
import torch.distributed as dist
from sharded_kernel import gathering, parallel
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from vendored_kernel import fused


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 20, bias=False)

    def forward(self, x, labels):
        return fused(self.body(x), self.head.weight, labels).mean()


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))
torch.manual_seed(0)
hidden, weight, labels = torch.randn(12, 8), torch.randn(20, 8), torch.randint(0, 20, (12,))
if sys.argv[1] == "fsdp":  # the head is whole while the model computes
    model = Model()
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(hidden + rank, labels).backward()
        optimizer.step()
        optimizer.zero_grad()
elif sys.argv[1] == "gathered":  # the kernel is given a sharded head and gathers it; each rank has its own rows
    head = torch.nn.Parameter(distribute_tensor(weight, mesh, [Shard(0)]))
    gathering((hidden + rank).requires_grad_(), head, labels).mean().backward()
else:  # each rank computes with its part of the vocabulary
    own = weight.tensor_split(size)[rank].clone().requires_grad_()
    parallel(hidden.requires_grad_(), own, labels, dist.group.WORLD).mean().backward()
dist.destroy_process_group()
