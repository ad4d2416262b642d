# SPDX-License-Identifier: Apache-2.0
"""The blocks of a page, run in one folder and in the order of the page."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable

from support import HERE, PACKAGE, PLUMB

FUZZ = HERE.parents[2] / "fuzz"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _has_pytest() -> bool:
    return subprocess.run([sys.executable, "-c", "import pytest"], capture_output=True, check=False).returncode == 0


def _programs(folder: pathlib.Path) -> None:
    """`plumb`, and `python` as this interpreter: a link to one of a virtual environment would leave it."""
    folder.mkdir()
    (folder / "plumb").symlink_to(PLUMB)
    (folder / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" -B "$@"\n', encoding="utf-8")
    (folder / "python").chmod(0o755)


def run(page: str, case: unittest.TestCase, at_least: int, also: Callable[[str, str], None] = lambda text, printed: None) -> None:
    """Runs every block of a page in fuzz/; one that ends with another status than it says fails the case. `also` is asked of
    each block and what it printed."""
    blocks = BLOCK.findall((FUZZ / page).read_text(encoding="utf-8"))
    case.assertGreaterEqual(len(blocks), at_least)
    with tempfile.TemporaryDirectory() as folder:
        _programs(pathlib.Path(folder) / "bin")
        environment = {
            **os.environ,
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "PYTHONPATH": f"{PACKAGE}:{folder}",
            "PLUMBLINE_PYTHON": sys.executable,
            "XDG_CACHE_HOME": folder,
        }
        for kind, text in blocks:
            with case.subTest(text.splitlines()[0]):
                case.assertIn(kind, ("python", "sh"))
                expected = re.search(r"# exit status (\d)", text)
                if kind == "python":
                    name = re.match(r"# file: (\S+)", text)[1]
                    pathlib.Path(folder, name).write_text(text, encoding="utf-8")
                    if name.startswith("test_") and not _has_pytest():
                        continue
                    runner = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if name.startswith("test_") else []
                    command = [sys.executable, "-B", *runner, name]
                else:
                    command = ["bash", "-euc", text]
                ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=200, check=False)
                printed = (ended.stdout + ended.stderr).decode()
                case.assertEqual(ended.returncode, int(expected[1]) if expected else 0, printed)
                also(text, printed)
