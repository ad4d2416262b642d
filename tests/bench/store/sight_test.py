#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store sight: what is stored of runs that are through, and a result that is gone on with."""

import json
import shutil
import unittest

from scratch import Tree

# Finds nothing in any dump.
PLUMB = r"""
echo "$*" >>"$(dirname "$0")/calls"
case "$1" in
  doctor) echo '{"machine": {"cpu": "x"}, "verdict": "clean"}' ;;
  check) echo '{"dumps": [{"honest_errors": {"outputs": []}, "outputs": []}], "verdict": "clean"}' ;;
esac
"""


class Sight(Tree):
    def setUp(self):
        super().setUp()
        self.program("build/release/fuzz/plumb", PLUMB)
        self.write(".gitignore", "build/\n")
        self.commit()
        self.calls = self.root / "build/release/fuzz/calls"
        self.result = self.root / "bench/results/sight-5.json"

    def sight(self, *words):
        """(status, the stored result, the checks that were run, a line each)."""
        self.calls.write_text("", encoding="utf-8")
        status, text, error = self.run_store("sight", "--v", 5, "--h", 2, "--n", 3, "--at-once", 8, *words)
        self.assertTrue(self.result.exists(), text + error)
        checks = [line for line in self.calls.read_text(encoding="utf-8").splitlines() if line.startswith("check")]
        return status, json.loads(self.result.read_text(encoding="utf-8")), checks

    # Fails if a run that is left is not named, if one of a stored result is made again or lost, if two runs share a record,
    # as those of the target without a defect did on inputs of two dtypes, or if a machine that ran some of it is not named.
    def test_goes_on(self):
        status, result, checks = self.sight("--minutes", 0)
        self.assertEqual((status, result["runs"], checks), (5, [], []))
        names = result["left"]
        self.assertEqual(len(names), len(set(names)))
        status, result, checks = self.sight()
        self.assertEqual((status, len(result["runs"]), result["left"], len(checks)), (0, len(names), [], len(names)))
        about_inputs = {(run["defect"], run["data"], run["dtype"], run["gradients"], run["contract"]) for run in result["runs"]}
        self.assertEqual(len(about_inputs), len(names))
        result["runs"] = result["runs"][:7]
        self.result.write_text(json.dumps(result), encoding="utf-8")
        shutil.rmtree(self.root / "build/campaigns")
        self.program("build/release/fuzz/plumb", PLUMB.replace('"x"', '"y"'))
        status, result, checks = self.sight()
        self.assertEqual((status, len(result["runs"]), len(checks)), (0, len(names), len(names) - 7))
        self.assertEqual((result["machine"], result["machines"]), ({"cpu": "y"}, [{"cpu": "x"}, {"cpu": "y"}]))

    # Fails if runs of other sources are taken over without a run that was repeated, or though one has another record; or if the
    # result does not say so, also when it is gone on with.
    def test_repeats(self):
        _, before, _ = self.sight()
        self.write("oracle/file.cc", "changed")
        self.commit()
        for wrong in (True, False):
            shutil.rmtree(self.root / "build/campaigns")
            other = json.loads(json.dumps(before))
            if wrong:
                other["runs"][0]["verdict"] = "suspect"
            self.result.write_text(json.dumps(other), encoding="utf-8")
            status, result, checks = self.sight("--repeat", 4)
            self.assertEqual((status, len(checks)), (1, 4) if wrong else (0, 4))
            self.assertEqual(result["trees"] == before["trees"], wrong)
        self.assertEqual((result["repeated"]["runs"], len(result["runs"])), (4, len(before["runs"])))
        taken = [run for run in result["runs"] if "of" in run]
        self.assertEqual((len(taken), taken[0]["of"]), (len(before["runs"]) - 4, before["trees"]))
        _, again, checks = self.sight()
        self.assertEqual((again["runs"], checks), (result["runs"], []))
        # What was taken over is taken over again, and a run says what it was made with.
        shutil.rmtree(self.root / "build/campaigns")
        self.write("oracle/file.cc", "changed once more")
        self.commit()
        _, last, _ = self.sight("--repeat", 3)
        made = [json.dumps(run.get("of")) for run in last["runs"]]
        self.assertEqual(made.count("null"), 3)
        both = [run for run, now in zip(result["runs"], last["runs"], strict=True) if "of" in now]
        self.assertEqual(made.count(json.dumps(before["trees"])), sum("of" in run for run in both))

    # Fails if runs of other sources are taken for those of these.
    def test_other_sources(self):
        self.sight()
        shutil.rmtree(self.root / "build/campaigns")
        self.write("oracle/file.cc", "changed")
        self.commit()
        _, result, checks = self.sight("--minutes", 0)
        self.assertEqual((result["runs"], checks), ([], []))


if __name__ == "__main__":
    unittest.main()
