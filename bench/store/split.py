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

import argparse
import os
import tempfile
from pathlib import Path

from report.command_line import load
from report.speed_page import split_table

from store import trees
from store.record import record


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store split")
    parser.add_argument("--seconds", type=int, default=60)
    seconds = parser.parse_args(words).seconds
    if seconds < 1:
        parser.error(f"--seconds {seconds}: at least 1 is needed")
    os.sched_setaffinity(0, {0, 1})
    names = ["host", "host-hopper"]
    # plumb runs in a scratch folder, so that the stored command names no folder of this machine.
    with tempfile.TemporaryDirectory() as scratch:
        for target in names:
            status = record(f"split-{target}", ["fuzz", "--target", target, "--budget", f"{seconds}s", "--jobs", "2",
                                                "--seed", "1", "--out", target], Path(scratch))
            if status:
                return status
    print(split_table([load(trees.ROOT / f"bench/results/split-{target}.json") for target in names]))
    return 0
