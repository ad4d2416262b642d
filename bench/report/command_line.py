# SPDX-License-Identifier: Apache-2.0
"""Gives commands what they read of their arguments, and one way to refuse it."""

import argparse
import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from subprocess import SubprocessError
from typing import Any


class Refused(Exception):
    """Why a command does not run, in words, and the exit status that says so."""

    def __init__(self, why: str, status: int = 2) -> None:
        super().__init__(why)
        self.status = status


@contextlib.contextmanager
def refusing(what: str, status: int = 2) -> Iterator[None]:
    """Turns what reading a file that is absent, or of another layout, raises into Refused: `what` and the fault."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SubprocessError) as fault:
        raise Refused(f"{what}: {fault!r}", status) from fault


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def pattern(text: str) -> re.Pattern[str]:
    """Returns a regular expression; the type of an argument of argparse."""
    try:
        return re.compile(text)
    except re.error as fault:
        raise argparse.ArgumentTypeError(f"'{text}': {fault}") from fault
