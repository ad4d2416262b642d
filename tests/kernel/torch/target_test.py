# SPDX-License-Identifier: Apache-2.0
"""plumbline.torch as a target of plumb, held to the contract of the host; a defect planted in it is found."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE

TARGETS = pathlib.Path(__file__).resolve().parent / "targets"
PLUMB = PACKAGE.parent / "fuzz" / "plumb"


def hunt(function: str, cases: int, *options: str) -> tuple[int, str]:
    """Exit status and text of a campaign of one job."""
    with tempfile.TemporaryDirectory() as out:
        words = ["fuzz", "--target", f"python:torch_operator:{function}", "--python", sys.executable, "--budget", f"{cases}cases",
                 "--seed", "1", "--jobs", "1", "--shrink-tries", "3", "--out", out, *options]  # fmt: skip
        ended = subprocess.run([PLUMB, *words], cwd=TARGETS, env={**os.environ, "PYTHONPATH": str(PACKAGE)}, capture_output=True,
                               timeout=600, check=False)  # fmt: skip
    return ended.returncode, (ended.stdout + ended.stderr).decode()


class Target(unittest.TestCase):
    # Fails if an argument is handed on wrongly in some corner: strides, labels, T by row, reductions, empty extents.
    def test_clean(self):
        for function, cases in (("operator", 800), ("in_forward", 400)):
            status, text = hunt(function, cases)
            self.assertEqual(status, 0, text)

    # Fails if a campaign could not see what the package may do wrong between PyTorch and the operator.
    def test_defects_are_found(self):
        for function in ("temperature_of_the_next_row", "upstream_read_densely", "ignored_index_is_default",
                         "in_forward_is_not_scaled"):  # fmt: skip
            status, text = hunt(function, 250, "--stop-after", "1")
            self.assertEqual(status, 1, f"{function}\n{text}")


if __name__ == "__main__":
    unittest.main()
