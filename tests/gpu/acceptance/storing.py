# SPDX-License-Identifier: Apache-2.0
"""Keeps the summary of an acceptance among the stored results."""

import json
from pathlib import Path

from store import stored

from acceptance.staging import say

NEEDED = ("device", "driver", "date", "trees", "verdict", "stages")


def store(root: Path, path: Path) -> int:
    """Stores summary.json as bench/results/gpu-accept.json; the exit status."""
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
    stored.put(kept, stored.without_folders(summary))
    say(f"bench/results/{kept.name}: {summary['verdict']}")
    return 0
