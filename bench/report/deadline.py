# SPDX-License-Identifier: Apache-2.0
"""Says whether there is time for one more piece of a measurement that is made in pieces."""

import contextlib
import time
from collections.abc import Iterator


class Deadline:
    """Some minutes, in which no piece begins that would end later, were it as long as the longest so far."""

    def __init__(self, minutes: float) -> None:
        self._end, self.longest = time.monotonic() + 60 * minutes, 0.0  # seconds

    def has_time(self) -> bool:
        return time.monotonic() + self.longest <= self._end

    @contextlib.contextmanager
    def piece(self) -> Iterator[None]:
        """Times one piece. One that raises tells nothing of how long others take."""
        begun = time.monotonic()
        yield
        self.longest = max(self.longest, time.monotonic() - begun)
