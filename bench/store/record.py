# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store record NAME -- PLUMB_ARGUMENT…

Runs `plumb PLUMB_ARGUMENT… --json` from the release build, brought up to date first, and stores what it says as bench/results/NAME.json,
with the date, the machine (`plumb doctor`) and the keys of the rooms that it is about (bench/store/trees.py). For
instance

  python3 bench/store record selftest -- selftest --seed 1
  python3 bench/store record host-100000 -- fuzz --target host --budget 100000cases --seed 1 --out build/host-100000

Commit first: a tree that is not clean is recorded as such. What did not come to its end (interrupted, a fault of
the harness, a target that does not load, wrong usage) is not stored, and whatever had the name stays.

Exit status: that of plumb (0 clean, 1 findings and 6 suspect are stored); 2 usage; 3 what plumb said last is no JSON object.
"""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from report.command_line import Refused, refusing

from store import builds, plumb, stored, trees

ROOT = trees.ROOT
COMPLETE = (0, 1, 6)  # plumb's statuses of what came to its end: clean, findings, suspect
INTERRUPTED = 5  # plumb's status: what it says is of what ran


@contextlib.contextmanager
def interrupted_with_plumb() -> Iterator[None]:
    """While plumb runs SIGINT ends it alone.

    A terminal and `timeout` send SIGINT to the whole process group, so plumb has it already; this process waits until
    plumb has saved its state and said so by its status. The handler is a function, not SIG_IGN: a child inherits
    SIG_IGN. It passes nothing on, because plumb ends without saving at the second signal.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def said_by(program: Path, words: list[str], folder: Path | None, **environment: str) -> tuple[int, str]:
    """(status, stdout) of plumb."""
    done = subprocess.run([program, *words, "--json"], stdout=subprocess.PIPE, cwd=folder, check=False,
                          env=os.environ | environment)
    # As a shell has it: 128 and the number of the signal that ended it.
    status = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return status, done.stdout.decode(errors="replace")


def run(program: Path, words: list[str], folder: Path | None) -> tuple[int, str]:
    """(status, stdout) of plumb, interrupted with this process."""
    with interrupted_with_plumb():
        return said_by(program, words, folder)


def record(name: str, words: list[str], folder: Path | None = None) -> int:
    """Runs plumb in `folder` and stores its result; the exit status. Refused where nothing is stored."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
        raise Refused(f"NAME '{name}': letters, digits, '.', '_' and '-' alone")
    program = builds.release(ROOT, "plumb")
    # The keys of the tree as it is now: a campaign may take hours, and its program is in memory.
    about = trees.committed_keys(ROOT)
    with refusing("nothing stored", 3):
        machine = plumb.machine(program)
        status, said = run(program, words, folder)
        if status not in COMPLETE:
            raise Refused(f"status {status}, nothing stored", status)
        result = stored.last_object(said)
    command = shlex.join(["plumb", *(word.removeprefix(f"{ROOT}/") for word in words)])
    stored.write(ROOT / f"bench/results/{name}.json", command, about, machine, result=stored.without_folders(result))
    print(f"bench/results/{name}.json: status {status}", flush=True)
    return status


def main(words: list[str]) -> int:
    if len(words) < 3 or words[1] != "--":
        print(__doc__.strip(), file=sys.stderr)
        return 2
    return record(words[0], words[2:])
