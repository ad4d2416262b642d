# SPDX-License-Identifier: Apache-2.0
"""Loads the function that a target's name says, and hands it to the library's loop."""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import json
import os
import sys
from collections.abc import Callable

from .. import errors, poison, worker
from ..library import worker_library
from ..loading import load
from . import device_heap, fork_server
from .serve import Target

# One thread, unless the user says otherwise: cases are small, and there is a worker on every core.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def _environment() -> dict[str, str]:
    """Settings that a process must begin with, or a framework's import must find."""
    threads = {name: "1" for name in _THREADS if name not in os.environ}
    return poison.environment() | onednn_setting() | threads


def onednn_setting() -> dict[str, str]:
    """ONEDNN_MAX_CPU_ISA, where the CPU announces AMX and the kernel does not grant it: oneDNN looks at
    the announcement alone, and its first bf16 product is then an illegal instruction."""
    if "ONEDNN_MAX_CPU_ISA" in os.environ or os.uname().machine != "x86_64":
        return {}
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
            announced = " amx_tile " in info.read().replace("\n", " ")
    except OSError:
        return {}
    if not announced or _amx_granted():
        return {}
    return {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}


def _amx_granted() -> bool:
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None, use_errno=True).syscall(arch_prctl, request_permission, tile_data) == 0


def _why_not(target: str, error: BaseException, shadows: Callable[[BaseException], str]) -> str:
    """What the harness is told of a target that did not load."""
    why = shadows(error)
    return f"{target}: {why}{'; ' if why else ''}{errors.words(error)} ({sys.executable})"


def main(argv: list[str], shadows: Callable[[BaseException], str]) -> int:
    """`argv` is the worker's; the exit status is the library's. `shadows`: as in __main__.py."""
    wanted = {key: value for key, value in _environment().items() if os.environ.get(key) != value}
    if wanted:
        os.environ.update(wanted)
        os.execve(sys.executable, [sys.executable, "-u", *argv], os.environ)
    faulthandler.enable()
    if argv[1:2] == ["ask"]:  # by probing/found.py
        worker.target = argv[2]
        sys.argv = argv[:1]
        from ..probing.ask import ask, end_with

        end_with(int(argv[5]))
        ask(argv[2], argv[3], set(json.loads(argv[4])))
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("--target")
    parser.add_argument("--parent", type=int)
    options = parser.parse_known_args(argv[1:])[0]
    plain = options.target.split("@")[0]
    worker.target = plain
    sys.argv = argv[:1]  # a module that reads it sees no words of ours
    device_heap.HEAP.prepare()
    if argv[1:2] == ["fork-server"]:
        words = fork_server.serve(plain.removeprefix("python:"), options.parent)
        if words is None:
            return 0
        argv = words
    table, why_not = None, None
    try:
        kernel = load(plain.removeprefix("python:"))
        declaration = ""
        if kernel.declaration.found:
            from ..probing.found import declaration_found

            kernel.declaration, declaration, not_judged = declaration_found(kernel)
            kernel.cannot_show = [*kernel.cannot_show, *not_judged]
        target = Target(kernel, declaration)
        table = target.table()
    except BaseException as error:  # noqa: BLE001 - SystemExit too: whatever the module does, the harness hears of it
        errors.report(error)
        why_not = _why_not(plain, error, shadows)
    words = [b"plumb", *[word.encode() for word in argv[1:]]]
    library = worker_library()
    return library.plumbline_serve(
        ctypes.byref(table) if table is not None else None,
        plain.encode(),
        None if why_not is None else why_not.encode(),
        len(words),
        (ctypes.c_char_p * len(words))(*words),
    )
