# SPDX-License-Identifier: Apache-2.0
"""Runs `plumb` on the Python targets of this folder."""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TARGETS = HERE / "targets"
PACKAGE = pathlib.Path(os.environ.get("PLUMBLINE_PYTHON_PACKAGE", HERE.parents[2] / "build/release/python")).resolve()
PLUMB = PACKAGE.parent / "fuzz" / "plumb"


def plumb(*words, folder=TARGETS, timeout=300, python=sys.executable, environment=None):
    """Runs the program in `folder`; its exit status, text, and the object that --json printed."""
    ended = subprocess.run(
        [PLUMB, *map(str, words), "--json"],
        cwd=folder,
        env={**os.environ, "PLUMBLINE_PYTHON": python, **(environment or {})},
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    text = ended.stdout.decode() + ended.stderr.decode()
    lines = ended.stdout.decode().strip().splitlines()
    report = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    return ended.returncode, text, report


def fuzz(target, out, cases=60, *options, seed=1, **more):
    """A short campaign of one job."""
    return plumb(
        "fuzz", "--target", f"python:{target}", "--budget", f"{cases}cases", "--seed", seed, "--jobs", 1,
        "--shrink-tries", 3, "--out", out, *options, **more,
    )  # fmt: skip
