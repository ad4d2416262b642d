#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the tables of `bench/peers`, and which results are kept."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from report.peer_tables import table
from scripted import Measured, measured, times


class Results(Measured):
    def test_table(self):
        found = self.measure(([measured("plumbline"), measured("slow", note="a note"),
                               {"peer": "no", "contract": "rows", "reason": "absent"},
                               *times(plumbline=(1.0, 4.0, 2.0), slow=(2.0, 8.0, 6.0)), {"done": True}], ""))
        lines = table("8x8x8", list(found.values())).splitlines()
        self.assertEqual(lines[4], "| plumbline | rows | 1.02 | 4.10 | 2.05 | 1.000 | 73 | 408 | 1.0e-04 | 1.0e-04 "
                                   "| 2.0e-03 | 2.0e-03 |")
        self.assertTrue(lines[5].startswith("| slow | rows | 2.05 | 8.20 |"))
        self.assertEqual(lines[7:], ["* slow: a note", "* no: not measured: absent"])
        stored = self.store("peers.json", {"shapes": {"8x8x8": list(found.values())}})
        self.assertEqual(self.run_script("peers", "--table", stored)[1].splitlines()[:len(lines)], lines)
        status, _, err = self.run_script("peers", "--table", stored, "--shapes", "8x8x9")
        self.assertEqual(status, 2)
        self.assertIn("it has no 8x8x9", err)

    def test_steps_of_all_shapes(self):
        both = self.measure(([measured("plumbline"), measured("fast"), *times(plumbline=(1.0, 4.0, 2.0),
                                                                            fast=(1.0, 2.0, 1.0)), {"done": True}], ""))
        ours = self.measure(([measured("plumbline"), {"peer": "fast", "contract": "rows", "reason": "absent"},
                              *times(plumbline=(1.0, 8.0, 2.0)), {"done": True}], ""))
        stored = self.store("peers.json", {"shapes": {"8x8x8": list(both.values()),
                                                      "8x8x9_half_ignored": list(ours.values())}})
        self.assertEqual(self.run_script("peers", "--steps", stored)[1].splitlines()[:4],
                         ["| step, ms | contract | 8x8x8 | 8x8x9, half ignored |", "|---|---|---:|---:|",
                          "| fast | rows | **2.05** | — |", "| plumbline | rows | 4.10 | **8.20** |"])

    def test_keeping_a_result(self):
        found = self.measure(([measured("plumbline"), {"peer": "no", "contract": "rows", "reason": "no /tmp/x/y.so"},
                               *times(plumbline=(1.0, 4.0, 2.0)), {"done": True}], ""))
        for tree, shapes, why in [("0123456789ab", {"8x8x8": list(found.values())}, None),
                                  ("0123456789ab-modified", {"8x8x8": list(found.values())}, "0123456789ab-modified"),
                                  ("0123456789ab", {}, "no shape")]:
            result = self.store("peers.json", {"kernel": tree, "machine": {"device": "NVIDIA H200"}, "shapes": shapes})
            status, out, err = self.run_script("peers", "--store", result, "--folder", self.root)
            kept = self.root / "peers-h200-0123456789ab.json"
            self.assertEqual(status, 2 if why else 0)
            self.assertIn(why or str(kept), err if why else out)
        self.assertIn('"no y.so"', kept.read_text(encoding="utf-8"))  # where a folder lies is one machine's business


if __name__ == "__main__":
    unittest.main()
