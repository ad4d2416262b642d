# SPDX-License-Identifier: Apache-2.0
"""Processes in which peers are measured: a peer may crash, hang or leave the GPU unusable.

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

MARK = "PEERS "  # begins a message
HELD = 1 << 20  # more bytes than a pipe holds
interrupted = threading.Event()


def tell(**message):
    # A line of its own, also where a peer has printed without ending its line.
    print("\n" + MARK + json.dumps(message), flush=True)


def wait_for_turn():
    tell(ready=True)
    sys.stdin.readline()


class Turns:
    def __init__(self):
        self.condition, self.preparing, self.timing = threading.Condition(), set(), None

    def wait(self, until):
        while not until() and not interrupted.is_set():
            self.condition.wait(1)

    def prepare(self, who):
        with self.condition:
            self.wait(lambda: self.timing is None)
            self.preparing.add(who)

    def begin(self, who):
        with self.condition:
            self.preparing.discard(who)
            self.condition.notify_all()
            self.wait(lambda: not self.preparing and self.timing is None)
            self.timing = who

    def end(self, who):
        with self.condition:
            self.preparing.discard(who)
            if self.timing == who:
                self.timing = None
            self.condition.notify_all()


def arrived(descriptor):
    """What has come through a pipe that does not block: None if nothing has, b"" at its end."""
    try:
        return os.read(descriptor, HELD)
    except BlockingIOError:
        return None


class Slots:
    """For workers, `together` of each device at a time; None: whichever a worker finds."""

    def __init__(self, devices, together):
        self.free, self.count = queue.SimpleQueue(), len(devices) * together
        turns = [Turns() for _ in devices]
        for _ in range(together):
            for slot in zip(devices, turns):
                self.free.put(slot)

    @contextlib.contextmanager
    def take(self):
        slot = self.free.get()
        try:
            yield slot
        finally:
            self.free.put(slot)


def listen(command, limit, turn=lambda: None, environment=None):
    """Messages of a worker, until it ends or says nothing for `limit` seconds: (messages, why it ended early or '').
    turn() returns when it may be timed."""
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
