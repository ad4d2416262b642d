# SPDX-License-Identifier: Apache-2.0
"""Fills bench/OLD-BUGS.md: known defects of released kernels, hunted blind at the releases that have them."""

import statistics
from typing import Any

from . import markdown

NOT_FOUND = float("inf")


def hunted(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The records whose release could be installed and loaded."""
    return [each for each in data["defects"] if "unavailable" not in each["release_has"]]


def seconds(record: dict[str, Any]) -> float:
    """From the start of the process to the first finding of the defect."""
    return record["first"]["seconds"] if record["first"] else NOT_FOUND


def script(record: dict[str, Any]) -> str:
    """What the script that needs no plumb says: with the defect, and mended."""
    shown = (record["first"] or {}).get("script") or {}
    said = {1: "wrong", 0: "right", None: "no end"}
    return ", ".join(said.get(each["status"], f"status {each['status']}") for each in shown.values()) or "–"


def control(record: dict[str, Any]) -> str:
    """What the hunt of the mended release says."""
    if record["mended_shows"] is None:
        return "not there"
    return "shows the same words" if record["mended_shows"] else "clean of it"


def table(data: dict[str, Any]) -> str:
    rows = [[f"{record['package']} {record['has']}", record["public"], record["wrong"].replace("|", "\\|"),
             f"{seconds(record):.0f}" if record["first"] else "not found", script(record), f"{record['mends']}: {control(record)}"]
            for record in hunted(data)]
    return markdown.table(["release", "in the open", "what is wrong", "seconds to its finding", "its script, with the defect and mended",
                           "the release that mends it"], "lllrll", rows)


def values(data: dict[str, Any]) -> dict[str, str]:
    records = hunted(data)
    times = sorted(map(seconds, records))
    found = [each for each in times if each != NOT_FOUND]
    rank = -(-9 * len(times) // 10) - 1  # the 90th percentile by the nearest rank
    projects = {record["package"] for record in records if record["first"]}
    return {
        "count": f"{len(found)} of {len(times)}",
        "projects": str(len(projects)),
        "median": f"{statistics.median(times):.0f}",
        "percentile": f"{times[rank]:.0f}" if times[rank] != NOT_FOUND else "not found",
        "table": table(data),
        "command": f"    {data['command']}",
    }
