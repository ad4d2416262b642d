#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store inference: what is told of mutants and kernels, and what is stored."""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

from scratch import BENCH, Tree

sys.path.insert(0, str(BENCH))
from store import inference, sight

TABLE = """# A comment | host | that is | no mutant
first | host | TileLogits | same bits
    what is wrong
    v1 seed=1 | x
logits-rounded | host | TileLogits | same bits
other | cuda-portable | Depth | same bits
"""
KERNELS = 'PLANTED = {"both": ("s", "logits=bf16", "b", ("loss",))}\n'
# Says what the file says that is named after the target.
PLUMB = r"""
here=$(dirname "$0")
case $1 in
  doctor) echo '{"machine": {"cpu": "x"}, "verdict": "clean"}' ;;
  fuzz)
    echo "$*" >>"$here/calls"
    name=${3##*:}
    cat "$here/said-${name%@*}" 2>/dev/null || cat "$here/said"
    exit "$(cat "$here/status" 2>/dev/null || echo 1)" ;;
esac
"""
PYTHON = """echo '{"device": "", "python": "3", "torch": "2", "triton": "3", "numpy": "2"}'\n"""


def inferred(*declares, failing=9, unexplained=0, what="w"):
    shortcuts = [{"declares": each, "what": what} for each in declares]
    return {"shortcuts": shortcuts, "failing": failing, "unexplained": unexplained, "incomplete": ""}


def sighting(signature, seconds=1.0, shortcut=""):
    return {"signature": signature, "seconds": seconds, "regime": "r", "finding": {"what": "w", "shortcut": shortcut}}


def said(of, *sightings, parts=()):
    return {"inference": [of], "sightings": list(sightings), "parts": list(parts), "findings": len(sightings),
            "targets": [{"cases": 5, "judged": 4}]}


def run(seed, *named, failing=9, unexplained=0):
    return {"seed": seed, "named": list(named), "failing": failing, "unexplained": unexplained, "seconds": 1.0}


