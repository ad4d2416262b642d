#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store planted-triton: what is stored of the hunts of planted defects, and what is refused."""

import json
import os
import unittest

from scratch import Tree

# Notes its arguments and says what the file says that is named after the target.
PLUMB = r"""
here=$(dirname "$0")
case $1 in
  doctor) echo '{"machine": {"cpu": "x"}, "verdict": "clean"}' ;;
  fuzz)
    echo "$TRITON_INTERPRET $*" >>"$here/calls"
    name=${3##*:}
    cat "$here/said-$name" 2>/dev/null || cat "$here/said"
    exit "$(cat "$here/status" 2>/dev/null || echo 1)" ;;
esac
"""
PYTHON = """echo '{"device": "%s", "python": "3", "torch": "2", "triton": "3", "numpy": "2"}'\n"""
TARGETS = 'PLANTED = {"first": "x", "second": "y"}\n'
# A campaign's own clock is ahead of the process's here: nothing is added to the seconds of a finding.
CLOCK = 1e9


def said(*seconds, **more):
    sightings = [{"signature": "bound:lse", "regime": "r", "seconds": each, "kept": {"values_after": 4}}
                 for each in seconds]
    target = {"cases": 9, "pass": 5, "fail": 2, "suspect": 1}
    return {"verdict": "x", "findings": len(seconds), "elapsed_seconds": CLOCK, "targets": [target], "parts": [],
            "sightings": sightings} | more


