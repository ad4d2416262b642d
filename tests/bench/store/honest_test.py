#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store honest: campaigns of foreign kernels in pieces, and the one result that is stored of them."""

import json
import os
import unittest

from scratch import Tree

# Notes its arguments, begins a journal, and ends as the file `fuzz` says.
PLUMB = r"""
here=$(dirname "$0")
case $1 in
  doctor) echo '{"machine": {"cpu": "x"}, "verdict": "clean"}' ;;
  fuzz)
    echo "$*" >>"$here/calls"
    while (($#)); do [[ $1 != --out ]] || { mkdir -p "$2"; touch "$2/journal.jsonl"; }; shift; done
    cat "$here/said"
    exit "$(cat "$here/fuzz" 2>/dev/null || echo 0)" ;;
esac
"""
SAID = {"verdict": "clean", "findings": 0, "targets": [
    {"cases": 4, "pass": 2, "fail": 0, "suspect": 0, "skipped": 1, "vacuous": 1, "signatures": {}, "tightness": {"lse": 0.5}}]}
KERNELS = 'Kernel{.name = "a-b", .x = 1},\nKernel{.name = "c2"},\n'


class Honest(Tree):
    def setUp(self):
        super().setUp()
        self.program("build/release/fuzz/plumb", PLUMB)
        self.program("bin/cmake", "")
        self.write("tests/fuzz/honest/kernels.cc", KERNELS)
        self.commit()
        self.tell("said", json.dumps(SAID) + "\n")

    def tell(self, what, text):
        self.write(f"build/release/fuzz/{what}", str(text))

    def honest(self, *words):
        """(status, stderr)."""
        return self.run_store("honest", *words, PATH=f"{self.root}/bin:{os.environ['PATH']}")[::2]

    def calls(self):
        return (self.root / "build/release/fuzz/calls").read_text(encoding="utf-8").splitlines()

    # Fails if a kernel is left out, if the cases do not add up, if an interrupted campaign begins anew, if one that is
    # through runs again, or if something is stored before the end.
    def test_pieces(self):
        self.tell("fuzz", 5)
        self.assertEqual(self.honest(9)[0], 5)
        self.assertEqual(self.names(), [])
        self.tell("fuzz", 0)
        self.assertEqual(self.honest(9), (0, ""))
        out = f"{self.root}/build/campaigns/honest-9"
        plugin = f"plugin:{self.root}/build/release/tests/fuzz/honest/honest-"
        self.assertEqual(self.calls(), [
            f"fuzz --target {plugin}a-b.so --budget 5cases --seed 1 --jobs 1 --out {out}/a-b --json",
            f"fuzz --resume {out}/a-b --json",
            f"fuzz --target {plugin}c2.so --budget 4cases --seed 1 --jobs 1 --out {out}/c2 --json"])
        self.assertEqual(self.honest(9), (0, ""))
        self.assertEqual(len(self.calls()), 3)

    # Fails if a number or a kernel of the result is lost, or the files that it is about.
    def test_what_is_stored(self):
        self.assertEqual(self.honest(8), (0, ""))
        found = json.loads((self.root / "bench/results/honest-kernels.json").read_text(encoding="utf-8"))
        self.assertEqual(set(found["trees"]), {"kernel", "oracle", "fuzz", "honest"})
        self.assertEqual((found["cases"], found["judged"], found["findings"]), (8, 4, 0))
        self.assertEqual([each["kernel"] for each in found["runs"]], ["a-b", "c2"])
        self.assertEqual(found["runs"][0], {
            "kernel": "a-b", "verdict": "clean", "cases": 4, "judged": 2, "suspect": 0, "skipped": 1, "vacuous": 1,
            "findings": 0, "signatures": {}, "tightness": {"lse": 0.5}})

    # Fails if the kernels that round to 16 bits are left out, or stored as the others.
    def test_narrow(self):
        self.write("tests/fuzz/honest/kernels_narrow.cc", 'Kernel{.name = "bf16-x"},\n')
        self.commit()
        self.assertEqual(self.honest(4, "--narrow"), (0, ""))
        found = json.loads((self.root / "bench/results/narrow-kernels.json").read_text(encoding="utf-8"))
        self.assertEqual(found["command"], "python3 bench/store honest 4 --narrow")
        self.assertEqual([each["kernel"] for each in found["runs"]], ["bf16-x"])
        self.assertEqual(self.names(), ["narrow-kernels.json"])

    # Fails if a finding is not stored, or not said by the status.
    def test_a_finding(self):
        self.tell("said", json.dumps({**SAID, "verdict": "findings", "findings": 1}) + "\n")
        self.tell("fuzz", 1)
        self.assertEqual(self.honest(8)[0], 1)
        self.assertEqual(self.names(), ["honest-kernels.json"])

    # Fails if campaigns go on after a kernel changed.
    def test_another_tree(self):
        self.tell("fuzz", 5)
        self.honest(8)
        self.write("tests/fuzz/honest/kernels.cc", KERNELS + "x")
        status, err = self.honest(8)
        self.assertEqual(status, 2)
        self.assertIn("was begun with other files", err)

    # Fails if a number of cases that is none, or too small, is taken.
    def test_arguments(self):
        for words in ([], ["x"], ["1"], ["8", "--jobs", "0"]):
            self.assertEqual(self.honest(*words)[0], 2, words)


if __name__ == "__main__":
    unittest.main()
