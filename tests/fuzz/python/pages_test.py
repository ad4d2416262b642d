# SPDX-License-Identifier: Apache-2.0
"""Every block of fuzz/PYTHON.md runs, in one folder and in the order of the page."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support import HERE, PACKAGE, PLUMB

PAGE = HERE.parents[2] / "fuzz" / "PYTHON.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Page(unittest.TestCase):
    # Fails if a block of the page does not run, ends with another status than it says, or finds nothing.
    def test_every_block_runs(self):
        blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
        self.assertGreaterEqual(len(blocks), 6)
        with tempfile.TemporaryDirectory() as folder:
            bin_folder = pathlib.Path(folder) / "bin"
            bin_folder.mkdir()
            (bin_folder / "plumb").symlink_to(PLUMB)
            environment = {
                **os.environ,
                "PATH": f"{bin_folder}:{os.environ['PATH']}",
                "PYTHONPATH": f"{PACKAGE}:{folder}",
                "PLUMBLINE_PYTHON": sys.executable,
                "XDG_CACHE_HOME": folder,
            }
            for kind, text in blocks:
                with self.subTest(text.splitlines()[0]):
                    self.assertIn(kind, ("python", "sh"))
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
                    ended = subprocess.run(
                        command, cwd=folder, env=environment, capture_output=True, timeout=200, check=False
                    )
                    printed = (ended.stdout + ended.stderr).decode()
                    self.assertEqual(ended.returncode, int(expected[1]) if expected else 0, printed)
                    if "finding.what" in text:
                        self.assertIn("mpmath", printed)


def _has_pytest():
    return subprocess.run([sys.executable, "-c", "import pytest"], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    unittest.main()
