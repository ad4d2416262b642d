# SPDX-License-Identifier: Apache-2.0
"""Forks workers from a process that has imported the target: fuzz/worker/fork_server.h is the other side.

A request is the worker's words as JSON, with two descriptors: its log and its socket. The reply is the
worker's process, or "no" and a reason; then the supervisor starts workers anew.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

from .. import errors
from ..loading import load

_SOCKET = 3
_LONGEST = 1 << 16
_ADOPTED = 10.0  # seconds until the supervisor has inherited a worker


def why_not() -> str | None:
    """Why this process must not fork; None if it may."""
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        return f"the import has started {threads - 1} thread(s)"
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        if "/dev/nvidia" in maps.read():
            return "the import has touched a GPU"
    return None


def _become_worker(words: list[str], supervisor: int) -> list[str]:
    """In the new process: waits for its adoption, and returns its argv."""
    end = time.monotonic() + _ADOPTED
    while os.getppid() != supervisor and time.monotonic() < end:
        time.sleep(0.0005)
    return [sys.argv[0], *words]


def _fork(words: list[str], log: int, shared: int, supervisor: int) -> int:
    """Returns 0 in the worker, and the worker's process in the server."""
    read, write = os.pipe()
    between = os.fork()
    if between == 0:
        worker = os.fork()
        if worker == 0:
            os.setpgid(0, 0)
            for target in (1, 2):
                os.dup2(log, target)
            os.dup2(shared, _SOCKET)
            for descriptor in (read, write, log, shared):
                os.close(descriptor)
            return 0
        try:
            os.setpgid(worker, worker)  # whichever of the two comes first
        except OSError:
            pass
        os.write(write, str(worker).encode())
        os._exit(0)
    os.waitpid(between, 0)
    os.close(write)
    worker = int(os.read(read, 32) or b"-1")
    os.close(read)
    return worker


def serve(name: str, supervisor: int) -> list[str] | None:
    """Imports the target MODULE:FUNCTION and forks workers until the supervisor ends. Returns the words of
    a worker in the worker, and None in the server."""
    server = socket.socket(fileno=_SOCKET)
    try:
        load(name)  # with its framework and the form's module
    except BaseException as failure:  # noqa: BLE001 - a worker that is started anew says it to the user
        errors.report(failure)
        server.send(b"no: the import failed")
        return None
    while True:
        request, descriptors, _, _ = socket.recv_fds(server, _LONGEST, 2)
        if not request or len(descriptors) != 2:
            return None
        reason = why_not()
        if reason is not None:
            server.send(f"no: {reason}"[:60].encode())
            return None
        words = json.loads(request)
        worker = _fork(words, *descriptors, supervisor)
        if worker == 0:
            server.detach()
            return _become_worker(words, supervisor)
        for descriptor in descriptors:
            os.close(descriptor)
        server.send(str(worker).encode())
