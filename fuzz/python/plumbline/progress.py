# SPDX-License-Identifier: Apache-2.0
"""How far a campaign is, while it runs: a bar of tqdm, in a terminal or a notebook, or a line now and then."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from typing import Any, Protocol

_EVERY = 10.0  # seconds between lines


def of_line(line: str) -> Mapping[str, Any] | None:
    """The object in a line that plumb prints of its progress with --json (fuzz/cli/status_line.h); None in any other."""
    if not line.startswith('{"progress":'):
        return None
    try:
        found: Mapping[str, Any] = json.loads(line)["progress"]
    except ValueError:  # a worker's output has come into its line
        return None
    return found


def spoken(seconds: float) -> str:
    """A time in the form of plumb's own line: 42s, 4m30s, 2h05m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m{whole % 60:02}s" if whole < 3600 else f"{whole // 3600}h{whole % 3600 // 60:02}m"


def counts(at: Mapping[str, Any]) -> str:
    """Cases, their judged share, cases a second, findings by severity, what is being shrunk."""
    judged = [f"{100 * at['judged'] // at['cases']}% judged"] if at["cases"] else []
    return ", ".join([f"{at['cases']} cases", *judged, f"{at['a_second']:.0f}/s", f"{at['wrong']} wrong",
                      f"{at['suspect']} suspect", *at["activity"]])  # fmt: skip


class Shown(Protocol):
    """Is told how far the campaign is, about once a second."""

    def at(self, progress: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class Silent:
    """Shows nothing."""

    def at(self, progress: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


class Lines:
    """Prints a line to stderr every ten seconds."""

    def __init__(self) -> None:
        self._next = _EVERY

    def at(self, progress: Mapping[str, Any]) -> None:
        if progress["seconds"] < self._next:
            return
        self._next = progress["seconds"] + _EVERY
        left = f", {spoken(progress['left_seconds'])} left" if "left_seconds" in progress else ""
        of_budget = f" of {progress['budget']}" if "budget" in progress else ""
        text = f"{progress['phase']}: {spoken(progress['seconds'])}{of_budget}{left}: {counts(progress)}"
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class Bar:
    """A bar of tqdm: time or cases that are left, and counts()."""

    def __init__(self) -> None:
        self._bar: Any = None

    def at(self, progress: Mapping[str, Any]) -> None:
        of_cases = "budget_cases" in progress
        total = progress.get("budget_cases" if of_cases else "budget_seconds")
        if total is None:
            return
        if self._bar is None:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, unit=" cases" if of_cases else " s", desc="plumb", leave=False)
        self._bar.set_postfix_str(counts(progress), refresh=False)
        self._bar.update(min(int(progress["cases" if of_cases else "seconds"]), total) - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def shown(progress: bool | None) -> Shown:
    """None: a bar where a person looks on and tqdm is installed. True: a bar, or lines where there is no tqdm."""
    has_bar = importlib.util.find_spec("tqdm") is not None
    if progress is None:
        looks_on = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
        return Bar() if looks_on and has_bar else Silent()
    return (Bar() if has_bar else Lines()) if progress else Silent()
