# SPDX-License-Identifier: Apache-2.0
"""Shapes that public kernels come in: a module, an autograd function, a wrapper, outputs in the dtype of hidden."""

import other_kernel
import plumbline
import torch


def rounded_entropy(hidden, weight, labels, temperature=1.0):
    """verl's FusedLinearForPPO: log-probabilities in fp32, entropies in the dtype of hidden."""
    x = hidden.float() @ weight.float().T / temperature
    log_p = torch.log_softmax(x, -1)
    entropy = -(log_p.exp() * log_p).sum(-1)
    return log_p.gather(1, labels[:, None].long())[:, 0], entropy.to(hidden.dtype)


class Module(torch.nn.Module):
    """The weight comes first, as in Liger's module."""

    def __init__(self, chunk=4):
        super().__init__()
        self.chunk = chunk

    def forward(self, lin_weight, _input, target):
        return torch.nn.functional.cross_entropy((_input @ lin_weight.T).float(), target.long(), reduction="none")


class NeedsAnArgument(Module):
    def __init__(self, size):
        super().__init__(size)


class Narrow(torch.autograd.Function):
    """Backward takes fewer dtypes than forward, as cut_cross_entropy's."""

    @staticmethod
    def forward(ctx, e, c, targets):
        ctx.save_for_backward(e, c, targets)
        return torch.nn.functional.cross_entropy(e.float() @ c.float().T, targets.long(), reduction="none")

    @staticmethod
    def backward(ctx, upstream):
        e, c, targets = ctx.saved_tensors
        assert e.dtype in (torch.float16, torch.bfloat16), "Backwards requires embeddings to be bf16 or fp16"
        d_logits = torch.softmax(e.float() @ c.float().T, 1) - torch.nn.functional.one_hot(targets.long(), len(c))
        d_logits = (d_logits * upstream[:, None]).to(e.dtype)
        return d_logits @ c, d_logits.T @ e, None


# Declared, and for few variants: each dtype, layout and option is compiled by itself, in 5 s and more.
compiled = plumbline.target(
    torch.compile(Module().forward, dynamic=True), form="autograd", framework="torch", returns=("nll",), dtypes=["fp32"],
    weight_layouts=["vocab_major"], label_dtypes=["int64"], reductions=["none"], temperature="none", entropy=False,
    lse=False, ignore_index=False, invalid_labels=False, special_values=False, strided_inputs=False,
    zero_stride_grads=False, empty_extents=False, first_invalid_row=False, fp32_grads=False, batch_invariant=False,
)  # fmt: skip


def wrapper(hidden, weight, labels):
    """A kernel of another module, whose refusals are its own."""
    return other_kernel.on_a_gpu(hidden, weight, labels)


def calls(function):
    """Code that somebody else wrote, called from here."""
    return function()
