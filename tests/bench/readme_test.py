#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of README.md are what the scripts of bench/ print of the stored results."""

import unittest

from results import BENCH, Scratch

README = (BENCH.parent / "README.md").read_text(encoding="utf-8")


class Readme(Scratch):
    def lines_of(self, script, *words, status=0):
        """`words` that are patterns name stored results."""
        words = [found for word in words for found in sorted((BENCH / "results").glob(word)) or [word]]
        ended, printed, err = self.run_script(script, *words)
        self.assertEqual((ended, err), (status, ""))
        lines = [line for line in printed.splitlines() if line]
        self.assertGreater(len(lines), 10)
        return lines

    def test_mutants(self):
        self.assertIn("\n".join(self.lines_of("mutants", "selftest.json")), README)

    def test_tightness(self):
        for line in self.lines_of("tightness", "host-1000000.json", "host-hopper-300000.json"):
            self.assertIn(line, README)

    def of_table(self, *words, status=0):
        return [line for line in self.lines_of(*words, status=status) if line.startswith("|")]

    def test_figures(self):
        # 1: not all that was asked is reached.
        table = "\n".join(self.of_table("figures", "cuda_bench-h200-*.json", status=1))
        self.assertTrue(table in README, table)

    def test_peers(self):
        for words in [("--table", "peers-h200-*.json", "--shapes", "8192x4096x151936"), ("--steps", "peers-h200-*.json")]:
            table = "\n".join(self.of_table("peers.py", *words))
            self.assertTrue(table in README, table)

    def test_no_selftest(self):
        for text in ["{}", "[]", "{", '{"result": {"statistics": {"mutants": [{}]}}}']:
            path = self.root / "x.json"
            path.write_text(text, encoding="utf-8")
            status, _, err = self.run_script("mutants", path)
            self.assertEqual(status, 2)
            self.assertIn("x.json: no stored selftest", err)


if __name__ == "__main__":
    unittest.main()