class PlantedTriton(Tree):
    def setUp(self):
        super().setUp()
        self.program("build/release/fuzz/plumb", PLUMB)
        self.program("bin/cmake", "")
        self.program("python", PYTHON % "")
        self.write("tests/fuzz/python/targets/planted_triton.py", TARGETS)
        self.write("tests/fuzz/python/targets/planted_triton_kernels.py", "")
        self.commit()
        self.says("right", said())

    def says(self, name, result):
        self.write(f"build/release/fuzz/said-{name}", result if isinstance(result, str) else json.dumps(result) + "\n")

    def hunt(self, *words):
        """(status, what it printed)."""
        path = f"{self.root}/bin:{os.environ['PATH']}"
        status, out, error = self.run_store("planted-triton", "--python", self.root / "python", *words, PATH=path)
        return status, out + error

    def result(self):
        return json.loads((self.root / "bench/results/planted-triton.json").read_text(encoding="utf-8"))

    def calls(self):
        path = self.root / "build/release/fuzz/calls"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    # Fails if a defect is left out or hunted with another, the first finding is not the earliest, or a figure is wrong.
    def test_figures_of_all_defects(self):
        self.says("first", said(30.0, 12.0))
        self.says("second", said(40.0))
        status, text = self.hunt("--budget", "7s", "--seed", 3)
        self.assertEqual(status, 1, text)  # 1.5 findings a cause
        found = self.result()
        self.assertEqual([each["defect"] for each in found["defects"]], ["first", "second"])
        self.assertEqual([each["first_finding_seconds"] for each in found["defects"]], [12.0, 40.0])
        self.assertEqual(found["figures"], {"defects": 2, "found": 2, "median_seconds": 26.0, "p90_seconds": 40.0,
                                            "findings_a_cause": 1.5})
        self.assertEqual((found["right"]["findings"], found["right"]["judged"], found["right"]["cases"]), (0, 8, 9))
        self.assertEqual(found["machine"]["device"], "CPU, Triton's interpreter")
        calls = self.calls()
        self.assertEqual(len(calls), 3)
        self.assertTrue(calls[0].startswith("1 fuzz --target python:planted_triton:first --python"), calls[0])
        self.assertIn("--budget 7s --seed 3 --jobs 1", calls[0])

    # Fails if the time from the start of the process to the campaign's own start is not counted.
    def test_the_start_is_counted(self):
        self.says("first", said(2.0, elapsed_seconds=-100.0))
        _, text = self.hunt("--only", "first")
        self.assertGreaterEqual(json.loads(text.partition("\n")[2])["first_finding_seconds"], 102.0)
        self.assertFalse((self.root / "bench/results/planted-triton.json").exists())

    # Fails if figures that are not as asked, or a finding of the kernels without a defect, count as held.
    def test_what_is_not_held_is_status_one(self):
        for expected, first, right in ((0, said(50.0), said()), (1, said(), said()), (1, said(400.0), said()),
                                       (1, said(50.0), said(1.0)), (1, said(61.0, 61.5), said())):
            with self.subTest(first=first["findings"], right=right["findings"]):
                self.run_git_clean()
                self.says("first", first)
                self.says("second", said(20.0))
                self.says("right", right)
                self.assertEqual(self.hunt()[0], expected)

    def run_git_clean(self):
        """Removes what earlier hunts left."""
        for path in (self.root / "build/campaigns").rglob("*.json"):
            path.unlink()

    # Fails if a defect that is not found makes the times of the others look like those of all.
    def test_what_is_not_found_takes_for_ever(self):
        self.says("first", said())
        self.says("second", said(20.0))
        self.assertEqual(self.hunt()[0], 1)
        found = self.result()["figures"]
        self.assertEqual((found["found"], found["median_seconds"], found["p90_seconds"]), (1, None, None))

    # Fails if what was interrupted or is no result is stored, or what is through already runs again.
    def test_partial_and_damaged_results(self):
        self.says("first", said(1.0))
        self.says("second", "no JSON\n")
        status, text = self.hunt()
        self.assertEqual(status, 3, text)
        self.assertFalse((self.root / "bench/results/planted-triton.json").exists())
        self.says("second", said(2.0))
        self.write("build/release/fuzz/status", "5")
        self.assertEqual(self.hunt()[0], 5)
        self.write("build/release/fuzz/status", "1")
        self.assertEqual(self.hunt()[0], 0)
        self.assertEqual(sum(":first " in call for call in self.calls()), 1)
        kept = self.root / "build/campaigns/planted-triton-5m-1/first.json"
        for damage in ("{", "[]", '{"defect": "second", "findings": 1}'):
            kept.write_text(damage, encoding="utf-8")
            self.assertEqual(self.hunt()[0], 2, damage)

    # Fails if campaigns of two trees, of two versions of the kernels or of two devices become one result.
    def test_other_files_are_refused(self):
        self.says("first", said(1.0))
        self.says("second", said(2.0))
        self.assertEqual(self.hunt()[0], 0)
        self.program("python", PYTHON % "a GPU")
        self.assertEqual(self.hunt()[0], 2)
        self.program("python", PYTHON % "")
        self.write("tests/fuzz/python/targets/planted_triton_kernels.py", "other = 1\n")
        self.assertEqual(self.hunt()[0], 2)

    # Fails if a result of carried programs names other keys than those that they were built with.
    def test_as_built_has_the_keys_that_are_given(self):
        self.says("first", said(1.0))
        self.says("second", said(2.0))
        keys, path = self.root / "keys", self.root / "elsewhere.json"
        keys.write_text("kernel v2-k\noracle v2-o\nfuzz v2-f\ntests v2-t\n", encoding="utf-8")
        self.assertEqual(self.hunt("--as-built", keys, "--out", path)[0], 0)
        found = json.loads(path.read_text(encoding="utf-8"))["trees"]
        self.assertEqual((found["kernel"], found["oracle"], found["fuzz"]), ("v2-k", "v2-o", "v2-f"))
        keys.write_text("kernel v2-k\n", encoding="utf-8")
        self.assertEqual(self.hunt("--as-built", keys, "--out", path)[0], 2)

    # Fails if campaigns wait for each other where they may run at once, or a result does not say that they did.
    def test_campaigns_run_at_once(self):
        # Each call waits until all three have begun.
        waiting = PLUMB.replace("    name=", """    touch "$here/begun-${3##*:}"
    until [[ -e $here/begun-first && -e $here/begun-second && -e $here/begun-right ]]; do sleep 0.02; done
    name=""")
        self.program("build/release/fuzz/plumb", waiting)
        self.says("first", said(1.0))
        self.says("second", said(2.0))
        self.assertEqual(self.hunt("--at-once", "3")[0], 0)
        self.assertEqual([each["defect"] for each in self.result()["defects"]], ["first", "second"])
        self.assertEqual(self.result()["at_once"], 3)
        self.assertEqual(self.hunt("--at-once", "0")[0], 2)

    # Fails if an interpreter without torch, an unknown defect or no defect at all is a traceback.
    def test_usage(self):
        self.assertEqual(self.hunt("--only", "nonsense")[0], 2)
        self.program("python", "echo 'no torch' >&2; exit 1")
        status, text = self.hunt()
        self.assertEqual(status, 4)
        self.assertIn("no torch", text)
        self.write("tests/fuzz/python/targets/planted_triton.py", "PLANTED = {}\n")
        self.assertEqual(self.hunt()[0], 2)


if __name__ == "__main__":
    unittest.main()
