#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bench/store stretch-bounds` with a plumb that is scripted, and holds oracle/STRETCHES.md to what is stored."""

import contextlib
import io
import json
import struct
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from report.stored import ROOT, find
from store import stretch_bounds

# What host-hopper says of itself, and what each key adds to a bound of 8.
CONTRACT = {"tile": 64, "grad_hidden_stretch": 384, "grad_hidden_stretches": 32, "kept_argument": 2**-11}
ADDS = {"grad_hidden_stretch": -4, "grad_hidden_stretches": -2, "kept_argument": 1}
TENSORS = {"BF16": lambda data: [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)],
           "F16": lambda data: list(struct.unpack(f"<{len(data) // 2}e", data)),
           "F32": lambda data: list(struct.unpack(f"<{len(data) // 4}f", data)), "I64": lambda data: struct.unpack("<q", data)}


def read(path):
    """The tensors of a dump, by name: (dtype, values)."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    return {name: (its["dtype"], TENSORS[its["dtype"]](data[8 + length:][slice(*its["data_offsets"])]))
            for name, its in header.items() if name != "__metadata__"}


class StretchBounds(unittest.TestCase):
    def measure(self, column=0):
        self.dumps = []

        def ask(_, command, *words):
            if command == "targets":
                return 0, {"description": {"name": "host-hopper", "contract": CONTRACT}}
            self.dumps.append(read(words[0]))
            contract = json.loads(words[2].read_text(encoding="utf-8"))["contract"]
            self.assertEqual(contract["tile"], 64)
            bound = 8 + sum(adds for key, adds in ADDS.items() if key in contract)
            worst = {"row": 0, "column": column, "bound": bound}
            return 1, {"dumps": [{"outputs": [{"output": "logprob"}, {"output": "grad_hidden", "worst": worst}]}]}
        with mock.patch.object(stretch_bounds.plumb, "ask", ask), mock.patch.object(stretch_bounds, "VOCABULARIES", (32,)), \
                contextlib.redirect_stdout(io.StringIO()):
            return stretch_bounds.measure(Path("plumb"))

    # Fails if a contract keeps a key that it should lack, or lacks another, or a ratio is upside down.
    def test_three_contracts(self):
        found = self.measure()
        self.assertEqual(len(found), 8)
        for each in found:
            self.assertEqual(each["bounds"], {"earlier": 8.0, "stretches": 2.0, "stretches_and_exponents": 3.0})
            self.assertEqual(each["over_earlier"], {"stretches": 0.25, "stretches_and_exponents": 0.375})

    # Fails if logits are not exact: a value off the lattice, or one that the dtype rounds; or if both upstream gradients are
    # there.
    def test_the_dumps(self):
        found = self.measure()
        for each, dump in zip(found, self.dumps[::3]):
            kind, hidden = dump["hidden"]
            self.assertEqual(kind, stretch_bounds.DTYPES[each["dtype"]])
            self.assertEqual(len(dump["weight"][1]), 32 * stretch_bounds.H)
            self.assertLessEqual({abs(value) for value in hidden}, {0.5, 1.0})
            self.assertTrue(all((value / each["step"]).is_integer() and abs(value) <= 4 * each["step"]
                                for value in dump["weight"][1]))
            given = (dump["grad_logprob"][1][0], dump["grad_entropy"][1][0])
            self.assertEqual(given, stretch_bounds.UPSTREAM[each["upstream"]])

    # Fails if the bound of another element is taken, for which the contracts may differ, or a key that is not there is left
    # out.
    def test_faults(self):
        with self.assertRaisesRegex(ValueError, r"the worst is grad_hidden\[0, 1\]"):
            self.measure(column=1)
        with self.assertRaisesRegex(ValueError, "host-hopper has no kept_argument"):
            stretch_bounds.contract_without({"contract": {"tile": 1}}, ("kept_argument",))

    # Fails if the bounds were stored anew and STRETCHES.md still says those of before.
    def test_what_the_page_says(self):
        text = (ROOT / "oracle/STRETCHES.md").read_text(encoding="utf-8")
        stored = find("stretch-bounds.json").data["measured"]
        for dtype, forms in (("bf16", ("stretches", "stretches_and_exponents")), ("fp16", ("stretches",))):
            for form in forms:
                for upstream in stretch_bounds.UPSTREAM:
                    cells = []
                    for v in stretch_bounds.VOCABULARIES:
                        ratios = [each["over_earlier"][form] for each in stored
                                  if (each["dtype"], each["upstream"], each["v"]) == (dtype, upstream, v)]
                        cells.append(f"{min(ratios):.3f} to {max(ratios):.3f}")
                    words = "" if form == "stretches" else " and exponents"
                    self.assertIn(f"| {dtype}, stretches{words}, {upstream} | {' | '.join(cells)} |", text)


if __name__ == "__main__":
    unittest.main()
