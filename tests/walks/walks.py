#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows three ways through the tree, call by call, and counts their climbs.

A walk is a file beside this one, a tree of stops. A line is a stop, indented by two spaces below the stop
that calls it. A function that is called again and again stands once, where the data come to it first; so
does a callback.

    FILE: FUNCTION                 the caller's body names FUNCTION
    FILE: FUNCTION via NAME        a callback: the caller's body names NAME, and FUNCTION is what it calls
                                   (a virtual function, a function pointer, a lambda written in FUNCTION)
    FILE: FUNCTION process NAME    the caller starts a process, by a command line that holds NAME

Each FUNCTION (Name or Class::Name) must be defined in FILE, and each caller's body must say what its line
claims. A climb is a step into a room above the caller's: one that may include it, directly or through
others, by the tables of rooms in the README.md files of ROOM_PAGES; of the top rooms kernel, oracle, fuzz,
a later one is above an earlier one. A started process is no call, and is counted apart.

  walks.py            prints the counts; fails if a walk names what is not there, or a count is above
                      ceilings.json
  walks.py --update   lowers ceilings.json to today's counts
  walks.py --list     prints every climb

Exit status: 0 fine, 1 not.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ROOM_PAGES = ("fuzz", "kernel", "kernel/cuda", "oracle")
TOP_ROOMS = ("kernel", "oracle", "fuzz")
CEILINGS = "ceilings.json"
HEADER = "| room | may include |"


class Problem(Exception):
    """A walk that does not hold; the message names its line."""


@dataclasses.dataclass(frozen=True)
class Table:
    """The rooms below one folder, each with the rooms that it may include, directly or through others."""

    folder: str
    below: dict[str, frozenset[str]]

    def room_of(self, file: str) -> str | None:
        """Returns the room of a file: its own row's, the nearest folder's, or `.` beside the page."""
        if not file.startswith(self.folder + "/"):
            return None
        name = file[len(self.folder) + 1 :]
        beside = "/" not in name
        while name and name not in self.below:
            name = name.rpartition("/")[0]
        return name or ("." if beside and "." in self.below else None)


def read_table(folder: str, page: str) -> Table:
    """Reads the table of rooms of a README.md; raises Problem if there is none."""
    rows: dict[str, set[str]] = {}
    inside = False
    for line in page.splitlines():
        if line.startswith(HEADER):
            inside = True
        elif inside and not line.startswith("|"):
            break
        elif inside and not line.startswith(("|-", "| -")):
            cells = line.split("|")
            names = [re.findall(r"`([^`]+)`", cell) for cell in cells[1:3]]
            if len(names) != 2 or len(names[0]) != 1:
                raise Problem(f"{folder}/README.md: cannot read the row {line}")
            rows[names[0][0].rstrip("/") or "."] = {name.rstrip("/") or "." for name in names[1]}
    if not rows:
        raise Problem(f"{folder}/README.md: no table of rooms")
    below = {room: set(direct) for room, direct in rows.items()}
    for _ in rows:
        for room in rows:
            below[room] = below[room].union(*(below.get(other, set()) for other in below[room]))
    return Table(folder, {room: frozenset(others) for room, others in below.items()})


def climbs(caller: str, callee: str, tables: list[Table]) -> bool:
    """Says whether `callee`'s file lies in a room above `caller`'s."""
    tops = [TOP_ROOMS.index(file.split("/")[0]) for file in (caller, callee)]
    if tops[0] != tops[1]:
        return tops[1] > tops[0]
    for table in tables:
        own, other = table.room_of(caller), table.room_of(callee)
        if own and other and own != other:
            return own in table.below[other]
    return False


def without_comments(text: str) -> str:
    """Blanks comments; line ends and all other places stay."""

    def blank(found: re.Match[str]) -> str:
        whole = found.group()
        return whole if whole.startswith('"') else re.sub(r"[^\n]", " ", whole)

    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.DOTALL)


