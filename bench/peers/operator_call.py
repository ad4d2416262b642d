# SPDX-License-Identifier: Apache-2.0
"""Calls peers_operator.so, the operator behind a C interface, without PyTorch."""

import ctypes
from pathlib import Path

NUMBERS = ("n", "h", "v", "gradients", "mean", "saved_logits")
POINTERS = ("hidden", "weight", "labels", "grad_logprob", "grad_entropy", "logprob", "entropy", "grad_hidden", "grad_weight",
            "workspace", "saved", "stream")
# They stand behind the pointers, so that a library of before them takes a Call all the same.
LATER_NUMBERS = ("fp32_logits", "saved_survives")


class CallLayout(ctypes.Structure):
    """Has the layout of the Call in bench/peers/operator.cc."""
    _fields_ = ([(name, ctypes.c_int64) for name in NUMBERS] + [(name, ctypes.c_void_p) for name in POINTERS]
                + [(name, ctypes.c_int64) for name in LATER_NUMBERS])


class Library:
    """Calls the functions of peers_operator.so, with errors as exceptions."""

    def __init__(self, path: Path) -> None:
        self.code = ctypes.CDLL(str(path))

    def ask(self, function: str, *arguments: object) -> None:
        message = ctypes.create_string_buffer(512)
        if getattr(self.code, function)(*arguments, message, ctypes.c_size_t(len(message))) != 0:
            raise RuntimeError(f"{function}: {message.value.decode()}")

    def sizes(self, function: str, call: CallLayout, count: int) -> list[int]:
        """Returns the `count` sizes, in bytes, that a function says the call needs."""
        sizes = [ctypes.c_size_t() for _ in range(count)]
        self.ask(function, ctypes.byref(call), *map(ctypes.byref, sizes))
        return [size.value for size in sizes]
