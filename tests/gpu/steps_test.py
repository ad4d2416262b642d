#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The acceptance's steps, one after another in this process; its digests; and tests/gpu/tightness.py."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tightness
from acceptance import digests, steps
from acceptance.stages import CANNOT_START, Context, Step, stages
from scratch import HERE, PATIENCE, Scratch

WELL = ["echo", '{"cases": 1}']  # a step that passes


class Steps(Scratch):
    """One step after another, in this process."""

    def setUp(self):
        super().setUp()
        self.context = Context(self.root, self.root)

    def run_stage(self, *its, seconds=PATIENCE, before=None):
        return steps.run_stage("s", its, self.context, seconds, before or {}, lambda result: None, {})

    def step(self, name="a", seconds=PATIENCE, command=("sleep", "600"), **how):
        return Step(name, lambda c: list(command), seconds=seconds, **how)

    # Fails if a hang is an interruption.
    def test_what_does_not_end_in_its_own_time_fails(self):
        result = self.run_stage(self.step(seconds=0.3), self.step("b", command=WELL))
        self.assertEqual(result["outcome"], "failed")
        self.assertEqual(result["steps"]["a"]["why"], "does not end in 0.3 s")
        self.assertEqual(result["steps"]["b"]["outcome"], "passed")
        again = self.run_stage(self.step(command=WELL), self.step("b", command=WELL), before=result)
        self.assertEqual(again["outcome"], "failed")

    # Fails if a step that was cut short by its stage fails.
    def test_what_had_not_its_own_time_is_interrupted(self):
        result = self.run_stage(self.step(), seconds=0.3)
        self.assertEqual((result["outcome"], result["steps"]["a"]["why"]), ("interrupted", "out of time"))

    # Fails if a campaign that is longer than its time fails.
    def test_what_can_go_on_is_interrupted(self):
        result = self.run_stage(self.step(seconds=0.3, resumed=lambda c: ["sleep", "600"]))
        self.assertEqual(result["outcome"], "interrupted")

    # Fails if a missing compute-sanitizer is a failure, or another program's absence is none.
    def test_a_tool_that_is_not_there_is_unavailable(self):
        tool = str(self.root / "no-sanitizer")
        result = self.run_stage(self.step(command=[tool], lacking=CANNOT_START))
        self.assertEqual(result["outcome"], "unavailable")
        self.assertIn(tool, result["steps"]["a"]["why"])
        self.assertEqual(self.run_stage(self.step(command=[tool]))["outcome"], "failed")
        self.assertEqual([step.lacking for step in stages()["sanitizer"] + stages()["races"]], [127] * 4)

    # Fails if a program that ends well passes without a word of what it tested.
    def test_what_says_nothing_fails(self):
        for digest, output, outcome in [
                (digests.last_json, "", "failed"), (digests.probe, "{}", "failed"),
                (digests.replay, '{"cases": 0}', "failed"), (digests.replay, '{"cases": 1}', "passed"),
                (digests.campaign, "", "failed"), (digests.selftest, '{"verdict": "clean"}', "failed"),
                (digests.sanitizer, '{"runs": 3}', "failed"),
                (digests.sanitizer, '{"runs": 3}\nERROR SUMMARY: 0 errors', "passed"),
                (digests.sanitizer, '{"runs": 0}\nERROR SUMMARY: 0 errors', "failed")]:
            result = self.run_stage(self.step(command=["printf", "%s", output], digest=digest))
            self.assertEqual(result["outcome"], outcome, (digest.__name__, output))

    # Fails if a step may take longer than a stage.
    def test_every_stage_is_within_the_budget(self):
        for name, its in stages().items():
            self.assertLessEqual(max(step.seconds for step in its), 480, name)


class Tightness(Scratch):
    """Its statuses, with a stand-in for PyTorch and one for plumb."""

    def run_script(self):
        script = HERE / "tightness.py"
        run = subprocess.run([sys.executable, "-B", script, "--folder", self.root / "dumps"], stderr=subprocess.PIPE,
                             text=True, env=dict(os.environ, PYTHONPATH=str(self.root)), check=False)
        return run.returncode, run.stderr

    # Fails if an exception looks like an element beyond its bound.
    def test_only_what_is_beyond_ends_with_1(self):
        self.write("torch.py", "raise ImportError('none')")
        self.assertEqual(self.run_script()[0], 4)
        self.write("torch.py", "class cuda:\n  @staticmethod\n  def is_available():\n    return True\n")
        status, said = self.run_script()
        self.assertEqual(status, 3)
        self.assertIn("has no attribute", said)

    # Fails if a plumb that says nothing ends without a word.
    def test_a_check_that_says_nothing_of_a_dump_is_named(self):
        for says in ["", "{}", '{"dumps": []}', "{"]:
            plumb = self.write("plumb", f"#!/bin/sh\necho '{says}'\n", 0o755)
            with self.assertRaisesRegex(RuntimeError, "plumb check d.safetensors .*status 0, and no JSON"):
                tightness.check(str(plumb), "d.safetensors", [], 1)


class Digests(unittest.TestCase):
    """What is kept of outputs: the numbers that a summary is read for."""

    # Fails if skipped tests count as run, or a reason is lost.
    def test_a_test_program_that_tests_nothing_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "r.json"
            suite = {"name": "GpuX", "testsuite": [{"name": "a", "result": "SKIPPED",
                                                   "skipped": [{"message": "no CUDA device\n"}]}]}
            report.write_text(json.dumps({"testsuites": [suite]}), encoding="utf-8")
            self.assertEqual(digests.gtest(report, ""),
                             {"ran": 0, "failed": [], "skipped": {"GpuX.a": "no CUDA device"}, "nothing": True})
            suite["testsuite"].append({"name": "b", "result": "COMPLETED", "failures": [{}]})
            report.write_text(json.dumps({"testsuites": [suite]}), encoding="utf-8")
            digest = digests.gtest(report, "")
            self.assertEqual((digest["ran"], digest["failed"], digest["nothing"]), (1, ["GpuX.b"], False))

    # Fails if a number that a test recorded is lost.
    def test_recorded_numbers_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "r.json"
            test = {"name": "a", "result": "COMPLETED", "line": 3, "time": "1s", "abort": "2"}
            report.write_text(json.dumps({"testsuites": [{"name": "GpuX", "testsuite": [test]}]}), encoding="utf-8")
            self.assertEqual(digests.gtest_with_properties(report, "")["recorded"], {"abort": 2})

    # Fails if a summary has another number than the largest.
    def test_a_campaign_keeps_the_largest_of_each_output(self):
        def entry(tightness):
            return {"dtype": "bf16", "grads": "fp32", "outputs": {"lse": {"tightness": tightness}, "loss": {}}}
        output = json.dumps({"cases": 9, "findings": 0, "targets": [
            {"target": "cuda", "cases": 9, "classes": [entry(0.25), entry(0.5)]}]})
        digest = digests.campaign(None, "noise\n" + output + "\n")
        self.assertEqual(digest["targets"][0]["largest"], {"lse bf16": 0.5})

if __name__ == "__main__":
    unittest.main()
