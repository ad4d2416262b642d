# SPDX-License-Identifier: Apache-2.0
"""The blocks of a page, run in one folder and in the order of the page.

    ```python   a file, named by its first line, which is run: by pytest if it is a test, not at all if the line ends in
                ", run below"
    ```sh       commands; a variable that they export stays exported
    ```diff     a change of a file that is named by its first line
    ```text     lines that the block before printed, in their order; … stands for any text
    ```yaml     for the reader alone

A block's "# exit status 1" says how it ends, if not with 0.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable

from support import HERE, PACKAGE, PLUMB

ROOT = HERE.parents[2]
FUZZ = ROOT / "fuzz"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: ([^\s,]+)(, run below)?$", re.MULTILINE)


def _has_pytest() -> bool:
    return subprocess.run([sys.executable, "-c", "import pytest"], capture_output=True, check=False).returncode == 0


def _programs(folder: pathlib.Path) -> None:
    """`plumb`, and `python` as this interpreter: a link to one of a virtual environment would leave it."""
    folder.mkdir()
    (folder / "plumb").symlink_to(PLUMB)
    (folder / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" -B "$@"\n', encoding="utf-8")
    (folder / "python").chmod(0o755)


def _change(folder: pathlib.Path, text: str) -> None:
    """Makes the change that a block of diff shows; its lines must be in the file once."""
    name, *lines = text.splitlines()
    path = folder / name.removeprefix("# file: ")
    before, after = ("".join(f"{line[1:]}\n" for line in lines if line[0] in kinds) for kinds in (" -", " +"))
    whole = path.read_text(encoding="utf-8")
    if whole.count(before) != 1:
        raise AssertionError(f"{path.name} has these lines {whole.count(before)} times:\n{before}")
    path.write_text(whole.replace(before, after), encoding="utf-8")


def not_printed(shown: str, printed: str) -> str | None:
    """The first line of a block of text that was not printed after the lines before it; None if all were."""
    left = iter(printed.splitlines())
    for line in shown.splitlines():
        pattern = re.compile(".*".join(map(re.escape, line.rstrip().split("…"))))
        if not any(pattern.fullmatch(each.rstrip()) for each in left):
            return line
    return None


def _command(kind: str, text: str, folder: pathlib.Path) -> list[str]:
    """What runs a block; empty if nothing does."""
    if kind == "sh":
        return ["bash", "-euc", text]
    name, later = FILE.match(text).groups()
    (folder / name).write_text(text, encoding="utf-8")
    if later or (name.startswith("test_") and not _has_pytest()):
        return []
    runner = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if name.startswith("test_") else []
    return [sys.executable, "-B", *runner, name]


def run(page: str, case: unittest.TestCase, at_least: int, also: Callable[[str, str], None] = lambda text, printed: None) -> None:
    """Runs every block of a page, whose path is given from fuzz/; one that ends with another status than it says, or did not
    print what is shown, fails the case. `also` is asked of each block and what it printed."""
    blocks = BLOCK.findall((FUZZ / page).read_text(encoding="utf-8"))
    case.assertGreaterEqual(len([kind for kind, _ in blocks if kind in ("python", "sh")]), at_least)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _programs(folder / "bin")
        environment = {
            **os.environ,
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "PYTHONPATH": f"{PACKAGE}:{folder}",
            "PLUMBLINE_PYTHON": sys.executable,
            "PYTEST_PLUGINS": "plumbline.pytest_plugin",  # as the entry point of an installed package
            "XDG_CACHE_HOME": name,
        }
        printed = ""
        for kind, text in blocks:
            with case.subTest(text.splitlines()[0]):
                case.assertIn(kind, ("python", "sh", "diff", "text", "yaml"))
                if kind == "text":
                    case.assertIsNone(not_printed(text, printed), printed)
                if kind == "diff":
                    _change(folder, text)
                command = _command(kind, text, folder) if kind in ("python", "sh") else []
                if not command:
                    continue
                expected = re.search(r"# exit status (\d)", text)
                ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=200, check=False)
                printed = (ended.stdout + ended.stderr).decode()
                case.assertEqual(ended.returncode, int(expected[1]) if expected else 0, printed)
                environment |= dict(re.findall(r"^export (\w+)=(\S+)", text, re.MULTILINE) if kind == "sh" else ())
                also(text, printed)
