# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this machine, each lent to several stages at once."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence

AT_ONCE = 3  # stages that share a GPU
PROCESSORS = 5  # of one stage


class Devices:
    """GPUs of one kind, (name, driver version), by their UUIDs: CUDA's multi-process service counts them anew."""

    def __init__(self, kind: tuple[str, str], uuids: Sequence[str]) -> None:
        self.kind = kind
        self._uuids = list(uuids)
        self._stages = [0] * len(uuids)  # on each GPU
        self._taken = [False] * len(uuids)  # whether one of them needs much of its memory
        self._changed = threading.Condition()

    @classmethod
    def of_this_machine(cls) -> "Devices | None":
        """Those of the first one's kind; None where nvidia-smi names none."""
        try:
            text = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"],
                                  check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            lines = [[word.strip() for word in line.split(",", 2)] for line in text.splitlines()]
            name, driver, _ = lines[0]
            return cls((name, driver), [uuid for other, _, uuid in lines if other == name])
        except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
            return None

    @property
    def number(self) -> int:
        return len(self._uuids)

    def at_once(self) -> int:
        """The number of stages that this machine has room for."""
        return min(AT_ONCE * self.number, max(1, (os.cpu_count() or 1) // PROCESSORS))

    @contextlib.contextmanager
    def lend(self, much_memory: bool) -> Iterator[dict[str, str]]:
        """Lends the GPU with the fewest stages; what to add to a stage's environment. Stages that need much memory
        wait for a GPU without another one of them."""
        with self._changed:
            while not (free := [i for i in range(self.number) if not (much_memory and self._taken[i])]):
                self._changed.wait()
            index = min(free, key=lambda i: self._stages[i])
            self._stages[index] += 1
            self._taken[index] |= much_memory
        try:
            yield {"CUDA_VISIBLE_DEVICES": self._uuids[index]} if self.number > 1 else {}
        finally:
            with self._changed:
                self._stages[index] -= 1
                self._taken[index] &= not much_memory
                self._changed.notify_all()
