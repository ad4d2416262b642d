# SPDX-License-Identifier: Apache-2.0
"""Keeps the summary of an acceptance among the stored results."""

import json
from pathlib import Path
from typing import Any

from store import stored

from acceptance.stages import sum_of
from acceptance.staging import say

NEEDED = ("device", "driver", "date", "trees", "verdict", "stages")
SAME = ("device", "driver", "trees")  # of two summaries that are of one acceptance, in parts
ENDED = ("passed", "failed")


def joined(summary: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The summary with the stages that came to their end in `before`, the stored one, where they did not in this one: a
    device that is there for minutes runs an acceptance in parts. Another tree's, device's or driver's count for nothing."""
    if any(summary[key] != before.get(key) for key in SAME):
        return summary
    earlier = {name: its for name, its in before["stages"].items() if its["outcome"] in ENDED}
    stages = {name: its if its["outcome"] in ENDED else earlier.get(name, its) for name, its in summary["stages"].items()}
    return summary | sum_of(stages)


def store(root: Path, path: Path) -> int:
    """Stores summary.json as bench/results/gpu-accept.json, joined with what that holds; the exit status."""
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
        missing = [key for key in NEEDED if key not in summary]
    except (OSError, ValueError) as fault:
        say(f"accept: {path}: {fault}")
        return 2
    if missing:
        say(f"accept: {path} is no summary: it has no {', '.join(missing)}")
        return 2
    kept = root / "bench/results/gpu-accept.json"
    try:
        summary = joined(summary, json.loads(kept.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # there is none, or none that can be read: this one takes its place
    stored.put(kept, stored.without_folders(summary))
    say(f"bench/results/{kept.name}: {summary['verdict']}")
    return 0
