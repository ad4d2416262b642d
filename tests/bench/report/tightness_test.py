#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bench/report tightness`: one table of several results, and what is no result."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import Scratch


def campaign(cases, tightness, **more):
    counts = {"pass": 90, "fail": 0, "vacuous": 10, "unspecified": 0}
    return {"targets": [{
        "target": "host", "cases": cases, "arbitrated": 2,
        "classes": [{"class": "plain", "dtype": "bf16", "grads": "fp32", "cases": cases,
                     "outputs": {"logprob": {**counts, "tightness": tightness}, "grad_hidden": counts}}],
        "aims": {"sharp": {"logprob": counts}}, **more}]}


class Tightness(Scratch):
    def test_results_are_taken_together(self):
        status, out, _ = self.run_script("report", "tightness", self.store("a.json", {"result": campaign(3, 0.5)}),
                                         self.store("b.json", campaign(4, 0.25)))
        lines = out.splitlines()
        self.assertEqual(status, 0)
        self.assertEqual(lines[0], "**host**, 7 cases, 4 elements put to the arbiter")
        self.assertTrue(lines[4].startswith("| plain | bf16 | 7 | 0.500 | – |"), lines[4])
        self.assertTrue(lines[8].startswith("| sharp | 10.00 / 0.00 | – |"), lines[8])

    def test_what_is_no_campaign_is_named(self):
        whole = campaign(3, 0.5)
        without = [{"targets": [{name: value for name, value in whole["targets"][0].items() if name != key}]}
                   for key in whole["targets"][0]]
        for what in ("[]", '["x"]', "no json", "{}", {"targets": ["x"]}, campaign(3, "high"), campaign("many", 0.5),
                     campaign(3, 0.5, classes=[]), campaign(3, 0.5, aims={"sharp": {"logprob": {"pass": 1}}}),
                     *without):
            status, out, err = self.run_script("report", "tightness", self.store("x.json", what))
            self.assertEqual((status, out), (2, ""), what)
            self.assertIn("x.json: no result of a campaign", err)
        self.assertEqual(self.run_script("report", "tightness", self.root / "none.json")[0], 2)


if __name__ == "__main__":
    unittest.main()
