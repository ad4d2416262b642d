#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store speed: pieces by shape, which are joined, gone on with, and refused where they do not belong together."""

import json
import unittest

from scratch import Tree

# Lists three benchmarks, and writes those that the filter names as exact alternatives. `said` has each call.
RUN = r"""
here=$(dirname "$0")
for word; do
  case $word in
    --benchmark_list_tests) printf '%s/iterations:1/manual_time\n' forward/8x8x8 forward/9x8x8 burst/forward/8x8x8; exit ;;
    --benchmark_filter=*) names=${word#*^(}; names=${names%)$} ;;
  esac
done
echo "$names" >>"$here/said"
IFS='|'
list=
for name in $names; do list="$list${list:+, }{\"name\": \"$name\", \"run_name\": \"$name\"$(cat "$here/error")}"; done
echo "{\"context\": {\"device\": \"$(cat "$here/device")\"}, \"benchmarks\": [$list]}" >"$OUT"
exit "$(cat "$here/status")"
"""
LAST = "/iterations:1/manual_time"


class Speed(Tree):
    def setUp(self):
        super().setUp()
        self.program("stage/run", RUN)
        for name, text in (("device", "X"), ("error", ""), ("status", "0"), ("said", "")):
            self.write(f"stage/{name}", text)
        self.out = self.root / "out.json"

    def measure(self, *words):
        status, out, error = self.run_store("speed", "--stage", self.root / "stage", "--out", self.out, *words)
        return status, out + error

    def calls(self):
        return (self.root / "stage/said").read_text(encoding="utf-8").splitlines()

    # Fails if a shape's benchmarks are not one piece, a name is matched by a part of itself, or a piece is lost.
    def test_pieces_are_joined(self):
        status, text = self.measure()
        self.assertEqual(status, 0, text)
        self.assertEqual(self.calls(), [f"forward/8x8x8{LAST}|burst/forward/8x8x8{LAST}", f"forward/9x8x8{LAST}"])
        found = json.loads(self.out.read_text(encoding="utf-8"))
        self.assertEqual([entry["name"].removesuffix(LAST) for entry in found["benchmarks"]],
                         ["forward/8x8x8", "burst/forward/8x8x8", "forward/9x8x8"])

    # Fails if a call without time measures, does not say what is left, or measures a piece anew that is there.
    def test_what_is_left_is_gone_on_with(self):
        status, text = self.measure("--minutes", "0")
        self.assertEqual(status, 5, text)
        self.assertIn("2 of 2 pieces are left: 8x8x8, 9x8x8", text)
        self.assertEqual(self.calls(), [])
        self.assertEqual(self.measure("--only", "9x8")[0], 0)
        self.assertEqual(self.measure()[0], 0)
        self.assertEqual(len(self.calls()), 2)

    # Fails if pieces of two devices are joined, or one with other benchmarks than are asked for is taken.
    def test_pieces_that_do_not_belong_together(self):
        self.assertEqual(self.measure("--only", "9x8")[0], 0)
        self.write("stage/device", "Y")
        status, text = self.measure()
        self.assertEqual(status, 2)
        self.assertIn("pieces with device 'Y' and 'X'", text)
        status, text = self.measure("--only", "burst|9x8")
        self.assertEqual(status, 2)
        self.assertIn("other benchmarks", text)

    # Fails if a benchmark's failure is a success, or a program that says nothing is a result.
    def test_failures(self):
        self.write("stage/error", ', "error_occurred": true, "error_message": "nan"')
        self.write("stage/status", "1")
        self.assertEqual(self.measure("--only", "9x8")[0], 1)
        self.write("stage/status", "134")
        status, text = self.measure("--only", "burst")
        self.assertEqual(status, 3)
        self.assertIn("status 134", text)
        status, text = self.measure("--only", "nothing")
        self.assertEqual(status, 2)
        self.assertIn("--only 'nothing' matches no benchmark", text)


if __name__ == "__main__":
    unittest.main()
