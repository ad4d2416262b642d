#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store false-alarms: lines of several runs merged and counted, and the one result that is stored of them."""

import json
import os
import unittest

from scratch import Tree

# Notes its arguments and writes the line of each run into its file.
PROGRAM = r"""
here=$(dirname "$0")
echo "$*" >>"$here/calls"
while (($#)); do case $1 in --about) about=$2 ;; --out) out=$2 ;; esac; shift; done
sed "s/ABOUT/$about/" "$here/line" >>"$out"
"""
COUNTED = {"verdicts": 2, "classes": {"8": {"1": 1, "24": 1}}, "outputs": {"lse": [2, 9.0, 1.0, 3.0]},
           "worst": {}, "suspect": [{"seed": 2, "output": "lse"}, {"seed": 2, "output": "logprob"}]}
CLEAN = {"verdicts": 1, "classes": {"8": {"1": 1}}, "outputs": {"lse": [1, 1.0, 4.0, 2.0]}, "worst": {}}
LINE = {"set": "small", "vocab": None, "places": 256, "only": [], "seed": 1, "problems": 2, "about": "ABOUT",
        "seconds": 1.0, "processor": "x", "versions": "y", "data": {"ordinary": {"a": COUNTED}, "wide": {"a": CLEAN}}}


class FalseAlarms(Tree):
    def setUp(self):
        super().setUp()
        self.program("build/release/fuzz/plumb", "")
        self.folder = "build/release/tests/fuzz/false_alarms"
        self.program(f"{self.folder}/false_alarms", PROGRAM)
        self.program("bin/cmake", "")
        for room in ("honest/kernels.cc", "false_alarms/draw.cc"):
            self.write(f"tests/fuzz/{room}", "x")
        self.commit()
        self.tell(LINE)

    def tell(self, *lines):
        self.write(f"{self.folder}/line", "".join(json.dumps(line) + "\n" for line in lines))

    def alarms(self, *words):
        """(status, stdout, stderr)."""
        return self.run_store("false-alarms", *words, PATH=f"{self.root}/bin:{os.environ['PATH']}")

    def stored(self):
        return json.loads((self.root / "bench/results/false-alarms.json").read_text(encoding="utf-8"))

    def calls(self):
        return (self.root / self.folder / "calls").read_text(encoding="utf-8").splitlines()

    # Fails if a suspect problem counts once an output, if verdicts or a largest ratio are lost, or if the status does
    # not say that there is one.
    def test_what_is_counted(self):
        self.assertEqual(self.alarms("--small", "250")[0], 1)
        found, = self.stored()["sets"]
        self.assertEqual((found["problems"], found["verdicts"], found["suspect"]), (2, 3, 1))
        self.assertAlmostEqual(found["rate_limit"], 1)
        self.assertEqual(found["by_units"], [{"units_from": 8, "verdicts": 3, "above_threshold": 1}])
        self.assertEqual([[each[key] for key in ("kernel", "data", "verdicts", "suspect")] for each in found["kernels"]],
                         [["a", "ordinary", 2, 1], ["a", "wide", 1, 0]])
        self.assertEqual(found["kernels"][0]["largest"], {"lse": [9.0, 1.0, 3.0]})
        self.assertEqual([each["output"] for each in found["suspects"]], ["logprob", "lse"])

    # Fails if a vocabulary is left out, the number of problems, or the first one.
    def test_runs(self):
        self.alarms("--small", "500", "--large", "4", "--threads", "3", "--first", "251")
        words = [call.split() for call in self.calls()]
        self.assertEqual([[each[each.index(key) + 1] for key in ("--set", "--seed-first", "--count", "--line", "--threads")]
                          for each in words], [["small", "251", "500", "250", "3"], ["large", "251", "4", "1", "3"],
                                               ["large", "251", "4", "1", "3"]])
        self.assertEqual([each[each.index("--vocab") + 1] for each in words[1:]], ["32003", "151936"])

    def lines(self, name, *lines):
        about = " ".join(f"{room}={key}" for room, key in sorted(self.stored()["trees"].items()))
        return self.write(name, "".join(json.dumps({**line, "about": about}) + "\n" for line in lines))

    # Fails if a line that two files have counts twice, or lines of another seed or set are dropped.
    def test_merge(self):
        self.alarms("--small", "250")
        other = {**LINE, "seed": 3, "data": {"wide": {"a": CLEAN}}}
        large = {**other, "set": "large", "vocab": 99, "problems": 1}
        first, second = self.lines("1", LINE, other), self.lines("2", other, large)
        self.assertEqual(self.alarms("--from", first, second)[0], 1)
        small, found = sorted(self.stored()["sets"], key=lambda each: each["vocab"] or 0)
        self.assertEqual((small["problems"], small["verdicts"], small["core_seconds"]), (4, 4, 2))
        self.assertEqual((found["vocab"], found["verdicts"]), (99, 1))

    # Fails if lines of other sources count where too few are repeated, where one has another verdict or another ratio, or
    # if one that is repeated counts twice.
    def test_others(self):
        self.alarms("--small", "250")
        large = [{**LINE, "set": "large", "vocab": 99, "problems": 1, "seed": seed, "data": {"wide": {"a": CLEAN}}}
                 for seed in range(1, 13)]
        before = self.write("before", "".join(json.dumps({**line, "about": "before"}) + "\n" for line in large))
        few = self.lines("few", LINE, *large[:9])
        status, _, said = self.alarms("--from", few, "--others", before)
        self.assertEqual((status, "9 lines of before are repeated, of 10" in said), (2, True), said)
        long = self.write("long", json.dumps({**large[0], "seed": 14, "problems": 9, "about": "before"}) + "\n")
        self.assertIn("in two lines", self.alarms("--from", self.lines("ten", LINE, *large[:11], {**large[0], "seed": 16}),
                                                  "--others", long, before)[2])
        near = {**large[9], "seconds": 9.0, "data": {"wide": {"a": {**CLEAN, "outputs": {"lse": [1, 1.0, 4.01, 2.0]}}}}}
        self.alarms("--from", self.lines("near", LINE, *large[:9], near), "--others", before)
        of_large, = [each for each in self.stored()["sets"] if each["set"] == "large"]
        self.assertEqual((of_large["problems"], of_large["verdicts"]), (12, 12))
        self.assertEqual(self.stored()["others"], [{"set": "large", "vocab": 99, "about": "before", "lines": 2, "repeated": 10,
                                                    "largest_difference": 0.0025}])
        # Two earlier sources, each with lines of its own.
        older = self.write("older", "".join(json.dumps({**line, "seed": line["seed"] % 12 + 1, "about": "older"}) + "\n"
                                            for line in large))
        more = self.write("more", json.dumps({**large[0], "seed": 13, "about": "older"}) + "\n")
        self.alarms("--from", self.lines("all", LINE, *large[:10]), "--others", before, older, more)
        of_large, = [each for each in self.stored()["sets"] if each["set"] == "large"]
        self.assertEqual(of_large["problems"], 13)
        self.assertEqual([each["lines"] for each in self.stored()["others"]], [2, 1])
        for counted in ({**CLEAN, "outputs": {"lse": [1, 1.0, 4.1, 2.0]}}, {**CLEAN, "verdicts": 2}):
            other = {**large[9], "data": {"wide": {"a": counted}}}
            status, _, said = self.alarms("--from", self.lines("other", LINE, *large[:9], other), "--others", before)
            self.assertEqual((status, "seed 10 of" in said), (2, True), said)

    # Fails if lines of other sources, or seeds counted twice in lines of other lengths, are taken.
    def test_refused(self):
        self.alarms("--small", "250")
        before = self.stored()
        longer = self.lines("1", LINE, {**LINE, "seed": 2})
        self.assertEqual(self.alarms("--from", longer)[0], 2)
        good = self.lines("2", LINE)
        self.write("fuzz/baseline/file.cc", "changed")
        status, _, err = self.alarms("--from", good)
        self.assertEqual(status, 2)
        self.assertIn("lines of other files", err)
        self.assertEqual(self.stored(), before)

    # Fails if an argument that says nothing, or contradicts another, is taken.
    def test_arguments(self):
        for words in ([], ["--small", "1"], ["--large", "-1"], ["--small", "250", "--from", "x"],
                      ["--large", "1", "--threads", "0"], ["--large", "1", "--first", "0"],
                      ["--small", "250", "--first", "100"]):
            self.assertEqual(self.alarms(*words)[0], 2, words)


if __name__ == "__main__":
    unittest.main()
