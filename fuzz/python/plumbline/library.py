# SPDX-License-Identifier: Apache-2.0
"""The files beside this package: the library that a worker loads, and the program `plumb`."""

from __future__ import annotations

import ctypes
import pathlib

_FOLDER = pathlib.Path(__file__).resolve().parent


def path_of_worker_library() -> str:
    return str(_FOLDER / "libplumbline_worker.so")


def worker_library() -> ctypes.CDLL:
    """The library with the worker's loop. ctypes releases the interpreter's lock while it runs."""
    library = ctypes.CDLL(path_of_worker_library())
    library.plumbline_serve.restype = ctypes.c_int
    library.plumbline_serve.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_char_p),
    ]
    return library


def program() -> str:
    """The path of `plumb`: in a wheel, in a build, in an installation."""
    for place in ("bin/plumb", "../../fuzz/plumb", "../../../../bin/plumb"):
        path = (_FOLDER / place).resolve()
        if path.is_file():
            return str(path)
    raise FileNotFoundError(f"the program plumb is not beside {_FOLDER}: the installation is not whole")
