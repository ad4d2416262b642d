# SPDX-License-Identifier: Apache-2.0
"""The operator's interface in C, written from c_interface.h and apart from plumbline.torch."""

import ctypes

import torch
from support import PACKAGE


class Tensor(ctypes.Structure):
    """plumbline_operator_tensor, written from c_interface.h."""

    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 2), ("stride", ctypes.c_int64 * 2)]  # fmt: skip


class CallOfC(ctypes.Structure):
    """plumbline_operator_call, written from c_interface.h."""

    _fields_ = [("device", ctypes.c_int32), ("threads", ctypes.c_int32), ("stream", ctypes.c_void_p),
                ("kept_logits_bytes", ctypes.c_uint64), ("ignore_index", ctypes.c_int64), ("reduction", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("workspace_bytes", ctypes.c_uint64), ("saved_bytes", ctypes.c_uint64),
                ("workspace", ctypes.c_void_p), ("saved", ctypes.c_void_p)] + [
        (name, Tensor) for name in ("hidden", "weight", "labels", "temperature", "grad_logprob", "grad_entropy", "logprob",
                                    "loss", "entropy", "lse", "grad_hidden", "grad_weight", "first_invalid_row")]  # fmt: skip


def as_c(tensor):
    codes = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2, torch.int32: 3, torch.int64: 4}
    made = Tensor(tensor.data_ptr(), codes[tensor.dtype], tensor.dim())
    for at in range(2):
        made.shape[at] = tensor.shape[at] if at < tensor.dim() else 1
        made.stride[at] = tensor.stride(at) if at < tensor.dim() else 1
    return made


def library():
    """The library of the package."""
    return ctypes.CDLL(str(PACKAGE / "plumbline/torch/libplumbline_operator.so"))
