# SPDX-License-Identifier: Apache-2.0
"""How far a campaign is, while it runs: a bar of tqdm, in a terminal or a notebook, or plumb's own lines."""

from __future__ import annotations

import importlib.util
import re
import sys
from typing import Any, Protocol

# plumb's status line (fuzz/cli/report_text.cc): "search  30s of 5m  762 cases  25/s  7 findings  …"
_LINE = re.compile(r"(?P<phase>[a-z ]+?)  (?P<seconds>\d+)s(?: of (?P<budget>\S+))?  (?P<cases>\d+) cases  (?P<rate>\d+/s)  "
                   r"(?P<findings>\d+) findings")  # fmt: skip
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Shown(Protocol):
    """Is told each line that plumb prints for a person."""

    def line(self, text: str) -> None: ...

    def close(self) -> None: ...


class Silent:
    """Shows nothing."""

    def line(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class Lines:
    """Passes status lines on to stderr."""

    def line(self, text: str) -> None:
        if _LINE.match(text):
            print(text.rstrip(), file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


def total_of(budget: str) -> tuple[float, bool]:
    """A budget as plumb prints it: its number, and whether it counts cases and not seconds."""
    if budget.endswith("cases"):
        return float(budget.removesuffix("cases")), True
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhd])", budget)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts), False


class Bar:
    """A bar of tqdm: time or cases that are left, cases a second, findings so far."""

    def __init__(self) -> None:
        self._bar: Any = None

    def line(self, text: str) -> None:
        found = _LINE.match(text)
        if not found or not found["budget"]:
            return
        total, of_cases = total_of(found["budget"])
        if self._bar is None:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, unit=" cases" if of_cases else " s", desc="plumb", leave=False)
        reached = float(found["cases"] if of_cases else found["seconds"])
        self._bar.set_postfix_str(f"{found['cases']} cases, {found['rate']}, {found['findings']} findings", refresh=False)
        self._bar.update(min(reached, total) - self._bar.n)

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
