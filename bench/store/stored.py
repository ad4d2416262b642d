# SPDX-License-Identifier: Apache-2.0
"""Files of stored results: their layout, and how one is written, named and kept.

A result is JSON with one record a line: the entries of a list of objects have a line each, and so has each key of
whatever such a list lies in. Everything else is on one line.
"""

import datetime
import json
import re
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, refusing


def has_records(value: Any) -> bool:
    """Whether a list of objects lies in `value`, at any depth."""
    if isinstance(value, list):
        return any(isinstance(entry, dict) or has_records(entry) for entry in value)
    return isinstance(value, dict) and any(map(has_records, value.values()))


def text_of(value: Any, depth: int = 0) -> str:
    """JSON of a result, a record a line. ValueError for a number that JSON does not have."""
    if depth and not has_records(value):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        lines = [f"{pad}{json.dumps(key, ensure_ascii=False)}: {text_of(its, depth + 1)}" for key, its in value.items()]
        brackets = "{}"
    else:
        lines = [pad + text_of(its, depth + 1) for its in value]
        brackets = "[]"
    inner = ",\n".join(lines)
    return f"{brackets[0]}\n{inner}\n{' ' * depth}{brackets[1]}" + ("" if depth else "\n")


def without_folders(value: Any) -> Any:
    """The same with every absolute path cut to its last name: where a folder lies on a machine is nobody's business."""
    if isinstance(value, dict):
        return {key: without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_folders(inner) for inner in value]
    return re.sub(r"(?<![\w.])(?:/[\w.+-]+)+/(?=[\w.+-])", "", value) if isinstance(value, str) else value


def put(path: Path, value: Any) -> None:
    """Writes a result, whole or not at all."""
    text = text_of(value)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def today() -> str:
    """The date, in UTC."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"


def slug_of(device: str) -> str:
    """A device's name as it stands in file names."""
    return re.sub("[^a-z0-9]+", "-", device.lower().removeprefix("nvidia ")).strip("-")


def keep(result: dict[str, Any], folder: Path, program: str, device: str, about: dict[str, str]) -> Path:
    """Stores the result of a program on a device under the key of the kernel that it is about.

    `about` holds the commit, if known, and the key of the kernel. The result takes the place of those of the same
    program and device about another kernel; git remembers them. ValueError where something was not committed.
    """
    for name, stood in about.items():
        if not re.fullmatch("(v2-)?[0-9a-f]{12,}", stood):
            raise ValueError(f"of no clean, committed tree: {name} is '{stood}'")
    kept = folder / f"{program}-{slug_of(device)}-{about['kernel']}.json"
    put(kept, without_folders(result))
    for path in folder.glob(f"{program}-{slug_of(device)}-*.json"):
        if path != kept:
            path.unlink()
    return kept


def last_object(text: str) -> dict[str, Any]:
    """The JSON object on the last line; ValueError where there is none, or an empty one."""
    found = json.loads((text.splitlines() or [""])[-1])
    if not isinstance(found, dict) or not found:
        raise ValueError("no object, or an empty one")
    return found


def write(path: Path, command: str, about: dict[str, str], machine: dict[str, str], **found: Any) -> None:
    """Stores what a command found: the command, the date, the keys of the rooms it is about, and the machine."""
    put(path, {"command": command, "date": today(), "trees": about, "machine": machine, **found})


def begin(out: Path, about: dict[str, str]) -> None:
    """Makes the folder of a resumable command; Refused where it was begun with other files."""
    begun_with = out / "trees.json"
    if begun_with.exists():
        with refusing(f"{begun_with}"):
            if load(begun_with) != about:
                raise Refused(f"{out} was begun with other files; finish it there or remove it")
    out.mkdir(parents=True, exist_ok=True)
    begun_with.write_text(json.dumps(about) + "\n", encoding="utf-8")
