# SPDX-License-Identifier: Apache-2.0
"""Scratch trees with bench/store in them."""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import BENCH, Scratch

ROOMS = ("kernel", "oracle", "fuzz")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


class Tree(Scratch):
    """A git checkout of three rooms with a source each, and bench/store with what it imports."""

    def setUp(self):
        super().setUp()
        self.copy(*(f"bench/{room}/{path.name}" for room in ("report", "store") for path in (BENCH / room).glob("*.py")))
        (self.root / "bench/results").mkdir()
        for room in ROOMS:
            self.write(f"{room}/file.cc", room)
        self.git("init", "-q")
        self.commit()

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def git(self, *words):
        return subprocess.run(["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b", *words],
                              check=True, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "x")

    def command(self, *words):
        return [sys.executable, "-B", str(self.root / "bench/store"), *map(str, words)]

    def run_store(self, *words, **how):
        """(status, stdout, stderr) of bench/store in the scratch tree."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False,
                              env={**ENVIRONMENT, **how})
        return done.returncode, done.stdout, done.stderr

    def names(self):
        return sorted(path.name for path in (self.root / "bench/results").iterdir())
