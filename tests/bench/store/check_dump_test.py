#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store check_dump: what it makes of what plumb says, and of a plumb that says nothing."""

import json
import unittest

from scratch import Scratch

SAYS = {"check": {"verdict": "clean", "dumps": [{"outputs": [{"output": "logprob", "pass": 3, "fail": 1}]}]},
        "doctor": {"machine": {"cpu": "x"}}}


class CheckDump(Scratch):
    def check(self, status, *words, **says):
        """With a plumb that prints `says` of each command, and ends with `status`."""
        for command, said in says.items():
            self.store(command, said if isinstance(said, str) else json.dumps(said))
        plumb = self.program("plumb", f'echo "why: $1" >&2\ncat "{self.root}/$1"\nexit {status}\n')
        return self.run_script("store", "check_dump", "--n", 1, "--v", 2, "--h", 8, "--plumb", plumb, *words)

    def test_a_result(self):
        status, out, _ = self.check(1, **SAYS)
        found = json.loads(out)
        self.assertEqual((status, found["judged"], found["machine"]), (1, {"logprob": 4}, {"cpu": "x"}))
        self.assertGreater(found["bytes"], 2 * 2 * 8)

    def test_no_result(self):
        for says in ({**SAYS, "check": ""}, {**SAYS, "check": "no json"}, {**SAYS, "check": {"verdict": "clean"}},
                     {**SAYS, "doctor": ""}, {**SAYS, "doctor": {}}, {**SAYS, "check": "[]"}):
            status, out, err = self.check(4, **says)
            self.assertEqual((status, out), (3, ""), says)
            self.assertTrue(err.startswith("bench/store check_dump: ") and err.count("\n") == 1, err)
        self.assertIn("plumb check: status 4, no result", self.check(4, check="", doctor="")[2])
        self.assertIn(": why: check", self.check(4, check="", doctor="")[2])

    def test_stored(self):
        path = self.root / "x.json"
        self.assertEqual(self.check(1, "--store", path, **SAYS)[:2], (1, ""))
        found = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual([run["gradients"] for run in found["runs"]], [False, True])
        self.assertEqual((found["machine"], set(found["trees"])), ({"cpu": "x"}, {"kernel", "oracle", "fuzz"}))
        path.unlink()
        self.assertEqual(self.check(1, "--store", path, **{**SAYS, "doctor": {}})[0], 3)
        self.assertFalse(path.exists())
        self.assertEqual(self.check(1, "--store", path, "--gradients", **SAYS)[0], 2)

    def test_sizes(self):
        status, _, err = self.check(0, "--v", "0", **SAYS)
        self.assertEqual(status, 2)
        self.assertIn("--v 0", err)


if __name__ == "__main__":
    unittest.main()
