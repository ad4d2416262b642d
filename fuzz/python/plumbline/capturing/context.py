# SPDX-License-Identifier: Apache-2.0
"""plumbline.capture(): the calls of a block, recorded."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .session import Session, say
from .settings import Settings, SettingsError, writable
from .wrapping import Patches


class Capture:
    """What a block captures: `files` are its dumps, when it has ended."""

    def __init__(self, session: Session, patches: Patches) -> None:
        self._session = session
        self._patches = patches

    @property
    def files(self) -> list[pathlib.Path]:
        """The dumps that were written."""
        return self._session.files

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls a function, whatever its name, and records the call."""
        return self._patches.of(function)(*args, **options)


@contextlib.contextmanager
def capture(
    out: str | os.PathLike[str],
    *functions: Callable[..., Any],
    rows: int | None = None,
    calls: int | None = 1,
) -> Iterator[Capture]:
    """Writes the first call of a linear cross-entropy in the block, its inputs, outputs and gradients, as the dump `out`.

    Functions are recognised, in every module that is imported, by the names of their parameters; those given beside `out`
    are taken too. `rows` of them are written [all], and each of more `calls` (None: all) is a file beside `out`.
    Raises plumbline.capturing.settings.SettingsError where `out` cannot be written; a failure later is a line on standard
    error, and the block goes on.
    """
    path = pathlib.Path(out).absolute()
    for name, count in (("rows", rows), ("calls", calls)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise SettingsError(f"{name} is {count!r}: takes a number of at least 1, or None")
    writable(path.parent)
    session = Session(Settings(path.parent, None, None, rows, calls, graph=False), path)
    patches = Patches(session)
    given = [(function, patches.of(function)) for function in functions]
    try:
        if "torch" in sys.modules:
            patches.everywhere(given)
        yield Capture(session, patches)
    finally:
        patches.undo()
        session.flush()
        if not session.files:
            session.ended()
            say(f"{path} was not written: no call of a linear cross-entropy was captured")
