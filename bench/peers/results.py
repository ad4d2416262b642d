# SPDX-License-Identifier: Apache-2.0
"""Keeps a result of `bench/peers`, and prints one that is kept."""

import argparse
import json
from pathlib import Path

from report.peer_tables import steps, table

# What people write into a result: what is to be known of the run, and which shapes an earlier build was measured at.
WRITTEN = ("conditions", "earlier")


def store(path: Path, folder: Path) -> Path:
    """Returns the name under which a result is now kept; ValueError where it is not worth keeping."""
    from store.stored import keep  # not among what bench/run --stage takes along
    result = json.loads(path.read_text(encoding="utf-8"))
    if not result["shapes"]:
        raise ValueError("no shape in it")
    return keep(result, folder, "peers", result["machine"]["device"], {"kernel": result.get("kernel", "unknown")})


def go_on_from(path: Path, report: dict) -> None:
    """Puts the date, what was written into it and the shapes of a result into `report`, none of them interrupted; nothing
    from an empty file, which --out may have made. ValueError where it was measured otherwise than `report` is."""
    text = path.read_text(encoding="utf-8")
    if not text:
        return
    before = json.loads(text)
    for key in sorted((set(before) | set(report)) - {"date", "shapes", *WRITTEN}):
        if before.get(key) != report.get(key):
            raise ValueError(f"it has {key} {before.get(key)!r} and not {report.get(key)!r}")
    report |= {key: before[key] for key in ("date", *WRITTEN) if key in before}
    report["shapes"] = {shape: results for shape, results in before["shapes"].items()
                        if not any(result.get("reason", "").endswith("interrupted") for result in results)}
    if "earlier" in report:
        report["earlier"] = {shape: run for shape, run in report["earlier"].items() if shape in report["shapes"]}


def read(name: str, path: Path, arguments: argparse.Namespace) -> str:
    """Returns what is printed for --name path."""
    if name == "store":
        return str(store(path, arguments.folder))
    stored = json.loads(path.read_text(encoding="utf-8"))["shapes"]
    if name == "steps":
        return steps(stored)
    absent = [shape for shape in arguments.shapes if shape not in stored]
    if absent:
        raise ValueError(f"it has no {', '.join(absent)}")
    return "\n".join(table(shape, stored[shape]) for shape in arguments.shapes or stored)