class Told(unittest.TestCase):
    # Fails if a mutant of a device, or a comment, counts as one of the host.
    def test_mutants_are_those_of_the_host(self):
        self.assertEqual(inference.mutants(TABLE), ["first", "logits-rounded"])

    # Fails if a shortcut that the sight of production knows is a bug here, or one is no mutant.
    def test_shortcuts_are_mutants_and_those_of_sight(self):
        known = set(inference.mutants(inference.TABLE.read_text(encoding="utf-8")))
        self.assertLessEqual(set(inference.SHORTCUTS), known)
        self.assertLessEqual({name for name, what in sight.DEFECTS.items() if what}, set(inference.SHORTCUTS))

    # Fails if a chunk that stands for one in all is a word, or a rounding without a key has no name.
    def test_words(self):
        self.assertEqual(inference.words_of(inferred("accumulator=bf16,vocab_chunk=64,row_chunk=1099511627776", "")),
                         ["accumulator=bf16,vocab_chunk=64", "no key: w"])

    # Fails if a seed in which another shortcut is named, or one more, counts as named rightly.
    def test_a_shortcut_is_named_by_its_words_alone(self):
        runs = [run(1, "logits=bf16"), run(2, "logits=fp16"), run(3), run(4, "logits=bf16", "d_logits=bf16")]
        found = inference.mutant_record("logits-rounded", runs)
        self.assertEqual((found["rightly"], found["seeds"]), (1, 4))
        self.assertEqual(found["names"], {"logits=bf16": [1], "logits=fp16": [2], "nothing": [3],
                                          "logits=bf16 and d_logits=bf16": [4]})

    # Fails if a bug that is explained in part, or as a whole, is not told.
    def test_a_bug_that_is_explained(self):
        runs = [run(1, failing=4, unexplained=4), run(2, "x=1", failing=4, unexplained=1), run(3, "x=1", failing=4),
                run(4, failing=0)]
        found = inference.mutant_record("first", runs)
        self.assertEqual((found["partly"], found["wholly"], found["explained"]), ([2], [3], [0, 3, 4, 0]))

    # Fails if a finding that a shortcut explains, one of another output, or a suspect one shows the bug.
    def test_what_shows_a_bug(self):
        of = ("s", "logits=bf16", "b", ("loss",))
        for expected, each in ((True, sighting("bound:loss")), (True, sighting("relation:columns-permuted:loss")),
                               (False, sighting("bound:loss", shortcut="logits rounded to bf16")),
                               (False, sighting("bound:lse")), (False, sighting("suspect-bound:loss"))):
            found = inference.kernel_record("both", of, said(inferred("logits=bf16"), sighting("bound:lse"), parts=[each]))
            self.assertEqual((found["bug_found"], found["rightly"]), (expected, True), each)

    # Fails if a kernel whose shortcut is named with another counts, or 10 of 12 are enough.
    def test_what_is_held(self):
        kernel = {"rightly": True, "bug_found": True}
        shortcut = {"shortcut": "w", "rightly": 2, "seeds": 2}
        bug = {"shortcut": None, "partly": [], "wholly": []}
        right = {"rightly": True, "findings": 0}
        for expected, records, kernels, of_right in (
            (True, [shortcut, bug], [kernel] * 11 + [kernel | {"bug_found": False}], right),
            (False, [shortcut, bug], [kernel] * 10 + [kernel | {"rightly": False}] * 2, right),
            (False, [shortcut | {"rightly": 1}, bug], [kernel] * 12, right),
            (False, [shortcut, bug | {"partly": [3]}], [kernel] * 12, right),
            (False, [shortcut, bug | {"wholly": [3]}], [kernel] * 12, right),
            (False, [shortcut, bug], [kernel] * 12, right | {"findings": 1}),
        ):
            self.assertEqual(inference.held(inference.figures(records, kernels), of_right), expected)

    # Fails if a kept record of another name is taken, or what is through runs again.
    def test_a_record_is_kept_once(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "first.json"
            self.assertEqual(inference.kept(path, lambda: {"mutant": "first"}), {"mutant": "first"})
            self.assertEqual(inference.kept(path, lambda: self.fail("runs again")), {"mutant": "first"})
            path.write_text('{"mutant": "other"}', encoding="utf-8")
            with self.assertRaises(inference.Refused):
                inference.kept(path, lambda: self.fail("runs again"))


class Stored(Tree):
    def setUp(self):
        super().setUp()
        self.program("build/release/fuzz/plumb", PLUMB)
        self.program("bin/cmake", "")
        self.program("python", PYTHON)
        self.write("tests/fuzz/python/targets/shortcut_and_bug.py", KERNELS)
        self.write("tests/fuzz/python/targets/shortcut_and_bug_kernels.py", "")
        self.write("fuzz/builtin/mutants/table.txt", TABLE)
        self.commit()
        for name, result in (("first", said(inferred(unexplained=9))), ("host", said(inferred(failing=0))),
                             ("logits-rounded", said(inferred("logits=bf16"))), ("right", said(inferred(failing=0))),
                             ("both", said(inferred("logits=bf16"), sighting("bound:loss")))):
            self.says(name, result)

    def says(self, name, result):
        self.write(f"build/release/fuzz/said-{name}", json.dumps(result) + "\n")

    def store(self, *words):
        path = f"{self.root}/bin:{os.environ['PATH']}"
        return self.run_store("inference", "--python", self.root / "python", "--seeds", "2", *words, PATH=path)

    # Fails if a mutant, a seed or a kernel is left out, or figures that are as asked are no success.
    def test_all_is_stored(self):
        status, _, error = self.store("--budget", "7s", "--seed", "3")
        self.assertEqual(status, 0, error)
        found = json.loads((self.root / "bench/results/inference.json").read_text(encoding="utf-8"))
        self.assertEqual([each["mutant"] for each in found["mutants"]], ["first", "logits-rounded", "host"])
        self.assertEqual((found["figures"]["named_rightly"], found["figures"]["both_named"]), (2, 1))
        calls = (self.root / "build/release/fuzz/calls").read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(calls), 8)
        self.assertIn("fuzz --target mutant:first@tensor-core-fp32 --infer --budget 1cases --seed 2", calls[3])
        self.assertTrue(any("python:shortcut_and_bug:both" in each and "--budget 7s --seed 3" in each for each in calls))

    # Fails if a bug that is explained away is a success, or what was interrupted is stored.
    def test_what_is_not_held(self):
        self.write("build/release/fuzz/status", "5")
        self.assertEqual(self.store()[0], 5)
        self.write("build/release/fuzz/status", "1")
        self.says("first", said(inferred("logits=bf16", failing=9, unexplained=3)))
        self.assertEqual(self.store()[0], 1)

    # Fails if it cannot go on because less memory is free, or goes on with other kernels.
    def test_it_goes_on(self):
        self.assertEqual(self.store()[0], 0)
        self.program("build/release/fuzz/plumb", PLUMB.replace('{"cpu": "x"}', '{"cpu": "x", "memory": "less"}'))
        self.assertEqual(self.store()[0], 0)
        self.write("tests/fuzz/python/targets/shortcut_and_bug_kernels.py", "other = 1\n")
        self.assertEqual(self.store()[0], 2)

    # Fails if --only stores something, or takes a name that there is not.
    def test_one_alone(self):
        status, out, _ = self.store("--only", "both")
        self.assertEqual((status, json.loads(out)["bug_found"]), (0, True))
        self.assertFalse((self.root / "bench/results/inference.json").exists())
        self.assertEqual(self.store("--only", "nonsense")[0], 2)


if __name__ == "__main__":
    unittest.main()
