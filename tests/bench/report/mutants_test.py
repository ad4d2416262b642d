#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bench/report mutants`: the table of planted defects, and what is no selftest."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from report import found_page, mutant_table
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

    # Fails if a row of the table of mutants is left out, or cut off.
    def test_rows(self):
        rows = mutant_table.read()
        self.assertEqual([sum(row.path == "host" for row in rows), len(rows)], [81, 114])
        self.assertEqual(rows[0].name, "hidden-tail-dropped")
        self.assertTrue(rows[0].what.endswith("refuses H that is no multiple of 128)"), rows[0].what)

    # Fails if a row that lacks a cell, or the line that says what is wrong, is passed over.
    def test_a_row_that_is_not_complete(self):
        for row in ("a | host | ReadRow\n    what\n", "a | host | ReadRow | same bits\nb"):
            with self.assertRaisesRegex(ValueError, "no row: a"):
                mutant_table.read(self.store("table.txt", 'R"(#\n' + row + ')"\n'))

    # Fails if a result of other mutants than the table's is shown beside it.
    def test_a_result_of_other_mutants(self):
        rows = mutant_table.read()
        for targets in ([DEFECT | {"target": "mutant:nobody's"}], [DEFECT, DEFECT]):
            with self.assertRaisesRegex(ValueError, "other mutants"):
                found_page.of_the_host(targets, rows)
        with self.assertRaisesRegex(ValueError, "lacks hidden-tail-dropped, "):
            found_page.of_the_host([DEFECT], rows)

    # Fails if a defect that was planted after the GPU's result is shown as found, or left out.
    def test_a_newer_defect_is_not_hunted(self):
        rows = [row for row in mutant_table.read() if row.path == "cuda-hopper"]
        hunt = {"target": f"cuda-mutant:{rows[0].name}", "killed": True, "signature": "bound:lse", "cases": 3,
                "values_before": 9, "values_after": 4}
        lines = found_page.gpu_table([hunt], rows).splitlines()
        self.assertEqual(lines[2], f"| `{rows[0].name}` | `bound:lse` | 3 | 9 | 4 |")
        self.assertEqual(lines[3:], [f"| `{row.name}` | not hunted in this result |  |  |  |" for row in rows[1:]])


if __name__ == "__main__":
    unittest.main()
