# SPDX-License-Identifier: Apache-2.0
"""A scratch folder for the tests of the acceptance, and where the acceptance lies."""

import shutil
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "accept"
PATIENCE = 120  # seconds; of a wait that ends as soon as what it waits for is there

sys.dont_write_bytecode = True
sys.path[1:1] = [str(HERE), str(HERE.parents[1] / "bench")]


class Scratch(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="plumbline-accept-"))
        self.addCleanup(shutil.rmtree, self.root, True)

    def write(self, path, text, mode=0o644):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path
