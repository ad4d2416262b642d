# SPDX-License-Identifier: Apache-2.0
"""What the commands `training` and `rollout` have in common: pieces measured one by one, each in a process of its own that
writes a file, so that an interrupted command goes on."""

import argparse
import hashlib
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, refusing
from report.deadline import Deadline
from store import builds, python_targets, stored, trees

from training import text
from training.settings import Settings

ROOT = trees.ROOT
SECONDS = 240  # of one piece
LEFT = 5  # exit status: pieces are left
PROGRAMS = ("bench/training/*.py", "kernel/torch/*.py")


def add_options(parser: argparse.ArgumentParser, name: str) -> None:
    python_targets.add_options(parser)
    parser.add_argument("--data", type=Path, default=ROOT / "build/training-data")
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / name)
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--settings", type=Settings.of, default=Settings(), metavar="JSON")
    parser.add_argument("--out", type=Path)


def programs() -> str:
    """The key of the files that measure, which no room has."""
    digest = hashlib.sha256()
    for pattern in PROGRAMS:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.read_bytes())
    return trees.MARK + digest.hexdigest()[:12]


def start(given: argparse.Namespace, **asked: str) -> tuple[dict[str, str], dict[str, Any]]:
    """(the keys of the rooms, what else a result says of where it was measured). Refused where what lies in the folder that
    is kept was begun with other files, on another device, or was asked otherwise."""
    given.deadline = Deadline(given.minutes)
    _, about, machine = python_targets.start(given)
    if not given.as_built:
        builds.release(ROOT, "plumbline_operator")
    data = text.prepared(given.data, given.settings.vocabulary)
    same = {key: machine[key] for key in ("device", "torch", "triton") if key in machine}
    stored.begin(given.keep, about | same | asked | {"programs": programs(), "data": data["tokens_sha256"],
                                                     "settings": given.settings.text()})
    return about, {"machine": machine, "device": machine["device"], "programs": programs(), "data": data,
                   "settings": vars(given.settings)}


def process(module: str, given: argparse.Namespace, name: str, out: Path, *words: str) -> None:
    """Measures one piece into `out`; Refused where it ends otherwise, with the last line that it said."""
    path = os.pathsep.join(filter(None, map(str, (ROOT / "bench", ROOT / "build/staged", ROOT / "build/release/python",
                                                  os.environ.get("PYTHONPATH", "")))))
    ran = [given.python, "-B", "-m", module, name, given.settings.text(), str(given.data), str(out), *words]
    try:
        done = subprocess.run(ran, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", timeout=SECONDS,
                              check=False, env=os.environ | {"PYTHONPATH": path})
    except subprocess.TimeoutExpired:
        raise Refused(f"{name}: no end in {SECONDS} s", 3) from None
    if done.returncode:
        raise Refused(f"{name}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}", 3)


def measured(names: Iterable[str], keep: Path, deadline: Deadline,
             measure: Callable[[str, Path], None]) -> dict[str, dict[str, Any]] | None:
    """The pieces by name; None where some are left, since there is no time for one more."""
    found, left = {}, []
    for name in names:
        path = keep / f"{name}.json"
        if not path.exists():
            if left or not deadline.has_time():
                left.append(name)
                continue
            part = keep / f"{name}.part"
            with deadline.piece():
                measure(name, part)
                part.replace(path)
            print(f"{name}: {deadline.longest:.0f} s at most", flush=True)
        with refusing(f"{path}"):
            found[name] = load(path)
    if left:
        print(f"{len(left)} of {len(left) + len(found)} pieces are left: {', '.join(left)}; call it again", flush=True)
        return None
    return found
