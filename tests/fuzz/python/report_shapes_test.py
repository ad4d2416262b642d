#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests which shapes a report says that a campaign's cases had: its journal tells them by the elements of each output."""

import json
import pathlib
import sys
import tempfile
import unittest

from support import PACKAGE

sys.path.insert(0, str(PACKAGE))

from plumbline.report.journal import read_journal
from plumbline.report.shapes import GROUPS, places


class Shapes(unittest.TestCase):
    # Fails if an extent that a line does not tell is guessed, if elements of two targets are taken for those of one, or if a
    # case is counted in another regime or class.
    def test_shapes_of_a_journal(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        path = pathlib.Path(scratch.name) / "journal.jsonl"
        whole = {"p": [2, 0.5], "h": [30, 2, 0, 0, 9.0], "w": [33 * 16, 0.1]}  # N = 2, V = 33, H = 16
        doubled = {"p": [4, 0.5], "h": [64, 0.5], "w": [66 * 16, 0.1]}
        lines = [{"campaign": {"targets": ["host", "cuda+cuda-portable"]}},
                 *({"kind": kind, "regime": regime, "class": ["", "", "bf16", ""]} for kind, regime in enumerate("ab"))]
        for item, kind, more in ((0, 0, {"o": whole}), (2, 1, {"o": {"e": [129, 0.5]}}), (4, 1, {"o": whole, "s": 1}),
                                 (6, 1, {}), (8, 1, {"o": {"p": [0], "h": [0], "w": [528, 0.1]}}), (1, 0, {"o": doubled}),
                                 (3, 1, {"o": whole, "f": ["crash"]})):  # fmt: skip
            lines.append({"done": [item, 1, 1, kind]} | more)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        rows, vocabulary, hidden, unknown = (group for group, _ in GROUPS)
        of_a = {(rows, "2-7"): 2, (vocabulary, "1 mod 16"): 2, (hidden, "9-511"): 2}
        of_b = {(rows, ">128"): 1, (rows, "≤1"): 1, (unknown, "not told"): 5}
        self.assertEqual(read_journal(path).shapes, {"a": of_a, "b": of_b})

    # Fails if a class of shapes has another limit than a palette's, or its column another name.
    def test_classes_of_shapes(self):
        of_n = {0: "≤1", 1: "≤1", 2: "2-7", 7: "2-7", 8: "0 mod 8", 9: "other", 127: "other", 128: "0 mod 8", 129: ">128"}
        of_v = {0: "<16", 15: "<16", 16: "0 mod 16", 31: "15 mod 16", 33: "1 mod 16", 34: "other", 9_499: "other",
                9_500: "≥9500", 131_071: "≥9500", 131_072: "≥131072"}  # fmt: skip
        of_h = {0: "≤8", 8: "≤8", 9: "9-511", 511: "9-511", 512: "≥512"}
        for at, names in enumerate((of_n, of_v, of_h)):
            for extent, name in names.items():
                extents = [None] * at + [extent] + [None] * (2 - at)
                self.assertEqual(list(places(tuple(extents))), [(GROUPS[at][0], name), ("an extent", "not told")], extent)


if __name__ == "__main__":
    unittest.main()
