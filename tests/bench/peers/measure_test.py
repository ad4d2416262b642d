#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what `bench/peers` makes of a peer that fails, without PyTorch or a GPU, and that the others are kept."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from report.peer_tables import table
from scripted import ERRORS, Measured, measured, times


class Measure(Measured):
    def test_a_worker_sees_its_device_alone(self):
        done = ([measured("plumbline"), {"done": True}], "")
        self.measure(done)
        self.assertEqual(self.environments, [{}])
        self.measure(done, device="3")
        self.assertEqual(self.environments, [{"CUDA_VISIBLE_DEVICES": "3"}])

    # Fails if a device stays taken by a shape that is measured, or whose measurement raises.
    def test_a_device_is_free_again(self):
        self.measure(([measured("plumbline"), {"done": True}], ""), device="3")
        self.assertEqual(self.free.get_nowait(), "3")
        with self.assertRaises(IndexError):  # no run is scripted
            self.measure(device="3")
        self.assertEqual(self.free.get_nowait(), "3")

    def test_a_peer_that_kills_the_process_costs_no_other(self):
        found = self.measure(
            ([{"starts": "plumbline"}, measured("plumbline"), {"starts": "bad"}], "ended with status -6: abort"),
            ([{"starts": "plumbline"}, measured("plumbline"), {"starts": "late"}, measured("late"),
              {"starts": "round 0"}, *times(plumbline=(1.0, 4.0, 2.0), late=(2.0, 8.0, 6.0)), {"done": True}], ""))
        self.assertEqual(self.skipped, [[], ["bad"]])
        self.assertEqual(found["bad"], {"name": "bad", "reason": "ended with status -6: abort"})
        self.assertEqual(found["late"]["over_ours"], [2.0, 2.0, 2.0])
        self.assertEqual(found["plumbline"]["step_ms"], 4.1)
        self.assertEqual(found["late"]["step_ms_interval"], [8.0, 8.4])

    # Fails if a row, a burst or the joules are lost, take another unit, or stand beside another's step.
    def test_regimes(self):
        ours = {"forward": 1.0, "step": 4.0, "backward": 2.0, "row_step": 5.0, "step_joules": 3.0, "burst_forward": 0.5,
                "burst_step": 2.0}
        theirs = {**ours, "row_step": 10.0, "step_joules": 4.5, "burst_step": 1.0}
        found = self.measure(([measured("plumbline"), measured("other"), *times(plumbline=ours, other=theirs),
                               {"done": True}], ""), regimes=True)["other"]
        self.assertIn("--regimes", self.commands[0])
        self.assertEqual((found["row_step_ms"], found["step_joules"], found["burst_step_ms"]), (10.25, 4.612, 1.025))
        self.assertEqual([found[name][0] for name in ("over_ours", "row_over_ours", "joules_over_ours", "burst_over_ours")],
                         [1.0, 2.0, 1.5, 0.5])
        self.assertNotIn("step_joules_ms", found)
        self.assertEqual(found["by_round"]["step_joules"], [4.5, 4.545, 4.59, 4.635, 4.68, 4.725])

    # Fails if errors are lost where nothing is timed, or the worker is not told.
    def test_errors_alone(self):
        alone = [{"sigma": 1.0, "errors": ERRORS}]
        found = self.measure(([measured("plumbline", entropy_alone=alone), {"done": True}], ""), errors=True)["plumbline"]
        self.assertIn("--errors", self.commands[0])
        self.assertEqual((found["errors"], found["entropy_alone"]), (ERRORS, alone))
        self.assertNotIn("reason", found)
        self.measure(([measured("plumbline"), {"done": True}], ""))
        self.assertNotIn("--errors", self.commands[0])

    def test_one_that_refuses_is_not_tried_again(self):
        refused = {"peer": "no", "contract": "rows", "reason": "ValueError: V"}
        self.measure(([refused, {"starts": "bad"}], "said nothing for 1 s"), ([measured("plumbline"), {"done": True}], ""))
        self.assertEqual(self.skipped[1], ["no", "bad"])

    def test_a_fault_in_the_rounds_leaves_those_that_were_enough(self):
        def run(rounds):
            return self.measure(([measured("plumbline"), *times(rounds, plumbline=(1.0, 4.0, 2.0)),
                                  {"starts": "round 9"}], "ended with status 1: lost"))["plumbline"]
        self.assertEqual(run(5)["reason"], "at round 9: ended with status 1: lost")
        self.assertNotIn("step_ms", run(5))
        self.assertEqual(run(6)["step_ms"], 4.1)
        self.assertNotIn("reason", run(6))

    def test_a_worker_that_dies_before_its_first_peer_is_a_result(self):
        found = self.measure(([], "ended with status 1: CUDA error: out of memory"))
        self.assertEqual(found["the worker"]["reason"],
                         "before its first peer: ended with status 1: CUDA error: out of memory")
        self.assertIn("* the worker: not measured: before its first peer: ended",
                      table("8x8x8", list(found.values())))

    def test_what_is_no_number_is_null_and_a_word(self):
        nowhere = {**ERRORS, "logprob": {"max": float("nan"), "rms": float("inf")}}
        found = self.measure(([{**measured("plumbline"), "errors": nowhere}, *times(plumbline=(1.0, 4.0, 2.0)),
                               {"done": True}], ""))["plumbline"]
        self.assertEqual(found["errors"]["logprob"], {"max": None, "max_is": "nan", "rms": None, "rms_is": "inf"})
        self.assertEqual(found["errors"]["entropy"], ERRORS["entropy"])
        json.dumps(found, allow_nan=False)
        self.assertIn("| nan | 1.0e-04 |", table("8x8x8", [found]))


if __name__ == "__main__":
    unittest.main()
