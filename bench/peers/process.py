# SPDX-License-Identifier: Apache-2.0
"""Runs the processes in which peers are measured: a peer may crash, hang or leave the GPU unusable.

A worker prints messages, a line of JSON each; the last is {"done": true}.
"""

import json
import os
import selectors
import subprocess
import threading
import time

MARK = "PEERS "  # begins a message
HELD = 1 << 20  # more bytes than a pipe holds
interrupted = threading.Event()


def tell(**message: object) -> None:
    # A line of its own, also where a peer has printed without ending its line.
    print("\n" + MARK + json.dumps(message), flush=True)


def arrived(descriptor: int) -> bytes | None:
    """What has come through a pipe that does not block: None if nothing has, b"" at its end."""
    try:
        return os.read(descriptor, HELD)
    except BlockingIOError:
        return None


def listen(command: list[str], limit: float, environment: dict[str, str] | None = None) -> tuple[list[dict], str]:
    """Starts a worker and hears it until it ends or says nothing for `limit` seconds. Returns (messages, why it ended
    early or '')."""
    messages, errors, rest = [], b"", b""
    # Unbuffered, Python writes a line and its end apart, and another's output may come between.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with (subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env={**inherited, **(environment or {})}) as child,
          selectors.DefaultSelector() as selector):
        for stream in (child.stdout, child.stderr):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ)
        heard = time.monotonic()
        while selector.get_map():
            # Its end is not that of its pipes, which a process that it started may hold and write to. What it wrote
            # itself is in them by now, and one read of each takes all of that.
            ended = child.poll() is not None
            for key, _ in selector.select(timeout=0 if ended else min(0.2, limit)):
                data = arrived(key.fd)
                if data is None:
                    continue
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is child.stderr:
                    errors = (errors + data)[-10000:]  # a read may end within a line
                else:
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        if line.startswith(MARK.encode()):
                            try:
                                messages.append(json.loads(line[len(MARK):]))
                            except ValueError:  # another's output has come into its line
                                child.kill()
                                return messages, f"said what is no message: {line[:200].decode(errors='replace')}"
                            heard = time.monotonic()
            if ended:
                break
            if interrupted.is_set() or time.monotonic() - heard > limit:
                child.kill()
                return messages, "interrupted" if interrupted.is_set() else f"said nothing for {limit:g} s"
    if child.returncode == 0 and messages and messages[-1].get("done"):
        return messages, ""
    said = errors.decode(errors="replace").strip().splitlines() or ["no word"]
    return messages, f"ended with status {child.returncode}: {said[-1]}"
