# SPDX-License-Identifier: Apache-2.0
"""The structs of fuzz/target_abi.h and of DLPack 0.x, for ctypes."""

import ctypes

ABI_VERSION = 1
OK, UNSUPPORTED, INVALID, FAILED = range(4)
WORD_FOLLOWS = b"\x1f"  # PLUMBLINE_WORD_FOLLOWS
REDUCTIONS = ("none", "sum", "mean")
CPU, CUDA = 1, 2  # DLDeviceType

# (code, bits) of DLDataType, by the names that descriptions use.
DTYPES = {(2, 16): "fp16", (2, 32): "fp32", (4, 16): "bf16", (0, 32): "int32", (0, 64): "int64"}


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


TENSOR = ctypes.POINTER(Tensor)
INPUTS = ("hidden", "weight", "labels", "temperature", "grad_logprob", "grad_entropy")
OUTPUTS = ("logprob", "loss", "entropy", "lse", "grad_hidden", "grad_weight", "first_invalid_row")


class Problem(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reduction", ctypes.c_int32),
        ("hidden", TENSOR),
        ("weight", TENSOR),
        ("labels", TENSOR),
        ("temperature", TENSOR),
        ("ignore_index", ctypes.c_int64),
        ("grad_logprob", TENSOR),
        ("grad_entropy", TENSOR),
    ]


class Results(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32)] + [(name, TENSOR) for name in OUTPUTS]


DESCRIBE = ctypes.CFUNCTYPE(ctypes.c_void_p)
RUN = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(Problem),
    ctypes.POINTER(Results),
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_char),
    ctypes.c_size_t,
)


class Table(ctypes.Structure):
    """plumbline_target_v1 without the split form: a Python function saves its state by itself."""

    _fields_ = [
        ("abi_version", ctypes.c_uint32),
        ("struct_size", ctypes.c_uint32),
        ("describe", DESCRIBE),
        ("run", RUN),
        ("sizes", ctypes.c_void_p),
        ("forward", ctypes.c_void_p),
        ("backward", ctypes.c_void_p),
    ]
