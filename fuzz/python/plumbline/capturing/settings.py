# SPDX-License-Identifier: Apache-2.0
"""What PLUMBLINE_CAPTURE says: KEY=VALUE,… with dir, and step, rank, rows, calls, graph, function."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import tempfile

VARIABLE = "PLUMBLINE_CAPTURE"


class SettingsError(ValueError):
    """A setting that cannot be met; the text names its key and its value."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is taken. None stands for all."""

    dir: pathlib.Path
    steps: frozenset[int] | None = frozenset((0,))  # steps of an optimizer that ended before the call
    ranks: frozenset[int] | None = frozenset((0,))
    rows: int | None = None
    calls: int | None = 1  # of a step
    graph: bool = True  # only calls that autograd records
    functions: tuple[str, ...] = ()  # MODULE:FUNCTION, beside those that are recognised


def _numbers(key: str, value: str) -> frozenset[int] | None:
    if value == "all":
        return None
    parts = value.split("+")
    if not all(part.isdecimal() for part in parts):
        raise SettingsError(f"{key}={value}: takes a number, numbers joined by + (0+8), or all")
    return frozenset(map(int, parts))


def _count(key: str, value: str) -> int | None:
    if value == "all":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise SettingsError(f"{key}={value}: takes a number of at least 1, or all")
    return int(value)


def _functions(value: str) -> tuple[str, ...]:
    names = tuple(value.split("+"))
    for name in names:
        module, _, path = name.partition(":")
        if not module or not path:
            raise SettingsError(f"function={value}: {name!r} is not MODULE:FUNCTION")
    return names


def parse(text: str) -> Settings:
    """The settings that a text says. Raises SettingsError."""
    found: dict[str, object] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        key = key.strip()
        value = value.strip()
        known = ("dir", "step", "rank", "rows", "calls", "graph", "function")
        if key not in known:
            raise SettingsError(f"{part!r}: no key {key!r}; there are {', '.join(known)}")
        if not equals or not value:
            raise SettingsError(f"{part!r}: {key} has no value")
        name = {"step": "steps", "rank": "ranks", "function": "functions"}.get(key, key)
        if name in found:
            raise SettingsError(f"{part!r}: {key} is said twice")
        if key == "dir":
            found[name] = pathlib.Path(value).absolute()
        elif key in ("step", "rank"):
            found[name] = _numbers(key, value)
        elif key in ("rows", "calls"):
            found[name] = _count(key, value)
        elif key == "graph":
            if value not in ("needed", "any"):
                raise SettingsError(f"graph={value}: takes needed (calls that autograd records) or any")
            found[name] = value == "needed"
        else:
            found[name] = _functions(value)
    if "dir" not in found:
        raise SettingsError(f"{text!r}: says no dir, the folder for dumps; dir=dumps is one")
    return Settings(**found)  # type: ignore[arg-type]


def writable(folder: pathlib.Path) -> None:
    """Makes the folder and tries it. Raises SettingsError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SettingsError(f"dir={folder}: cannot be written: {os.strerror(error.errno or 0)}") from None
