# SPDX-License-Identifier: Apache-2.0
"""What a page holds at most. It stays under MOST_BYTES whatever it is made of: the widest of these limits that do are taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

MOST_BYTES = 2_000_000
MOST_CARDS = 40


@dataclasses.dataclass(frozen=True)
class Limits:
    """What is beyond them is left out, and the page says how much."""

    cards: int  # of findings, and of other signs, in each report
    rows: int  # of a table or a list
    text: int  # characters of a text
    reports: int

    def text_of(self, shown: Any) -> Any:
        """What stands on the page for a value: a text no longer than the limit. Markup of the page's own is left as it is."""
        if not isinstance(shown, str) or hasattr(shown, "__html__") or len(shown) <= self.text:
            return shown
        return f"{shown[: self.text]} … and {len(shown) - self.text} more characters"


def widest_first(reports: int) -> Iterator[Limits]:
    """Limits of a page of so many reports. The last allow less than 2 000 texts, and a figure has some 25 KB."""
    for cards in (MOST_CARDS, 20, 10, 5):
        yield Limits(cards, 500, 20_000, reports)
    while reports > 1:
        yield Limits(1, 100, 4_000, reports)
        reports = reports * 3 // 4
    yield Limits(1, 100, 4_000, 1)
    yield Limits(1, 20, 100, 1)