def close_of(text: str, start: int) -> int:
    """Returns the place behind the bracket that closes the one at `start`."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    depth = 0
    place = start
    while place < len(text):
        if text[place] == '"':
            place = re.compile(r'"(?:\\.|[^"\\\n])*"?').match(text, place).end()
            continue
        if text[place] in pairs:
            depth += 1
        elif text[place] in pairs.values():
            depth -= 1
            if depth == 0:
                return place + 1
        place += 1
    return len(text)


def body_after(text: str, place: int) -> str | None:
    """Returns the body of the function whose parameters end at `place`; None if it is no definition."""
    between = re.compile(r"\s*(?:(?:const|noexcept|override|final|->\s*[\w:<>&*]+)\s*)*")
    place = between.match(text, place).end()
    start = place
    if text.startswith(":", place) and not text.startswith("::", place):
        while True:  # a constructor's initialisers, which belong to its body
            found = re.compile(r"[:,]\s*[\w:<>]+\s*(?=[({])").match(text, place)
            if not found:
                return None
            place = close_of(text, found.end())
            place = re.compile(r"\s*").match(text, place).end()
            if text.startswith("{", place):
                break
            if not text.startswith(",", place):
                return None
    if not text.startswith("{", place):
        return None
    return text[start : close_of(text, place)]


def classes_around(text: str, place: int, name: str) -> bool:
    """Says whether `place` lies within the body of a class or struct `name`."""
    for found in re.finditer(rf"\b(?:class|struct)\s+{name}\b[^;{{(]*\{{", text):
        if found.start() < place < close_of(text, found.end() - 1):
            return True
    return False


def bodies_of(text: str, function: str) -> list[str]:
    """Returns the bodies of all definitions of a function, or of a constant with braces, in a source."""
    owner, _, name = function.rpartition("::")
    bodies = []
    for found in re.finditer(rf"(?<![\w.>]){re.escape(name)}(?:<[^;{{}}()]*>)?\s*(?=\()", text):
        body = body_after(text, close_of(text, found.end()))
        if body is None:
            continue
        qualified = text[: found.start()].endswith(owner + "::")
        if not owner or qualified or classes_around(text, found.start(), owner):
            bodies.append(body)
    for found in re.finditer(rf"\b{re.escape(name)}\s*=\s*(?=\{{)", text):
        bodies.append(text[found.end() : close_of(text, found.end())])
    return bodies


@dataclasses.dataclass(frozen=True)
class Stop:
    """One line of a walk."""

    line: int
    depth: int
    file: str
    function: str
    how: str  # "", "via" or "process"
    name: str  # what the caller's body must hold


LINE = re.compile(r"(?P<indent> *)(?P<file>[\w./-]+): (?P<function>[\w:~]+)(?: (?P<how>via|process) (?P<name>.+))?")


def read_walk(path: Path) -> list[Stop]:
    """Reads the stops of a walk, in the order of the lines."""
    stops = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = LINE.fullmatch(line)
        if not found or len(found["indent"]) % 2:
            raise Problem(f"{path.name}:{number}: cannot read {line!r}")
        function = found["function"]
        stops.append(
            Stop(
                number,
                len(found["indent"]) // 2,
                found["file"],
                function,
                found["how"] or "",
                found["name"] or function.rpartition("::")[2],
            )
        )
    return stops


@dataclasses.dataclass
class Count:
    """What one walk comes to."""

    stops: int = 0
    rooms: set[str] = dataclasses.field(default_factory=set)
    climbs: list[str] = dataclasses.field(default_factory=list)
    callbacks: int = 0  # of the climbs
    processes: int = 0


def holds(body: str, stop: Stop) -> bool:
    """Says whether a caller's body names what the stop's line claims."""
    if stop.how != "process":  # what a message says is no call
        body = re.sub(r"""'"'|"(?:\\.|[^"\\\n])*\"""", '""', body)
    return re.search(rf"(?<!\w){re.escape(stop.name)}(?!\w)", body) is not None


def room_name(file: str, tables: list[Table]) -> str:
    """Returns the innermost room of a file, for people."""
    rooms = [f"{t.folder}/{t.room_of(file)}" for t in tables if t.room_of(file)]
    return rooms[-1] if rooms else file


def follow(path: Path, root: Path, tables: list[Table]) -> Count:
    """Checks a walk against the sources and counts it; raises Problem at the first line that does not hold."""
    count = Count()
    callers: list[tuple[Stop, list[str]]] = []
    for stop in read_walk(path):
        where = f"{path.name}:{stop.line}: "
        source = root / stop.file
        if not source.is_file():
            raise Problem(f"{where}there is no {stop.file}")
        bodies = bodies_of(without_comments(source.read_text()), stop.function)
        if not bodies:
            raise Problem(f"{where}{stop.file} does not define {stop.function}")
        if stop.depth > len(callers):
            raise Problem(f"{where}indented by more than one step")
        del callers[stop.depth :]
        if callers:
            caller, said = callers[-1]
            if not any(holds(body, stop) for body in said):
                raise Problem(f"{where}{caller.file}: {caller.function} does not name {stop.name}")
            if stop.how == "process":
                count.processes += 1
            elif climbs(caller.file, stop.file, tables):
                rooms = [room_name(file, tables) for file in (caller.file, stop.file)]
                count.climbs.append(f"{rooms[0]} -> {rooms[1]}: {caller.function} -> {stop.function}")
                count.callbacks += stop.how == "via"
        callers.append((stop, bodies))
        count.stops += 1
        count.rooms.add(room_name(stop.file, tables))
    if not count.stops:
        raise Problem(f"{path.name}: no stop")
    return count


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="counts the climbs of three walks through the tree")
    parser.add_argument("--update", action="store_true", help="lower the ceilings to today's counts")
    parser.add_argument("--list", action="store_true", help="print every climb")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree")
    parser.add_argument("--walks", type=Path, default=HERE, help="the folder of the walks and their ceilings")
    arguments = parser.parse_args()
    ceilings = json.loads((arguments.walks / CEILINGS).read_text())
    failed = False
    counts: dict[str, Count] = {}
    try:
        tables = [read_table(page, (arguments.root / page / "README.md").read_text()) for page in ROOM_PAGES]
    except (OSError, Problem) as problem:
        print(f"walks: {problem}", file=sys.stderr)
        return 1
    for path in sorted(arguments.walks.glob("*.walk")):
        try:
            counts[path.stem] = follow(path, arguments.root, tables)
        except Problem as problem:
            print(f"walks: {problem}", file=sys.stderr)
            failed = True
    for name, count in counts.items():
        ceiling = ceilings.get(name, 0)
        print(
            f"{name}: {len(count.climbs)} climbs, {count.callbacks} of them callbacks; {count.stops} stops, "
            f"{len(count.rooms)} rooms, {count.processes} processes started; at most {ceiling} climbs"
        )
        if arguments.list:
            print("".join(f"  {climb}\n" for climb in count.climbs), end="")
        if len(count.climbs) > ceiling:
            print(f"walks: {name} climbs more often than before", file=sys.stderr)
            failed = True
        if arguments.update and len(count.climbs) < ceiling:
            ceilings[name] = len(count.climbs)
    if sorted(counts) != sorted(ceilings):
        print(f"walks: walks {sorted(counts)}, ceilings {sorted(ceilings)}", file=sys.stderr)
        failed = True
    if arguments.update:
        (arguments.walks / CEILINGS).write_text(json.dumps(ceilings, indent=2) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
