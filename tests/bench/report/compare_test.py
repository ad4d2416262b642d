#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bench/report compare`: what is slower beyond its noise, and what cannot be told."""

import copy
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import BENCH, Scratch, failed, pair, repeated, result


class Compare(Scratch):
    def compare(self, before, now, *words):
        return self.run_script("report", "compare", self.store("before.json", before), self.store("now.json", now), *words)

    def test_slower_where_the_intervals_do_not_overlap(self):
        status, out, _ = self.compare(result(pair("forward/a", 1.00), pair("forward/b", 1.00)),
                                      result(pair("forward/a", 1.03), pair("forward/b", 1.015)))
        self.assertEqual(status, 1)
        self.assertIn("forward/a  1 [0.99, 1.01] ratio -> 1.03 [1.02, 1.04] ratio: SLOWER", out)
        self.assertIn("forward/b  1 [0.99, 1.01] ratio -> 1.015 [1.005, 1.025] ratio: the same within noise", out)
        self.assertEqual(out.splitlines()[-1], "verdict: 1 of 2 slower or failed: forward/a")

    def test_faster_and_the_same_are_no_fault(self):
        status, out, _ = self.compare(result(pair("a", 1.00), pair("b", 1.00)), result(pair("a", 0.90), pair("b", 1.0)))
        self.assertEqual(status, 0)
        self.assertIn(": faster", out)
        self.assertEqual(out.splitlines()[-1], "verdict: 0 of 2 slower or failed")

    def test_time_alone_is_not_looked_at_where_there_is_a_ratio(self):
        # Another machine, or a hotter one: both sides slower.
        status, _, _ = self.compare(result(pair("a", 1.0, ms=10)), result(pair("a", 1.0, ms=20)))
        self.assertEqual(status, 0)

    def test_a_failure_is_a_fault(self):
        status, out, _ = self.compare(result(pair("a", 1.0)), result(failed("a", "row 3: logprob nan")))
        self.assertEqual(status, 1)
        self.assertIn("row 3: logprob nan: FAILED", out)

    def test_repetitions_have_an_interval(self):
        before = result(*repeated("host", [10.0, 10.1, 10.2, 10.3, 10.4, 10.5]), executable="/x/host_bench")
        slower = result(*repeated("host", [10.6, 10.7, 10.8, 10.9, 11.0, 11.1]), executable="/y/host_bench")
        touching = result(*repeated("host", [10.5, 10.7, 10.8, 10.9, 11.0, 11.1]), executable="/y/host_bench")
        self.assertEqual(self.compare(before, slower)[0], 1)
        self.assertEqual(self.compare(before, touching)[0], 0)

    def test_measured_once_has_no_verdict(self):
        status, out, _ = self.compare(result(*repeated("host", [10.0])), result(*repeated("host", [99.0])))
        self.assertEqual(status, 0)
        self.assertIn("no verdict", out)
        self.assertEqual(out.splitlines()[-1], "verdict: 0 of 1 slower or failed; 1 without a verdict")

    def test_names_of_one_side_are_said(self):
        status, out, _ = self.compare(result(pair("a", 1.0), pair("gone", 1.0)), result(pair("a", 1.0), pair("new", 1.0)))
        self.assertEqual(status, 0)
        self.assertIn("not measured now: gone", out)
        self.assertIn("not in the stored result: new", out)

    def test_filter(self):
        status, out, _ = self.compare(result(pair("a", 1.0), pair("b", 1.0)), result(pair("a", 2.0), pair("b", 1.0)),
                                      "--filter", "^b")
        self.assertEqual((status, out.splitlines()[-1]), (0, "verdict: 0 of 1 slower or failed"))

    def test_a_ratio_without_an_interval_is_a_counter_like_any_other(self):
        entry = {**repeated("arbiter", [2.0])[0], "ratio": 100.0}
        status, out, _ = self.compare(result(entry), result({**entry, "ratio": 900.0}))
        self.assertEqual(status, 0)
        self.assertIn("arbiter  2 ms -> 2 ms: no verdict", out)

    def test_another_reference_is_said(self):
        one, other = ({**pair("a", 1.0), "label": f"logits: {name}"}
                      for name in ("cublasGemmEx", "cublasLt heuristic 3"))
        _, out, _ = self.compare(result(one, pair("b", 1.0)), result(other, pair("b", 1.0)))
        self.assertIn("against another reference: logits: cublasGemmEx -> logits: cublasLt heuristic 3", out)
        self.assertEqual(out.splitlines()[-1], "verdict: 0 of 2 slower or failed; 1 against another reference")
        self.assertNotIn("another reference", self.compare(result(one), result(one))[1])

    def test_no_number_is_no_figure(self):
        status, out, _ = self.compare(result(pair("a", 1.0)), result(pair("a", float("nan"))))
        self.assertEqual(status, 1)
        self.assertIn("FAILED", out)

    def test_a_wrong_filter_is_named(self):
        for words, named in [(["--filter", "("], "--filter: '('"), (["--filter"], "--filter: expected one argument")]:
            status, _, err = self.compare(result(pair("a", 1.0)), result(pair("a", 1.0)), *words)
            self.assertEqual(status, 2)
            self.assertIn(named, err)

    def test_every_stored_result_can_be_compared_with(self):
        slowed = {"real_time", "ratio", "ratio_low", "ratio_high"}
        paths = sorted((BENCH / "results").glob("*_bench-*.json"))
        if not paths:
            self.skipTest("none is stored")
        for path in paths:
            with self.subTest(path.name):
                stored = json.loads(path.read_text(encoding="utf-8"))
                slower = copy.deepcopy(stored)
                for entry in slower["benchmarks"]:
                    entry.update({name: 3 * value for name, value in entry.items() if name in slowed})
                status, out, err = self.compare(stored, slower)
                told = "without a verdict" if "ratio_low" not in stored["benchmarks"][0] else "slower or failed: "
                self.assertIn(told, out, err)
                self.assertEqual(status, 0 if told == "without a verdict" else 1)

    def test_what_cannot_be_compared(self):
        once = result(pair("a", 1.0))
        for before, now in [(once, result(pair("b", 1.0))), (once, "no json"), (once, {"benchmarks": []}),
                            (once, "[]"), (once, {"benchmarks": [1]}), ({"benchmarks": {}, "context": []}, once),
                            (once, result(pair("a", 1.0), executable="./host_bench"))]:
            status, out, err = self.compare(before, now)
            self.assertEqual(status, 2)
            self.assertNotIn("verdict", out)
            self.assertIn("bench/report compare: ", err)

    def test_another_machine_is_said(self):
        _, out, _ = self.compare(result(pair("a", 1.0)), result(pair("a", 1.0), device="NVIDIA H100"))
        self.assertIn("Not the same machine: NVIDIA H200 then, NVIDIA H100 now.", out)


if __name__ == "__main__":
    unittest.main()
