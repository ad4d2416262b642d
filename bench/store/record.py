# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store record NAME -- PLUMB_ARGUMENT…

Runs `plumb PLUMB_ARGUMENT… --json` from the release build, brought up to date first, and stores what it says as bench/results/NAME.json,
with the date, the machine (`plumb doctor`) and the keys of the rooms that it is about (bench/store/trees.py). For
instance

  python3 bench/store record selftest -- selftest --seed 1
  python3 bench/store record host-100000 -- fuzz --target host --budget 100000cases --seed 1 --out build/host-100000

Commit first: a tree that is not clean is recorded as such. What did not come to its end (interrupted, a fault of
the harness, a target that does not load, wrong usage) is not stored, and whatever had the name stays.

Exit status: that of plumb (0 clean and 1 findings are stored); 2 usage; 3 what plumb said last is no JSON object.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from store import builds, stored, trees

ROOT = trees.ROOT


def complain(text: str) -> None:
    """Says on stderr why a result is not stored."""
    print(f"bench/store record: {text}", file=sys.stderr)


def run(plumb: Path, words: list[str], folder: Path | None) -> tuple[int, str]:
    """(status, stdout) of plumb, interrupted with this process.

    A terminal and `timeout` send SIGINT to the whole process group, so plumb has it already; this process waits until
    plumb has saved its state and said so by its status. The handler is a function, not SIG_IGN: a child inherits
    SIG_IGN. It passes nothing on, because plumb ends without saving at the second signal.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        done = subprocess.Popen([plumb, *words, "--json"], stdout=subprocess.PIPE, cwd=folder)
        said = done.communicate()[0].decode(errors="replace")
    finally:
        signal.signal(signal.SIGINT, before)
    # As a shell has it: 128 and the number of the signal that ended it.
    return (done.returncode if done.returncode >= 0 else 128 - done.returncode), said


def result_in(which: str, text: str) -> dict[str, Any]:
    """The object that plumb said last; ValueError in words where there is none."""
    try:
        return stored.last_object(text)
    except ValueError as fault:
        last = (text.splitlines() or [""])[-1][:200]
        raise ValueError(f"plumb's {which} ends with {last!r}, no result: {fault}") from None


def names_alone(value: Any) -> Any:
    """The same with every "out" cut to its last name: where a campaign's folder lies is one machine's business."""
    if isinstance(value, list):
        return [names_alone(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {key: its.rpartition("/")[2] if key == "out" and isinstance(its, str) else names_alone(its)
            for key, its in value.items()}


def record(name: str, words: list[str], folder: Path | None = None) -> int:
    """Runs plumb in `folder` and stores its result; the exit status."""
    plumb = ROOT / "build/release/fuzz/plumb"
    if not os.access(plumb, os.X_OK):
        complain(f"no {plumb}; tests/run or fuzz/run builds it")
        return 2
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
        complain(f"NAME '{name}': letters, digits, '.', '_' and '-' alone")
        return 2
    build = ROOT / "build/release"
    why = builds.why_not_built(build, ROOT, "plumb") if builds.is_configured(build) else None
    if why:
        complain(why)
        return 2
    # The keys of the tree as it is now: a campaign may take hours, and its program is in memory.
    about = trees.committed_keys(ROOT)
    doctor = subprocess.run([plumb, "doctor", "--json"], stdout=subprocess.PIPE, text=True, check=False).stdout
    try:
        machine = result_in("doctor", doctor)["machine"]
        status, said = run(plumb, words, folder)
        if status > 1:
            complain(f"status {status}, nothing stored")
            return status
        result = result_in("result", said)
    except (ValueError, KeyError) as fault:
        complain(f"nothing stored: {fault}")
        return 3
    command = shlex.join(["plumb", *(word.removeprefix(f"{ROOT}/") for word in words)])
    stored.write(ROOT / f"bench/results/{name}.json", command, about, machine, result=names_alone(result))
    print(f"bench/results/{name}.json: status {status}", flush=True)
    return status


def main(words: list[str]) -> int:
    if words[:1] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    if len(words) < 3 or words[1] != "--":
        print(__doc__.strip(), file=sys.stderr)
        return 2
    return record(words[0], words[2:])
