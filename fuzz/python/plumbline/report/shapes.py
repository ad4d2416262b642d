# SPDX-License-Identifier: Apache-2.0
"""The shape of a case, as far as its line in a journal tells it, and the classes that a palette has of N, V and H
(fuzz/campaign/search/palette.h)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

Extents = tuple[int | None, int | None, int | None]  # N, V, H; None is not told

# By extent: the first class that holds is its own.
_CLASSES = {
    "rows N": {
        "≤1": lambda n: n <= 1,
        "2-7": lambda n: n < 8,
        "0 mod 8": lambda n: n <= 128 and n % 8 == 0,
        "other": lambda n: n <= 128,
        ">128": lambda n: True,
    },
    "vocabulary V": {
        "<16": lambda v: v < 16,
        "15 mod 16": lambda v: v < 9_500 and v % 16 == 15,
        "0 mod 16": lambda v: v < 9_500 and v % 16 == 0,
        "1 mod 16": lambda v: v < 9_500 and v % 16 == 1,
        "other": lambda v: v < 9_500,
        "≥9500": lambda v: v < 131_072,
        "≥131072": lambda v: True,
    },
    "hidden size H": {"≤8": lambda h: h <= 8, "9-511": lambda h: h < 512, "≥512": lambda h: True},
}
_NOT_TOLD = ("an extent", "not told")
# The columns of a table: a group's name, and those of its columns.
GROUPS = [*((group, list(classes)) for group, classes in _CLASSES.items()), (_NOT_TOLD[0], [_NOT_TOLD[1]])]


def joined(target: str) -> int:
    """How many targets one name has, as "cuda+cuda-portable" has two: their elements are counted together."""
    return 1 if target.startswith(("plugin:", "python:")) else target.count("+") + 1


def told(line: Mapping, targets: int = 1) -> Extents:
    """N, V and H by the elements counted of each output: N of those by row, N * H of grad_hidden, V * H of grad_weight.

    Suspect elements are counted for all outputs together, and a target that dies beside another has none."""
    if "s" in line or (targets > 1 and "f" in line):
        return None, None, None
    elements = {letter: _elements(numbers) // targets for letter, numbers in line.get("o", {}).items()}
    rows = next((elements[letter] for letter in "pes" if letter in elements), None)
    hidden = elements["h"] // rows if rows and "h" in elements else None
    return rows, elements["w"] // hidden if hidden and "w" in elements else None, hidden


def _elements(numbers: Sequence[float]) -> int:
    """The count of [pass], [pass, tightness], or [pass, fail, vacuous, unspecified(, tightness)]."""
    return int(sum(numbers[:4]) if len(numbers) > 3 else numbers[0])


def places(extents: Extents) -> Iterator[tuple[str, str]]:
    """The columns in which a case counts, each with its group before it."""
    for extent, (group, classes) in zip(extents, _CLASSES.items(), strict=True):
        if extent is not None:
            yield group, next(name for name, holds in classes.items() if holds(extent))
    if None in extents:
        yield _NOT_TOLD
