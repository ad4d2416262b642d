# SPDX-License-Identifier: Apache-2.0
"""Runs the processes in which peers are measured: a peer may crash, hang or leave the GPU unusable.

A worker prints messages, a line of JSON each. It prepares (imports, compiles, examines), says {"ready": true}, waits
for a line of input and is timed. Several may prepare side by side; of a GPU one at a time is timed, and none prepares
meanwhile.
"""

import contextlib
import json
import os
import queue
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

MARK = "PEERS "  # begins a message
HELD = 1 << 20  # more bytes than a pipe holds
interrupted = threading.Event()


def tell(**message: object) -> None:
    # A line of its own, also where a peer has printed without ending its line.
    print("\n" + MARK + json.dumps(message), flush=True)


def wait_for_turn() -> None:
    tell(ready=True)
    sys.stdin.readline()


class Turns:
    """Lets the shapes of one GPU prepare side by side, and be timed one at a time."""

    def __init__(self) -> None:
        self.condition, self.preparing, self.timing = threading.Condition(), set(), None

    def wait(self, until: Callable[[], bool]) -> None:
        while not until() and not interrupted.is_set():
            self.condition.wait(1)

    def prepare(self, who: str) -> None:
        with self.condition:
            self.wait(lambda: self.timing is None)
            self.preparing.add(who)

    def begin(self, who: str) -> None:
        with self.condition:
            self.preparing.discard(who)
            self.condition.notify_all()
            self.wait(lambda: not self.preparing and self.timing is None)
            self.timing = who

    def end(self, who: str) -> None:
        with self.condition:
            self.preparing.discard(who)
            if self.timing == who:
                self.timing = None
            self.condition.notify_all()


def arrived(descriptor: int) -> bytes | None:
    """What has come through a pipe that does not block: None if nothing has, b"" at its end."""
    try:
        return os.read(descriptor, HELD)
    except BlockingIOError:
        return None


class Slots:
    """Hands out places for workers, `together` of each device at a time; None: whichever a worker finds."""

    def __init__(self, devices: Sequence[str | None], together: int) -> None:
        self.free, self.count = queue.SimpleQueue(), len(devices) * together
        turns = [Turns() for _ in devices]
        for _ in range(together):
            for slot in zip(devices, turns):
                self.free.put(slot)

    @contextlib.contextmanager
    def take(self) -> Iterator[tuple[str | None, Turns]]:
        slot = self.free.get()
        try:
            yield slot
        finally:
            self.free.put(slot)


def listen(command: list[str], limit: float, turn: Callable[[], None] = lambda: None,
           environment: dict[str, str] | None = None) -> tuple[list[dict], str]:
    """Starts a worker and hears it until it ends or says nothing for `limit` seconds. Returns (messages, why it ended
    early or ''). turn() returns when it may be timed."""
    messages, errors, rest = [], b"", b""
    pipe = subprocess.PIPE
    # Unbuffered, Python writes a line and its end apart, and another's output may come between.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with (subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe,
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
            if messages and messages[-1].get("ready"):
                messages.pop()
                turn()
                try:
                    os.write(child.stdin.fileno(), b"go\n")  # past the buffer, which closing would send again
                except BrokenPipeError:
                    pass  # its end is seen above
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
