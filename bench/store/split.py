# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store split [--seconds S]

How fast a campaign is over the default mix, and where its time goes: `plumb fuzz` on host, then on host-hopper, S
seconds each (60 unless said otherwise), two jobs on two cores, blind (no corpus), seed 1. Stored as
bench/results/split-host.json and split-host-hopper.json (bench/store record), and printed as a table:

  cases/s   judged cases, all jobs together
  target    the target under test: every run that judging a case takes
  oracle    what is right and by how much it may differ, and the comparison
  harness   the rest: drawing and expanding recipes, memory, worker processes, journal

Run it on an idle machine from the release build. Exit status: 0 done, 1 a finding, 2 usage, else that of plumb.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from store import trees
from store.record import record

WIDTHS = [9, 9, 9, 9, 17]


def line(result: dict[str, Any]) -> str:
    """One row of the table, from a campaign's result."""
    time = result["time"]
    total = time["jobs"] * time["wall"]
    judging = time["target"] + time["oracle"] + time["arbiter"] + time["shrinking"]
    parts = [time["target"], time["oracle"], time["arbiter"], total - judging, time["expansion"]]
    return (f"{result['campaign']['targets'][0]:14}{result['cases'] / time['wall']:9.0f}"
            + "".join(f"{part / total:{width}.1%}" for part, width in zip(parts, WIDTHS)))


def main(words: list[str]) -> int:
    if words in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    seconds = "60"
    if words[:1] == ["--seconds"] and len(words) <= 2:
        seconds = words[1] if len(words) == 2 else ""
        if not re.fullmatch("[1-9][0-9]*", seconds):
            print(f"bench/store split: --seconds '{seconds}': a whole number is needed", file=sys.stderr)
            return 2
    elif words:
        print(f"bench/store split: unknown argument '{words[0]}'\n{__doc__.strip()}", file=sys.stderr)
        return 2
    os.sched_setaffinity(0, {0, 1})
    names = ["host", "host-hopper"]
    # plumb runs in a scratch folder, so that the stored command names no folder of this machine.
    with tempfile.TemporaryDirectory() as scratch:
        for target in names:
            status = record(f"split-{target}", ["fuzz", "--target", target, "--budget", f"{seconds}s", "--jobs", "2",
                                                "--seed", "1", "--out", target], Path(scratch))
            if status:
                return status
    print(f"{'target':14}{'cases/s':>9}{'target':>9}{'oracle':>9}{'arbiter':>9}{'harness':>9}{'of it expanding':>17}")
    for target in names:
        path = trees.ROOT / f"bench/results/split-{target}.json"
        print(line(json.loads(path.read_text(encoding="utf-8"))["result"]))
    return 0
