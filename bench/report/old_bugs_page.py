# SPDX-License-Identifier: Apache-2.0
"""Fills bench/OLD-BUGS.md: known defects of released kernels, hunted blind at the releases that have them."""

import math
import statistics
from typing import Any

from . import markdown
from .quantile import quantile


def hunted(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The records whose release could be installed and loaded."""
    return [each for each in data["defects"] if "unavailable" not in each["release_has"]]


def seconds(record: dict[str, Any]) -> float | None:
    """From the start of the process to the first finding of the defect; None: it was not found."""
    return record["first"]["seconds"] if record["first"] else None


def shown(value: float | None) -> str:
    return "not found" if value is None or math.isinf(value) else f"{value:.0f}"


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
             shown(seconds(record)), script(record), f"{record['mends']}: {control(record)}"]
            for record in hunted(data)]
    return markdown.table(["release", "in the open", "what is wrong", "seconds to its finding", "its script, with the defect and mended",
                           "the release that mends it"], "lllrll", rows)


def values(data: dict[str, Any]) -> dict[str, str]:
    records = hunted(data)
    times = list(map(seconds, records))
    found = [each for each in times if each is not None]
    projects = {record["package"] for record in records if record["first"]}
    return {
        "count": f"{len(found)} of {len(times)}",
        "projects": str(len(projects)),
        "median": shown(statistics.median(math.inf if each is None else each for each in times)),
        "percentile": shown(quantile(times, 0.9)),
        "table": table(data),
        "command": f"    {data['command']}",
    }
