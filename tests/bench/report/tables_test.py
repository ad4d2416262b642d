#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the tables that only the generated pages have: what they choose from the results, and what they leave out."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from report import beside_fastest, kept_errors, memory_table
from report.found_page import gpu_table
from report.gpu_page import sanitizer_table, stage_table, torch_table
from report.mutant_table import Mutant
from report.peers_page import ahead, conditions, said
from report.speed_page import first_calls, memory_of_step, regimes_table, split_table
from report.stored import about
from report.tightness import smallest_table


def peer(name: str, step: float, memory: float, **more: str) -> dict:
    return {"name": name, "step_ms": step, "step_MiB": memory, **more}


class Tables(unittest.TestCase):
    # Fails if the largest over dtypes is shown for the smallest, a 16-bit gradient counts, or a class lacks a target.
    def test_the_smallest_of_the_largest(self):
        tally = {"tightness": [(("swallow", "bf16"), "logprob", 0.5), (("swallow", "bf16"), "logprob", 0.9),
                               (("swallow", "fp16"), "logprob", 0.7), (("swallow", "bf16"), "grad_weight", 0.1),
                               (("swallow-gradients", "bf16"), "logprob", 0.1),
                               (("swallow-gradients", "bf16"), "grad_weight, fp32", 0.8)]}
        lines = smallest_table({"host": [tally], "other": [tally]}).splitlines()
        self.assertEqual(lines[2], "| swallowed terms of a dot product | `host` | 0.700 |  |  |  |  |")
        self.assertIn("| swallowed terms of a gradient | `other` |  |  |  |  | 0.800 |", lines)

    # Fails if a tool that failed or did not come to its end has no row, or is said to have reported nothing, if racecheck's
    # stage is left out, or if a stage that was not run ends the page.
    def test_a_sanitizer_that_does_not_end(self):
        ended = {"outcome": "passed", "result": {"runs": 252, "left_out": 1, "summary": "0 errors"}}
        late = {"outcome": "failed", "why": "does not end in 480 s", "result": {"summary": "no summary"}}
        other = ended | {"outcome": "failed", "why": "ended with 1"}
        lines = sanitizer_table({"sanitizer": {"steps": {"memcheck": ended, "synccheck": other}},
                                 "races": {"steps": {"racecheck": late}}}).splitlines()
        self.assertEqual(lines[2:], ["| memcheck | 252 | 1 | 0 errors |", "| synccheck | 252 | 1 | **failed**: ended with 1; 0 errors |",
                                     "| racecheck |  |  | **failed**: does not end in 480 s |"])
        self.assertEqual(stage_table({"races": {"outcome": "not run"}}).splitlines()[2:], ["| races | not run |  |"])

    # Fails if a ratio is that of medians where rounds are known, if the median is held to the goal, if ours in forward
    # stands where it may not, or if turns pass for rows.
    def test_the_fastest_peer(self):
        def of(name: str, *row: float, **more: object) -> dict:
            rounds = {"row_step": row, "burst_step": row}
            return peer(name, row[0], 1.0, contract="mean", row_step_ms=sorted(row)[2], burst_step_ms=row[0], by_round=rounds, **more)
        ours, theirs = [0.9, 0.95, 1.9, 0.99, 1.02, 0.97], [1.0, 1.0, 2.0, 1.0, 1.0, 1.0]
        large, mean = "8192x4096x151936", "8192x2048x131072"
        results = [of(beside_fastest.SAVED, *ours), of(beside_fastest.IN_FORWARD, *[0.5] * 6), of("fast", *theirs), of("slow", *[9.0] * 6)]
        rows = beside_fastest.figures({large: results, mean: results})
        self.assertEqual(rows[0], [large, "sustained", beside_fastest.SAVED, "fast", "0.96", "0.960 (0.900 to 1.020)", "no"])
        self.assertEqual(rows[2][2], beside_fastest.IN_FORWARD)
        self.assertEqual(rows[2][4:], ["0.99", "0.500 (0.250 to 0.500)", "yes"])
        turns = [peer(beside_fastest.SAVED, 1.0, 1.0), peer("fast", 2.0, 1.0)]
        self.assertEqual(beside_fastest.figures({large: turns}),
                         [[large, "in turns", beside_fastest.SAVED, "fast", "0.96", "0.500", "yes"]])

    # Fails if gradients in forward have no row beside quack where that is a goal, stand beside another peer, or logits saved
    # take their place.
    def test_gradients_in_forward_beside_quack(self):
        def of(name: str, step: float) -> dict:
            return peer(name, step, 1.0, contract="mean", row_step_ms=step, burst_step_ms=step)
        steps = {beside_fastest.SAVED: 1.0, beside_fastest.IN_FORWARD: 3.0, "quack": 4.0, "quack, tuned": 2.5, "CCE": 2.0}
        results = [of(name, step) for name, step in steps.items()]
        rows = beside_fastest.figures({"32768x4096x131072": results})
        says = ["32768x4096x131072", "sustained", beside_fastest.IN_FORWARD, "quack, tuned", "1.00", "1.200", "no"]
        self.assertEqual(rows[2:], [says])
        self.assertEqual(len(beside_fastest.figures({"8192x4096x131072": results})), 2)

    # Fails if a ratio is upside down, one gradient's stands for both, the entropy's is held to the goal of any, or a shape at
    # which one was not measured is left out.
    def test_errors_of_what_is_kept(self):
        def of(name: str, hidden: float, weight: float, flat: float) -> dict:
            def errors(*rms: float) -> dict:
                return {gradient: {"rms": value} for gradient, value in zip(("grad_hidden", "grad_weight"), rms)}
            return {"name": name, "errors": errors(hidden, weight), "entropy_alone": [{"sigma": 0.5, "errors": errors(flat, 1e-3)}]}
        rows = kept_errors.rows({
            "8x8x8": [of(kept_errors.SAVED, 1e-3, 1.03e-3, 1.1e-3), of(kept_errors.IN_FP32, 1e-3, 1e-3, 1e-3)],
            "8x8x9": [of(kept_errors.SAVED, 1e-3, 1e-3, 1e-3), {"name": kept_errors.IN_FP32, "reason": "no room"}]})
        self.assertEqual(rows, [
            ["8x8x8", "any", "1.00e-03; 1.00e-03", "1.000", "1.00e-03; 1.03e-03", "1.030", "1.02", "no"],
            ["8x8x8", "entropy's alone, σ = 0.5", "1.00e-03; 1.10e-03", "1.100", "1.00e-03; 1.00e-03", "1.000", "1.15", "yes"],
            ["8x8x9", f"not measured: {kept_errors.IN_FP32}: no room", *[""] * 6, "no"]])
        section = kept_errors.section({"date": "2026-01-02T03", "shapes": {"8x8x8": [of(kept_errors.SAVED, 1.0, 1.0, 1.0),
                                                                                    of(kept_errors.IN_FP32, 1.0, 1.0, 1.0)]}})
        self.assertIn("2 of 2 reach the goal", section)

    # Fails if few rows are held to the goal of many, a ratio beyond it counts as reached, or a shape that the earlier build
    # lacks has a ratio.
    def test_memory(self):
        def result(shape: str, consumed: float, surviving: float) -> dict:
            return {"shape": shape, "MiB": {"recomputed": 8.0, "consumed": consumed, "surviving": surviving, "in_forward": 5.0}}
        found = memory_table.rows({
            "earlier": {"measured": [result("4096x8x8", 10.0, 10.0), result("4095x8x8", 10.0, 10.0)]},
            "measured": [result("4096x8x8", 5.5, 7.6), result("4095x8x8", 8.0, 7.6), result("9999x8x8", 1.0, 1.0)]})
        self.assertEqual(found[0], ["4096x8x8", "8", "1.000", "6", "0.550; 0.55", "8", "0.760; 0.75", "5", "1.000", "no"])
        self.assertEqual(found[1][-1], "yes")
        self.assertEqual((found[2][4], found[2][-1]), ("–; 0.55", "no"))

    # Fails if calls after rest stand for rows, if a pass without such calls is left out, or the median of first calls counts.
    def test_the_regimes(self):
        def entry(ms: float, ratio: float) -> dict:
            return {"ms": ms, "ms_reference": 2.0, "ratio": ratio, "ratio_low": ratio, "ratio_high": ratio, "MHz": 1400.0,
                    "MHz_reference": 1410.0, "workspace_MiB": 3.5, "saved_MiB": 0.5}
        lines = regimes_table({"sustained/backward/8x8x8": entry(4.0, 2.0), "burst/forward/8x8x8": entry(1.0, 0.5),
                               "sustained/forward/8x8x8": entry(3.0, 1.5), "few_rows/backward/8x8x8": entry(9.0, 9.0)}).splitlines()
        self.assertEqual(lines[2:], ["| 8x8x8 | forward | 3.00 | 2.00 | 1.500 (1.500 to 1.500) | 1400; 1410 | 1.49 | 1.00 | 0.500 (0.500 to 0.500) | 4 |",
                                     "| 8x8x8 | backward | 4.00 | 2.00 | 2.000 (2.000 to 2.000) | 1400; 1410 | 1.99 | – | – | 4 |"])
        calls = {"date": "now", "measured": [{"shape": "8x8x8", "first_ms": {"median": 1.0, "largest": 2.0}}]}
        self.assertEqual(first_calls(calls), ("now", {"first_calls/8x8x8": {"ms": 2.0}}))
        step = {"name": beside_fastest.IN_FORWARD, "step_MiB": 5.0}
        fast = {"date": "2026-01-02T03", "shapes": {"8192x4096x151936": [step | {"name": "fast", "step_MiB": 6.0}, step]}}
        self.assertEqual(memory_of_step(fast), ("2026-01-02", {"gradients_in_forward/8192x4096x151936": {"workspace_MiB": 5.0}}))

    # Fails if a peer that needs memory for the logits stands among those that do not, or ours is taken for a peer.
    def test_who_is_ahead(self):
        shapes = {"1024x8x1024_half_ignored": [peer("plumbline", 2.0, 0.5), peer("plumbline, logits saved", 1.0, 4.0),
                                               peer("fast", 1.25, 1.0), peer("small", 4.0, 0.9),
                                               {"name": "absent", "reason": "no"}]}
        self.assertEqual(ahead(shapes, keeps=True).splitlines()[2],
                         "| 1024x8x1024, half ignored | plumbline, logits saved | 1.00 | 4 | fast | 1.25 | 1 | 0.80 |")
        self.assertEqual(ahead(shapes, keeps=False).splitlines()[2],
                         "| 1024x8x1024, half ignored | plumbline | 2.00 | 0 | small | 4.00 | 1 | 0.50 |")
        self.assertIn("| none |", ahead({"8x8x8": [peer("plumbline", 1.0, 1.0)]}, keeps=True))

    # Fails if a shape of the build before passes for one of the newest, what a result says of its run is left out, or a result
    # that says neither is refused.
    def test_conditions_of_a_run(self):
        run, before = {"date": "2026-01-02T03", "kernel": "v2-0"}, "the figures are those of the build before"
        found = {"earlier": {"8x8x8_half_ignored": run, "8x8x9": run}}
        said = f"At 8x8x8, half ignored, 8x8x9 {before} (kernel tree v2-0, 2026-01-02)."
        self.assertEqual(conditions(found), said)
        self.assertEqual(conditions(found | {"conditions": "Alone."}), f"Alone.\n{said}")
        self.assertEqual(conditions({}), "")

    # Fails if a reason is lost, or a note of every shape names the shapes.
    def test_what_is_said(self):
        shapes = {"8x8x8": [peer("a", 1.0, 1.0, note="slow"), {"name": "b", "reason": "absent"}],
                  "8x8x9": [peer("a", 1.0, 1.0, note="slow"), peer("b", 1.0, 1.0, note="")]}
        self.assertEqual(said(shapes).splitlines(), ["* a: slow", "* b: not measured: absent (at 8x8x8)"])

    # Fails if an error beyond its bound is not bold, an infinite one included, or another kind of inputs is shown.
    def test_errors_of_pytorch(self):
        def row(by: str, tightness: object, error: float | None) -> list[dict]:
            return [{"dtype": "bf16", "by": by, "output": output, "tightness": tightness, "error": error}
                    for output in ("logprob", "entropy", "grad_hidden", "grad_weight")]
        lines = torch_table(row("cuda", 0.5, 1e-4) + row("cuda", 0.75, 2e-4) + row("torch, logits in the inputs' dtype", "inf",
                                                                              None)).splitlines()
        self.assertTrue(lines[2].startswith("| bf16 | `cuda` | 0.75 (2.0e-04) |"), lines[2])
        self.assertTrue(lines[3].startswith("| bf16 | PyTorch, logits in bf16 | **inf** |"), lines[3])

    # Fails if a defect that was not found looks like one that was.
    def test_a_defect_that_was_not_found(self):
        self.assertEqual(gpu_table([{"target": "cuda-mutant:x", "killed": False, "cases": 9}],
                                   [Mutant("x", "cuda-portable", "Depth", "what is wrong")]).splitlines()[2],
                         "| `x` | not found |  |  |  |")

    # Fails if shares are of one job's time, or shrinking counts as the harness's.
    def test_the_split_of_time(self):
        time = {"jobs": 2, "wall": 10.0, "target": 8.0, "oracle": 4.0, "arbiter": 1.0, "shrinking": 2.0, "expansion": 3.0}
        data = {"result": {"cases": 20000, "time": time, "campaign": {"targets": ["host"]}}}
        self.assertEqual(split_table([data]).splitlines()[2], "| `host` | 2 000 | 40 % | 20 % | 5 % | 25 % | 15 % |")

    # Fails if a key is cut, a hash is not, or a result that was carried over looks like one that was measured.
    def test_what_a_result_is_about(self):
        self.assertEqual(about({"stages": {}, "device": "GPU", "driver": "1.2", "cuda": "13.0", "date": "2026-11-22",
                                "trees": {"kernel": "0123456789abcdef", "fuzz": "v2-0123456789ab"}}),
                         "GPU, driver 1.2, CUDA 13.0, 2026-11-22, trees kernel 0123456789ab, fuzz v2-0123456789ab")
        context = {"device": "GPU", "driver": "NVRM version: 580.1.2  x", "cuda": "13.0", "cublas": "13.1", "kernel": "ab",
                   "date": "2026-11-22T01:00:00+00:00"}
        self.assertEqual(about({"context": context, "carried": {"to": "v2-0123456789ab"}}),
                         "GPU, driver 580.1.2, CUDA 13.0, cuBLAS 13.1, 2026-11-22, tree kernel ab, carried over to "
                         "v2-0123456789ab, whose main kernels have the same machine code")


if __name__ == "__main__":
    unittest.main()
