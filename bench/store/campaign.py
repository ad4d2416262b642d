# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store campaign TARGET CASES [PLUMB_ARGUMENT…]

Runs a campaign of CASES cases on TARGET (seed 1 unless PLUMB_ARGUMENT… says another) from the release build, in
as many pieces as it takes: interrupt it, and call it again to go on. It lives in build/campaigns/TARGET-CASES and
is refused where the files of kernel, oracle or fuzz that count are no longer those that it began with, for its cases
would be of two programs. When it is through, its result is stored as bench/results/TARGET-CASES.json (bench/store
record).

Exit status: that of plumb (5: interrupted, call again); 2 usage or another tree.
"""

import json
import re
import sys

from report.command_line import Refused

from store import trees
from store.record import record

ROOT = trees.ROOT


def main(words: list[str]) -> int:
    if len(words) < 2 or not re.fullmatch("[1-9][0-9]*", words[1]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    target, cases, *more = words
    name = re.sub("[^A-Za-z0-9.-]", "-", target) + f"-{cases}"
    out = ROOT / "build/campaigns" / name
    begun_with = out.with_name(name + ".trees")
    now = json.dumps(trees.keys(ROOT, trees.PLUMB)) + "\n"
    if (out / "journal.jsonl").exists():
        if not begun_with.exists() or begun_with.read_text(encoding="utf-8") != now:
            raise Refused(f"{out} was begun with other trees of kernel, oracle or fuzz; finish it there or remove it")
        if more:
            raise Refused(f"{out} goes on as it began; no further arguments")
        return record(name, ["fuzz", "--resume", str(out)])
    out.parent.mkdir(parents=True, exist_ok=True)
    begun_with.write_text(now, encoding="utf-8")
    if not any(word.startswith("--seed") for word in more):
        more = ["--seed", "1", *more]
    return record(name, ["fuzz", "--target", target, "--budget", f"{cases}cases", *more, "--out", str(out)])
