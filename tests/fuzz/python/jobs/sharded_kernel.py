# SPDX-License-Identifier: Apache-2.0
"""Kernels for a head that is spread over ranks."""

import torch
import torch.distributed as dist


def gathering(hidden, weight, labels):
    """-log p by the whole of a DTensor."""
    return torch.nn.functional.cross_entropy(hidden @ weight.full_tensor().t(), labels, reduction="none")


class _Parallel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, part, at, group):
        first = dist.get_rank(group) * part.shape[0]
        z = x @ part.t()
        highest = z.max(1).values
        dist.all_reduce(highest, dist.ReduceOp.MAX, group)
        total = (z - highest[:, None]).exp().sum(1)
        dist.all_reduce(total, group=group)
        at = at - first
        own = (at >= 0) & (at < part.shape[0])
        chosen = torch.where(own, z.gather(1, at.clamp(0, part.shape[0] - 1)[:, None])[:, 0], 0.0)
        dist.all_reduce(chosen, group=group)
        lse = highest + total.log()
        ctx.save_for_backward(x, part, z, lse, at, own)
        ctx.group = group
        return lse - chosen

    @staticmethod
    def backward(ctx, g):
        x, part, z, lse, at, own = ctx.saved_tensors
        d = (z - lse[:, None]).exp()
        d[torch.arange(len(at))[own], at[own]] -= 1
        d *= g[:, None]
        of_x = d @ part
        dist.all_reduce(of_x, group=ctx.group)
        return of_x, d.t() @ x, None, None


def parallel(hidden, weight, labels, process_group):
    """-log p, each rank with its part of the vocabulary."""
    return _Parallel.apply(hidden, weight, labels, process_group)
