#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of README.md are what bench/mutants and bench/tightness print of the stored results."""

import unittest

from results import BENCH, Scratch

README = (BENCH.parent / "README.md").read_text(encoding="utf-8")


class Readme(Scratch):
    def lines_of(self, script, *results):
        status, printed, err = self.run_script(script, *(BENCH / "results" / name for name in results))
        self.assertEqual((status, err), (0, ""))
        lines = [line for line in printed.splitlines() if line]
        self.assertGreater(len(lines), 10)
        return lines

    def test_mutants(self):
        self.assertIn("\n".join(self.lines_of("mutants", "selftest.json")), README)

    def test_tightness(self):
        for line in self.lines_of("tightness", "host-1000000.json", "host-hopper-300000.json"):
            self.assertIn(line, README)

    def test_no_selftest(self):
        for text in ["{}", "[]", "{", '{"result": {"statistics": {"mutants": [{}]}}}']:
            path = self.root / "x.json"
            path.write_text(text, encoding="utf-8")
            status, _, err = self.run_script("mutants", path)
            self.assertEqual(status, 2)
            self.assertIn("x.json: no stored selftest", err)


if __name__ == "__main__":
    unittest.main()
