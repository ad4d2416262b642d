#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store limited: the shares of cases judged within declared capabilities, and of time that compiling takes."""

import json
import os
import unittest

from scratch import Tree

# Writes the log of a kernel's calls, notes what it can do, and says what the files say.
PLUMB = r"""
here=$(dirname "$0")
case $1 in
  doctor) echo '{"machine": {"cpu": "x"}, "verdict": "clean"}' ;;
  fuzz)
    echo "$LIMITED_CAPABILITIES $LIMITED_COMPILE_MS $LIMITED_DEFECT $*" >>"$here/calls"
    cat "$here/log" >>"$LIMITED_LOG"
    cat "$here/said" ;;
esac
"""
LOG = "first 1000 4 131072 512\ncall 5 4 17 512\ncall 5 4 16 8\n"
KEPT = {"values_after": 9, "explain": ["V: fails where V mod 8 is 1"]}


def said(judged=3, findings=0, shrinking=0.5, **more):
    target = {"cases": 4, "pass": judged, "fail": 0, "suspect": 0}
    return {"verdict": "clean", "findings": findings, "elapsed_seconds": 2.0, "time": {"shrinking": shrinking},
            "targets": [target], "sightings": []} | more


class Limited(Tree):
    def setUp(self):
        super().setUp()
        self.program("build/release/fuzz/plumb", PLUMB)
        self.program("bin/cmake", "")
        self.write("build/release/fuzz/log", LOG)
        self.commit()

    def limited(self, result, *words):
        """The status."""
        self.write("build/release/fuzz/said", json.dumps(result) + "\n")
        return self.run_store("limited", *words, PATH=f"{self.root}/bin:{os.environ['PATH']}")[0]

    # Fails if a set is left out or runs with other capabilities than its own, or if shares and reach are not those of
    # the campaign.
    def test_every_set_is_stored(self):
        self.limited(said(), "--cases", 4, "--minutes", 1)
        found = json.loads((self.root / "bench/results/limited.json").read_text(encoding="utf-8"))
        by_name = {each["set"]: each for each in found["sets"]}
        calls = (self.root / "build/release/fuzz/calls").read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(calls), len(by_name) + 1)
        self.assertEqual(by_name["vocab_multiple 256"]["capabilities"], {"vocab_multiple": 256})
        self.assertEqual(sum(line.startswith('{"vocab_multiple":256} ') for line in calls), 1)
        self.assertEqual(by_name["everything"]["share"], 0.75)
        self.assertEqual(by_name["everything"]["calls"], {"large_vocabulary": 1, "tail": 1, "depth": 2})
        self.assertEqual(found["compiling"]["first_call_share"], 0.25)
        self.assertEqual(found["compiling"]["shrinking_share"], 0.125)

    # Fails if a share below what is asked, a finding, or a defect that is not found counts as held.
    def test_what_is_not_held_is_status_one(self):
        self.assertEqual(self.limited(said(), "--only", "everything"), 0)
        self.assertEqual(self.limited(said(judged=2), "--only", "everything"), 1)
        self.assertEqual(self.limited(said(findings=1), "--only", "everything"), 1)
        self.assertEqual(self.limited(said(), "--only", "compiling"), 1)
        found = [{"seconds": 1.5, "signature": "bound:logprob", "kept": KEPT}]
        self.assertEqual(self.limited(said(sightings=found), "--only", "compiling"), 0)
        self.assertEqual(self.limited(said(sightings=found, shrinking=1.4), "--only", "compiling"), 1)

    def test_usage(self):
        self.assertEqual(self.limited(said(), "--only", "nonsense"), 2)
        self.assertEqual(self.limited(said(), "--cases", 0), 2)


if __name__ == "__main__":
    unittest.main()
