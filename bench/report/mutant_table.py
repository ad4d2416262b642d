# SPDX-License-Identifier: Apache-2.0
"""Reads the table of mutants, fuzz/builtin/mutants/table.txt, which says how it is written."""

from pathlib import Path
from typing import NamedTuple

from .markdown import table
from .stored import ROOT

TABLE = ROOT / "fuzz/builtin/mutants/table.txt"


class Mutant(NamedTuple):
    name: str
    path: str  # "host", "cuda-portable", ...
    hook: str
    what: str


def read(path: Path = TABLE) -> list[Mutant]:
    """Returns the rows in the order of the table. Raises ValueError where a row is not complete."""
    rows = []
    lines = path.read_text(encoding="utf-8").splitlines()[1:-1]  # between the signs of a C++ string
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if not line or line[0] in " #":
            continue
        cells = line.split(" | ")
        if len(cells) != 4 or not below.startswith("    "):
            raise ValueError(f"{path.name}: no row: {line}")
        rows.append(Mutant(*cells[:3], below.strip()))
    return rows


def listed(rows: list[Mutant]) -> str:
    """Returns what each stands for, and where it is, as Markdown."""
    return table(["planted defect", "hook", "what is wrong"], "lll", ([f"`{row.name}`", row.hook, row.what] for row in rows))
