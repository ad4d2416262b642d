# SPDX-License-Identifier: Apache-2.0
"""Counts how the mutants ended, and makes the stored result of it."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from report.command_line import Refused

from measure.examine import DUPLICATE, KILLED, NO_BUILD, SAME_CODE, SURVIVED, is_same

SAME_BITS, WITHIN = "same bits", "within the contract"
TARGET = 0.97  # of the mutants that are not shown to be equivalent


def is_mutant(record: dict[str, Any]) -> bool:
    """Whether it was built and is not the original, nor another mutant."""
    return record["outcome"] in (KILLED, SURVIVED)


def kind(record: dict[str, Any], reviewed: dict[str, dict[str, str]]) -> str:
    """killed, same bits, within the contract or survived."""
    if record["outcome"] != SURVIVED:
        return record["outcome"]
    if record["name"] in reviewed[SURVIVED]:  # an input is known that tells it apart, whatever the recipes say
        return SURVIVED
    compared = record.get("comparisons", {})
    if compared and all(map(is_same, compared.values())):
        return SAME_BITS
    return WITHIN if record["name"] in reviewed[WITHIN] else SURVIVED


def read_reviewed(path: Path) -> dict[str, dict[str, str]]:
    """Survivors that were looked at, by what they are: name and reason. Refused where the file has another layout."""
    reviewed = json.loads(path.read_text(encoding="utf-8"))
    if set(reviewed) != {WITHIN, SURVIVED} or set(reviewed[WITHIN]) & set(reviewed[SURVIVED]):
        raise Refused(f"{path}: not '{WITHIN}' and '{SURVIVED}', each with names of its own")
    if empty := [name for its in reviewed.values() for name, reason in its.items() if not reason.strip()]:
        raise Refused(f"{path}: no reason for {', '.join(empty)}")
    return reviewed


def count(records: Iterable[dict[str, Any]], reviewed: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Numbers: drawn, what fell out, and how the mutants ended."""
    records = list(records)
    outcomes = Counter(record["outcome"] for record in records)
    kinds = Counter(kind(record, reviewed) for record in records if is_mutant(record))
    counted = kinds[KILLED] + kinds[SURVIVED]
    return {"drawn": len(records), "built": len(records) - outcomes[NO_BUILD], "same object code": outcomes[SAME_CODE],
            "object code of another": outcomes[DUPLICATE], "mutants": outcomes[KILLED] + outcomes[SURVIVED],
            "killed": kinds[KILLED], "same bits": kinds[SAME_BITS], "within the contract": kinds[WITHIN],
            "survived": kinds[SURVIVED], "killed of those not equivalent": kinds[KILLED] / counted if counted else 0.0}


def row(record: dict[str, Any], reviewed: dict[str, dict[str, str]]) -> dict[str, Any]:
    """A mutant's line in the stored result."""
    its = kind(record, reviewed)
    found = {"mutant": record["name"], "file": record["file"], "line": record["line"], "was": record["was"],
             "now": record["now"], "outcome": its}
    target, last = list(record["hunts"].items())[-1]
    if its == KILLED:
        known = {key: last[key] for key in ("check", "regime", "cases", "seconds") if key in last}
        return found | {"by": target} | known
    found["hunts"] = {name: {key: hunt[key] for key in ("verdict", "cases", "error") if key in hunt}
                      for name, hunt in record["hunts"].items()}
    if its != SAME_BITS:
        found["different"] = {name: f"{each['different']} of {each['cases']}"
                              for name, each in record.get("comparisons", {}).items()}
        found["reason"] = reviewed[its].get(record["name"], "")
    return found


def by_file(records: Iterable[dict[str, Any]], reviewed: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    """How the mutants of each file ended."""
    files: dict[str, Counter[str]] = {}
    for record in filter(is_mutant, records):
        files.setdefault(record["file"], Counter())[kind(record, reviewed)] += 1
    return [{"file": file, "mutants": sum(kinds.values())} | {each: kinds[each] for each in
                                                             (KILLED, SAME_BITS, WITHIN, SURVIVED)}
            for file, kinds in sorted(files.items())]


def why_not_stored(records: list[dict[str, Any]], reviewed: dict[str, dict[str, str]], wanted: int,
                   controls: list[dict[str, Any]], keys: dict[str, str]) -> str | None:
    """What is missing of a result, in words."""
    numbers = count(records, reviewed)
    if numbers["mutants"] < wanted:
        return f"{numbers['mutants']} of {wanted} mutants were examined"
    if dirty := [room for room, its in keys.items() if its.endswith("-modified")]:
        return f"not committed as it is: {', '.join(dirty)}"
    if bad := [control for control in controls if control["verdict"] != "clean"]:
        return f"the original is not clean: {bad[0]}"
    if left := [record["name"] for record in records if record["outcome"] == SURVIVED and "comparisons" not in record]:
        return f"not compared with the original: {', '.join(left)}"
    kinds = {record["name"]: kind(record, reviewed) for record in records}
    if open_ones := [name for name, its in kinds.items() if its == SURVIVED and name not in reviewed[SURVIVED]]:
        return f"survivors without a reason in reviewed.json: {', '.join(open_ones)}"
    listed = {name: its for its in (WITHIN, SURVIVED) for name in reviewed[its]}
    if wrong := [name for name, its in listed.items() if kinds.get(name) != its]:
        return f"in reviewed.json, and not what it says: {', '.join(wrong)}"
    return None
