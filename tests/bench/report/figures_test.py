#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bench/report figures`: a figure counts as reached only where it was measured and is within its goal."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from report.figures import GOALS, rows
from results import Scratch, failed, pair, result


def all_at(factor, **of_one):
    """A result in which every figure is `factor` of its goal; of_one: benchmark with . for / to a factor."""
    found = {}
    for _, name, counter, most in GOALS:
        entry = found.setdefault(name, pair(name, 0.5, workspace=1.0, saved=0.0))
        scale = most * of_one.get(name.replace("/", "."), factor)
        memory = {"workspace_MiB": scale - 0.5, "saved_MiB": 0.5}
        entry.update(memory if counter == "MiB" else {counter: scale})
    return result(*found.values())


class Figures(Scratch):
    def lines(self, what):
        status, out, err = self.run_script("report", "figures", self.store("result.json", what))
        return status, out.splitlines(), err

    def test_every_goal_has_a_row(self):
        status, lines, _ = self.lines(all_at(1.0))
        rows = [line for line in lines if line.endswith("| yes | 2026-11-22 |")]
        self.assertEqual(len(rows), len(GOALS))
        self.assertEqual(status, 0)  # exactly the goal is reached
        self.assertTrue(lines[0].startswith("NVIDIA H200, CUDA 13.0, cuBLAS 13.0.2, 2026-11-22, kernel tree 0123"))

    def test_one_that_is_not_reached(self):
        status, lines, _ = self.lines(all_at(0.9, **{"sustained.forward.8192x2048x131072": 1.001}))
        self.assertEqual(status, 1)
        self.assertEqual([line for line in lines if "| no |" in line],
                         ["| forward ÷ one GEMM, sustained | 8192x2048x131072 | 1.00 | 1.001 (0.490 to 0.510) | no | 2026-11-22 |"])

    def test_memory_is_workspace_and_saved(self):
        name = "sustained/backward/8192x4096x151936"
        status, lines, _ = self.lines(result(pair(name, 0.9, workspace=449.9, saved=0.2)))
        self.assertEqual(status, 1)
        self.assertIn("| memory of backward, MiB | 8192x4096x151936 | 450 | 450.1 | no | 2026-11-22 |", lines)

    def test_not_measured_is_not_reached(self):
        status, lines, _ = self.lines(result(failed("burst/forward/8192x4096x151936", "out of memory")))
        self.assertEqual(status, 1)
        self.assertIn("| forward ÷ one GEMM, burst | 8192x4096x151936 | 0.97 | failed: out of memory | no | 2026-11-22 |",
                      lines)
        self.assertIn("| forward ÷ one GEMM, sustained | 8192x4096x151936 | 0.99 | not measured | no |  |", lines)

    # Fails if an older result hides a newer one, or stands without its own date.
    def test_the_first_source_counts(self):
        name = "half_ignored/forward_backward/8192x4096x151936"
        new, old = ({name: pair(name, ratio)} for ratio in (0.5, 0.6))
        old["sustained/forward/8192x4096x151936"] = pair("x", 1.0, workspace=96.5, saved=0.0)
        found = {row.what: list(row[3:]) for row in rows([("newer", new), ("older", old)])}
        self.assertEqual(found["half the rows ignored ÷ none, in pairs"][1:], ["yes", "newer"])
        self.assertEqual(found["memory of forward, MiB"], ["96.5", "no", "older"])

    # Fails if pairs pass for the sustained regime, which is the goal.
    def test_pairs_are_not_sustained(self):
        name = "few_rows/backward/256x4096x151936"
        found = [(row.what, row.measured) for row in rows([("now", {name: pair(name, 1.0)})]) if row.at == "256x4096x151936"]
        self.assertEqual(found, [("backward of 256 rows ÷ three GEMMs, sustained", "not measured")])
        for what, name, _, _ in GOALS:
            if name.split("/")[0] in ("few_rows", "weight_once", "weight_thrice", "per_token", "half_ignored"):
                self.assertTrue(what.endswith(", in pairs"), what)

    # Fails if joules of a device that counts none are taken for measured, or time's ratio stands in their place.
    def test_joules(self):
        name = "sustained/forward/8192x4096x151936"
        for entry, says in (pair(name, 0.5), ("not measured", "no")), ({**pair(name, 0.5), "J_ratio": 1.0145}, ("1.014", "no")):
            row = next(each for each in rows([("now", {name: entry})]) if each.what.startswith("joules"))
            self.assertEqual((row.measured, row.reached), says)

    def test_no_result(self):
        status, _, err = self.lines({"benchmarks": [{}]})
        self.assertEqual(status, 2)
        self.assertIn("no result of cuda_bench", err)


if __name__ == "__main__":
    unittest.main()
