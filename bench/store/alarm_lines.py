# SPDX-License-Identifier: Apache-2.0
"""The lines that tests/fuzz/false_alarms writes: read, and taken over from other sources where enough are repeated."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from report.command_line import Refused, refusing

Line = dict[str, Any]
OF_THE_RUN = ("about", "seconds", "processor", "versions")  # what two lines of the same problems may have of their own
REPEATED = 10  # lines of each set that sources have in common, before one takes over the others'
SAME = 0.01  # of a ratio, which is printed in three digits


def set_of(line: Line) -> str:
    """What lines that count together have in common."""
    return json.dumps([line[key] for key in ("set", "vocab", "places", "only")])


def read(paths: Iterable[Path], about: str) -> list[Line]:
    """Lines of files, each once; Refused where one is of other sources."""
    lines: dict[tuple[str, int], Line] = {}
    for path in paths:
        with refusing(f"{path}"):
            for text in path.read_text(encoding="utf-8").splitlines():
                line = json.loads(text)
                if line["about"] != about:
                    raise Refused(f"{path}: lines of other files: {line['about']}; now {about}")
                lines[set_of(line), line["seed"]] = line
    if not lines:
        raise Refused("there are no lines")
    refuse_overlaps(list(lines.values()))
    return list(lines.values())


def refuse_overlaps(lines: list[Line]) -> None:
    """Refused where a problem is in two lines."""
    ends: dict[str, int] = {}
    for line in sorted(lines, key=lambda each: each["seed"]):
        if line["seed"] < ends.get(set_of(line), 0):
            raise Refused(f"seed {line['seed']} of {set_of(line)} is in two lines of different lengths")
        ends[set_of(line)] = line["seed"] + line["problems"]


def apart(one: object, other: object) -> float:
    """The largest relative difference of two ratios at the same place; infinite where anything else differs."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((apart(one[key], other[key]) for key in one), default=0)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(map(apart, one, other), default=0)
    if isinstance(one, float) and isinstance(other, float) and one != other:
        return abs(one - other) / max(abs(one), abs(other))
    return 0 if one == other else float("inf")


def taken(paths: Iterable[Path], lines: list[Line]) -> tuple[list[Line], list[Line]]:
    """Lines of other sources that `lines` does not have, and a record of each set of them. A file's lines are of one source.

    Refused where fewer than REPEATED lines of a set are in both, or where one of these has other verdicts, or a ratio
    that is another by more than SAME.
    """
    files: dict[str, list[Path]] = {}
    for path in paths:
        with refusing(f"{path}"), path.open(encoding="utf-8") as file:
            files.setdefault(json.loads(file.readline())["about"], []).append(path)
    left: list[Line] = []
    records: list[Line] = []
    for about, of_source in sorted(files.items()):
        known = {(set_of(line), line["seed"]) for line in lines + left}
        more, record = _taken_of(read(of_source, about), lines, known)
        left += more
        records += record
    refuse_overlaps(lines + left)
    return left, records


def _taken_of(others: list[Line], lines: list[Line], known: set[tuple[str, int]]) -> tuple[list[Line], list[Line]]:
    """taken() of the lines of one source, without those that are known."""
    by_seed = {(set_of(line), line["seed"]): line for line in others}
    both: dict[str, list[float]] = {name: [] for name, _ in by_seed}
    for line in lines:
        other = by_seed.get((set_of(line), line["seed"]))
        if other is None:
            continue
        here, there = ({key: value for key, value in each.items() if key not in OF_THE_RUN} for each in (line, other))
        difference = apart(here, there)
        if difference > SAME:
            raise Refused(f"seed {line['seed']} of {set_of(line)} is another line now than of {other['about']}, by {difference:.2g}: "
                          "nothing is taken over")
        both[set_of(line)].append(difference)
    left = [line for at, line in by_seed.items() if at not in known]
    for name in {set_of(line) for line in left}:
        if len(both[name]) < REPEATED:
            raise Refused(f"{name}: {len(both[name])} lines of {others[0]['about']} are repeated, of {REPEATED} at least: nothing is "
                          "taken over")
    return left, [{"set": json.loads(name)[0], "vocab": json.loads(name)[1], "about": line["about"],
                   "lines": sum(set_of(each) == name for each in left), "repeated": len(both[name]),
                   "largest_difference": float(f"{max(both[name]):.2g}")}
                  for name, line in sorted({set_of(each): each for each in left}.items())]
