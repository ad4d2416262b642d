# SPDX-License-Identifier: Apache-2.0
"""Campaigns of functions that round: what a rounding explains hides no bug, and is said again when a campaign goes on."""

import pathlib
import sys
import tempfile
import unittest

from support import PACKAGE, fuzz, plumb

sys.path[:0] = [str(PACKAGE)]

from plumbline import findings


class Shortcuts(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.out = pathlib.Path(self._folder.name) / "out"

    def shown(self, name, cases):
        """The findings, and their parts, about gradients that are beyond their bounds, by their signatures."""
        status, text, report = fuzz(f"rounded_numpy:{name}", self.out.with_name(name), cases)
        self.assertEqual(status, 1, text)
        found = [*report["sightings"], *report.get("parts", [])]
        return {each["signature"]: each for each in found if "bound:grad" in each["signature"]}, text

    # Fails if a finding of the rounding takes the signature of what it does not explain, if shrinking turns that into it,
    # or if replay does not know it again; or if the rounding alone is taken for another cause.
    def test_what_none_explains_is_a_finding_beside_it(self):
        found, text = self.shown("exponentials_and_a_column", 120)
        unexplained = [each for name, each in found.items() if name.startswith("unexplained-bound:grad_")]
        whole = [each for each in unexplained if not each.get("part_of")]
        self.assertTrue(whole, text)
        for each in whole:
            path = self.out.with_name("exponentials_and_a_column") / each["kept"]["file"]
            self.assertNotIn("shortcut", each["kept"]["finding"])
            self.assertEqual(findings.read_finding(path).signature, each["signature"])
            status, text, _ = plumb("replay", path)
            self.assertEqual(status, 1, text)
            self.assertIn("still fails", text)
        found, text = self.shown("exponentials", 120)
        self.assertEqual([name for name in found if name.startswith("unexplained-")], [], text)

    # Fails if a rounding that has a key takes the signature of a gradient's defect, or is forgotten by a campaign that
    # goes on, or decides its status no longer.
    def test_what_was_inferred_stays_with_the_campaign(self):
        found, text = self.shown("logits_and_a_column", 60)
        self.assertTrue(found, text)
        out = self.out.with_name("logits")
        status, text, report = fuzz("rounded_numpy:logits", out, 20)
        self.assertEqual(status, 1, text)
        status, text, again = plumb("fuzz", "--resume", out, "--budget", "30cases")
        self.assertEqual(status, 1, text)
        self.assertEqual(again["inference"], report["inference"])
        self.assertIn("shortcut: logits rounded to", text)

    # Fails if a comparison does not infer what a function rounds, holds it against the bounds, or leaves it out of the errors;
    # or if why a target is not there is lost.
    def test_comparison(self):
        status, text, report = plumb("compare", "host", "python:rounded_numpy:logits", "python:rounded_numpy:none_such", "--cases", 20,
                                     "--problems", 2, "--out", self.out)  # fmt: skip
        self.assertEqual(status, 1, text)
        host, rounded, none = report["targets"]
        self.assertEqual((host["verdict"], rounded["verdict"], host.get("shortcuts")), ("clean", "clean", None), text)
        self.assertEqual(len(rounded["shortcuts"]), 1, text)
        self.assertIn("logits rounded to", rounded["shortcuts"][0])
        typical = [{each["output"]: each["typical"] for each in target["accuracy"]["outputs"]}["logprob"] for target in (host, rounded)]
        self.assertGreater(typical[1], 300 * typical[0])
        self.assertEqual(none["verdict"], "unavailable")
        self.assertIn("none_such", none["error"])


if __name__ == "__main__":
    unittest.main()
