#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bench/store first-calls` with a program that says what a device would take."""

import json
import unittest

from scratch import Tree

# The first process of a shape takes 90 ms, the second 30, the third 40.
PASSES = """
echo run >>"$0.runs"
case "$1 $2 $3" in *" first_calls ours") ;; *) echo "usage" >&2; exit 2 ;; esac
case $(wc -l <"$0.runs") in 1) ms=90 ;; 2) ms=30 ;; *) ms=40 ;; esac
if [ -e "$0.fails" ]; then echo broken >&2; exit 1; fi
echo "{\\"first_ms\\": $ms, \\"second_ms\\": 2}"
"""


class FirstCalls(Tree):
    def setUp(self):
        super().setUp()
        self.program("bin/nvidia-smi", 'echo "GPU, 580.1"\n')
        self.passes = self.program("stage/passes_once", PASSES)
        self.write("stage/trees", "git=aaaaaaaaaaaa\nkernel=v2-bbbbbbbbbbbb\nmachine_code=cc\n")

    def measure(self, *words):
        status, out, error = self.run_store("first-calls", "--stage", self.root / "stage", "--shapes", "8x8x8", "--processes", "3",
                                            *words, PATH=f"{self.root}/bin:/usr/bin:/bin")
        return status, out + error

    # Fails if a process is measured twice, if the median is another number, or if the largest is lost.
    def test_figures(self):
        status, text = self.measure()
        self.assertEqual(status, 0, text)
        found = json.loads((self.root / "bench/results/first-calls.json").read_text(encoding="utf-8"))
        self.assertEqual(found["machine"], {"device": "GPU", "driver": "580.1"})
        shape, = found["measured"]
        self.assertEqual((shape["first_ms"], shape["second_ms"]["median"]), ({"median": 40, "largest": 90}, 2))

    # Fails if a fault of the program is a result, or a number of processes that measures nothing is taken.
    def test_faults(self):
        self.write("stage/passes_once.fails", "")
        status, text = self.measure()
        self.assertEqual(status, 3)
        self.assertIn("status 1: broken", text)
        self.assertEqual(self.measure("--processes", "0")[0], 2)
        self.assertFalse((self.root / "bench/results/first-calls.json").exists())


if __name__ == "__main__":
    unittest.main()
