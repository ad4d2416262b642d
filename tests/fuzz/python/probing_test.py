# SPDX-License-Identifier: Apache-2.0
"""What is asked of a function that declares nothing, where a question has no answer, and what its death declines."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE, TARGETS

sys.path[:0] = [str(PACKAGE), str(TARGETS)]

from plumbline import loading
from plumbline.probing.attempt import DIED
from plumbline.probing.problems import Problem
from plumbline.probing.questions import capabilities


class Questions(unittest.TestCase):
    def tried(self, name, one_question=60.0):
        """The capabilities of a function of misbehaving.py, and what is said of it."""
        script = (
            "import json, sys\n"
            "import plumbline\n"
            "from plumbline import loading\n"
            "from plumbline.probing.found import declaration_found\n"
            "declared, text, _ = declaration_found(loading.load(sys.argv[1]), float(sys.argv[2]))\n"
            "print(json.dumps([dict(declared.capabilities), text]))\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            child = pathlib.Path(folder) / "child"
            environment = {**os.environ, "XDG_CACHE_HOME": folder, "PYTHONPATH": f"{PACKAGE}:{TARGETS}", "CHILD": str(child)}
            words = [sys.executable, "-c", script, f"misbehaving:{name}", str(one_question)]
            ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=240, cwd=TARGETS)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            if child.exists():  # /proc tells a process that is gone from one that waits for its parent
                stat = pathlib.Path(f"/proc/{child.read_text(encoding='utf-8')}/stat")
                self.assertTrue(not stat.exists() or stat.read_text(encoding="utf-8").split()[2] == "Z", stat)
        return json.loads(ended.stdout)

    # Fails if a question that has no end holds up the others, or its process or a child of it goes on, or if an extent of 0 is
    # asked of the target though it does not answer.
    def test_a_question_without_an_answer_is_one_answer(self):
        found, text = self.tried("never_ends_on_depth_0", 2.0)
        self.assertIs(found["empty_extents"], False)
        self.assertIn("# empty_extents=depth: no cases of it are drawn: no answer within 2 s", text)
        self.assertNotIn("hidden_multiple", found)
        self.assertNotIn("not tried", text)

    # Fails if the questions that come after a lost device are asked of that device, and all fail.
    def test_a_lost_device_is_one_answer(self):
        found, text = self.tried("loses_its_device_on_depth_0")
        self.assertIs(found["empty_extents"], False)
        self.assertIn("# empty_extents=depth: no cases of it are drawn: the device was lost: RuntimeError: CUDA error: device-side", text)
        self.assertEqual(text.count("device-side"), 1, text)

    # Fails if a function that dies on a valid input is declared to decline it: its death would be no finding.
    def test_a_death_on_a_valid_input_is_still_asked_for(self):
        found, text = self.tried("dies_on_strided_rows")
        self.assertNotIn("strided_inputs", found)
        self.assertRegex(text, r"# strided_inputs=True: cases of it are drawn: the process died: status -6: .")

    # Fails if labels outside the vocabulary are asked of a target whose process died of one, or a valid input is not.
    def test_what_a_death_declines(self):
        kernel = loading.load("misbehaving:dies_on_strided_rows")
        for key, declined in (("invalid_labels", True), ("negative_strides", True), ("strided_inputs", False),
                              ("zero_stride_grads", False)):  # fmt: skip
            with self.subTest(key):
                found = capabilities(kernel, Problem(), {key: {True: DIED}})
                self.assertEqual(found.get(key) is False, declined)


if __name__ == "__main__":
    unittest.main()
