#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/SIGHT.md: how runs are counted and what is said of those that saw nothing."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from report.sight_page import below, cell, summary, table


def run(defect: str, verdict: str, rms: float, *shortcuts: str, contract: str = "hopper", data: str = "massive") -> dict:
    output = {"rms": rms, "found": rms * 1e-6, "honest": 1e-6, "verdict": verdict}
    return {"defect": defect, "data": data, "gradients": "fp32", "contract": contract, "verdict": verdict,
            "shortcuts": list(shortcuts), "outputs": {"logprob": {"rms": 0.5}, "lse": output}}


class Sight(unittest.TestCase):
    # Fails if a run counts twice, if a named rounding that breaks a bound hides its name, or if a clean run's error is lost.
    def test_cells(self):
        runs = [run("a", "findings", 900, "logits in bf16"), run("a", "findings", 900), run("a", "suspect", 9), run("a", "clean", 0.7),
                run("a", "clean", 3.25)]
        self.assertEqual(cell(runs), "1 wrong; 1 named; 1 suspect; 2 clean, at most 3.2")
        self.assertEqual(cell([]), "–")

    # Fails if targets without a defect count among what is to be seen, a miss is not said, or a table of a part looks like
    # a whole one.
    def test_summary(self):
        data = {"runs": [run("right", "clean", 9), run("a-b", "clean", 5), run("a-b", "suspect", 20), run("c", "findings", 2)],
                "missed": ["a-b massive: clean at 5"], "left": ["c-confident-bf16-fp32-hopper", "c-ordinary-fp32-input-hopper"]}
        text = summary(data)
        self.assertIn("3 runs with a defect: 3 err more than 4 times an honest kernel or break a bound, and 2 of these are seen", text)
        self.assertIn("1 of 1 runs without a defect are clean. Missed: a-b massive: clean at 5.", text)
        self.assertIn("**2 of 6 runs are left** and have not been made: confident, ordinary data.", text)
        self.assertNotIn("left", summary(data | {"left": []}))
        earlier = [{**each, "of": {"kernel": "k" if at else "j"}} for at, each in enumerate(data["runs"][:3])]
        taken = summary(data | {"runs": earlier + data["runs"][3:], "repeated": {"runs": 4, "machines": []}})
        self.assertIn("1 runs were made with kernel j; 2 runs were made with kernel k. 4 others of those, made again", taken)

    # Fails if the rows are not by defect, or a contract's runs stand under another's.
    def test_tables(self):
        data = {"runs": [run("right", "clean", 1), run("a-b", "suspect", 20, contract="black-box"), run("a-b", "clean", 5)]}
        self.assertEqual(table(data).splitlines()[2:], ["| none | – | – | 1 clean, at most 1 |",
                                                        "| a b | 1 suspect | – | 1 clean, at most 5 |"])

    # Fails if what was seen, or a target without a defect, is listed, or if not the largest error is.
    def test_below(self):
        data = {"runs": [run("right", "clean", 1), run("a", "suspect", 20), run("b", "clean", 2), run("b", "clean", 3.5, data="ordinary")]}
        self.assertEqual(below({"V": data}).splitlines()[2:],
                         ["| V | b | 2 | ordinary, fp32, hopper | `lse` | 3.5e-06 | 1e-06 | 3.5 |"])


if __name__ == "__main__":
    unittest.main()
