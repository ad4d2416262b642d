#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bench/report mutants`: the table of planted defects, and what is no selftest."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import Scratch

DEFECT = {"target": "mutant:tail-dropped", "regimes": {"mean": 2, "huge": 5, "exact-dot": 5}, "cases_median": 2.0,
          "cases_p90": 7.0, "values_median": 67.5, "signatures": {"bound:lse": 1, "bound:logprob": 9}}


class Mutants(Scratch):
    # Fails if the most frequent regime or check is not the one shown, or a number gains a ".0".
    def test_table(self):
        path = self.store("x.json", {"result": {"statistics": {"mutants": [DEFECT]}}})
        status, out, err = self.run_script("report", "mutants", path)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out.splitlines()[2], "| `tail-dropped` | exact-dot +2 | bound:logprob | 2 | 7 | 67.5 |")

    # Fails if a file that holds no selftest is not named, or ends the program with a traceback.
    def test_no_selftest(self):
        for text in ["{}", "[]", "{", '{"result": {"statistics": {"mutants": [{}]}}}']:
            status, _, err = self.run_script("report", "mutants", self.store("x.json", text))
            self.assertEqual(status, 2)
            self.assertIn("x.json: no stored selftest", err)


if __name__ == "__main__":
    unittest.main()
