# SPDX-License-Identifier: Apache-2.0
"""Writes tables as Markdown."""

from collections.abc import Iterable


def line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table(heads: Iterable[str], sides: str, rows: Iterable[Iterable[str]]) -> str:
    """Returns a table. `sides` has a letter for each column: l, its cells stand to the left, or r, to the right."""
    rule = "|".join("---:" if side == "r" else "---" for side in sides)
    return "\n".join([line(heads).replace("|  |", "| |"), f"|{rule}|", *map(line, rows)])
