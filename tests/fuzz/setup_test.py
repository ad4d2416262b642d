#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests fuzz/setup.sh where packages are there without dpkg's knowledge, and where nobody can install them."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SAYS_ITS_NAME = 'echo "called: $(basename "$0") $*" >&2\n'


class Setup(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.work = Path(scratch.name)
        self.program("dpkg-query", "exit 1\n")  # knows of no package
        self.program("apt-get", SAYS_ITS_NAME)
        self.program("id", "echo 1000\n")

    def program(self, name: str, text: str) -> None:
        """Puts a program first on the path."""
        path = self.work / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/bash\n" + text)
        path.chmod(0o755)

    def install(self, *packages: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs InstallPackages, nobody at the terminal, with no folder of programs but those of the system."""
        script = 'set -euo pipefail; source "$1"; shift; InstallPackages "to test" "$@"; echo went on'
        return subprocess.run(
            ["/bin/bash", "-c", script, "-", ROOT / "fuzz/setup.sh", *packages],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            env={"PATH": f"{self.work}/bin:/usr/bin:/bin", **environment})

    # Fails if a conda environment, which dpkg does not know, is not enough, or if apt or sudo is called for it.
    def test_what_another_source_brought_is_there(self) -> None:
        self.program("sudo", SAYS_ITS_NAME)
        self.program("no-ninja", "")
        header = self.work / "env/include/no/such.h"
        header.parent.mkdir(parents=True)
        header.touch()
        for variable, value in [("CONDA_PREFIX", "env"), ("CMAKE_PREFIX_PATH", f"/nowhere:{self.work}/env")]:
            value = str(self.work / value)
            script = 'set -euo pipefail; source "$1"; shown_by[a]=no/such.h shown_by[b]=no-ninja; InstallPackages x a b'
            done = subprocess.run(["/bin/bash", "-c", script, "-", ROOT / "fuzz/setup.sh"], capture_output=True,
                                  text=True, check=False, stdin=subprocess.DEVNULL,
                                  env={"PATH": f"{self.work}/bin:/usr/bin:/bin", variable: value})
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), variable)

    # Fails if somebody without root is not told everything that is missing at once, or waits for a password.
    def test_what_cannot_be_installed_is_named(self) -> None:
        self.program("sudo", '[[ $1 == -n ]] && exit 1; echo "called: sudo $*" >&2\n')
        done = self.install("no-such-package", "libno-such-dev")
        self.assertEqual(done.returncode, 4)
        for words in ["no-such-package", "libno-such-dev", "sudo wants a password", "apt-get install", "conda install"]:
            self.assertIn(words, done.stderr)
        self.assertNotIn("called:", done.stderr)
        self.assertNotIn("went on", done.stdout)

    # Fails if root, or a sudo that asks for nothing, does not install what is missing.
    def test_what_can_be_installed_is(self) -> None:
        self.program("sudo", '[[ $1 == -n ]] && exit 0; echo "called: sudo $*" >&2; "$@"\n')
        done = self.install("no-such-package", "g++")
        self.assertIn("called: sudo apt-get update -q\n", done.stderr)
        self.assertIn("--no-install-recommends no-such-package\n", done.stderr)
        self.assertNotIn("g++", done.stderr)
        self.assertIn("went on", done.stdout)
        self.program("id", "echo 0\n")
        done = self.install("no-such-package")
        self.assertNotIn("sudo", done.stderr + done.stdout)
        self.assertIn("called: apt-get update -q\n", done.stderr)

    # Fails if the list of what shows a package lacks one that is installed by name.
    def test_every_package_is_known_by_a_sign(self) -> None:
        script = 'source "$1"; for p in "${build_packages[@]}" universal-ctags; do [[ -n ${shown_by[$p]-} ]] || echo "$p"; done'
        done = subprocess.run(["/bin/bash", "-c", script, "-", ROOT / "fuzz/setup.sh"], capture_output=True, text=True,
                              check=True, env=os.environ)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
