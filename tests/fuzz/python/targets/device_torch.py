# SPDX-License-Identifier: Apache-2.0
"""PyTorch targets whose tensors lie on a GPU: one that is honest, and what a heap of the harness's must see or leave."""

import ctypes
import os

import plumbline
import torch

DEVICE = os.environ.get("PLUMBLINE_TEST_DEVICE", "cuda")
KEPT = []
LEFT_OUT = {name: False for name in (
    "entropy", "lse", "grad_hidden", "grad_weight", "first_invalid_row", "ignore_index", "invalid_labels", "empty_extents",
    "special_values", "batch_invariant",
)}  # fmt: skip


def target(function):
    """The log-probability alone, in fp32."""
    return plumbline.target(
        function, framework="torch", form="forward", returns=("logprob",), device=DEVICE, dtypes=["fp32"],
        reductions=["none"], temperature="none", **LEFT_OUT,
    )  # fmt: skip


@target
def honest(hidden, weight, labels):
    """In fp64, rounded once."""
    x = hidden.double() @ weight.double().T
    return (x.gather(1, labels.long()[:, None])[:, 0] - x.logsumexp(1)).float()


@target
def unwritten(hidden, weight, labels):
    """The last element of its result is not written."""
    found = torch.empty(len(labels), device=hidden.device)
    found[:-1] = honest(hidden, weight, labels)[:-1]
    return found


@target
def out_of_band(hidden, weight, labels):
    """Four bytes behind a block that it has allocated are written."""
    block = torch.empty(1024, device=hidden.device)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    past = ctypes.c_uint64(block.data_ptr() + block.numel() * block.element_size())
    status = ctypes.CDLL("libcuda.so.1").cuMemsetD8Async(past, ctypes.c_ubyte(1), ctypes.c_size_t(4), stream)
    assert status == 0, status
    return honest(hidden, weight, labels)


@target
def keeps_a_block(hidden, weight, labels):
    """A block of the first call has its values in every later one."""
    if not KEPT:
        KEPT.append(torch.full((1024,), 7.0, device=hidden.device))
    if not bool((KEPT[0] == 7.0).all()):
        raise KeyError("another run has the block that was kept")
    return honest(hidden, weight, labels)
