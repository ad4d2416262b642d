#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store triton-rate: the rate after the warm-up, the shares, and what is stored of a run that is cut short."""

import json
import os
import unittest

from scratch import Tree

# Notes two compilations and one that was read from the cache, prints the progress, and says what the file says that is
# named after the target.
PLUMB = r"""
here=$(dirname "$0")
case $1 in
  doctor) echo '{"machine": {"cpu": "x"}, "verdict": "clean"}' ;;
  fuzz)
    name=${3##*:}
    printf '10.0 0\n5.0 0\n1.0 1\n' >"$COMPILE_LOG"
    cat "$here/progress" >&2
    cat "$here/said-$name"
    exit "$(cat "$here/status-$name")" ;;
esac
"""
PYTHON = """echo '{"device": "%s", "python": "3", "torch": "2", "triton": "3", "numpy": "2"}'\n"""
def at(seconds, cases, judged):
    """What plumb says of its progress."""
    return json.dumps({"progress": {"seconds": seconds, "cases": cases, "judged": judged}}, separators=(",", ":")) + "\n"


SIGHTING = {"signature": "bound:lse", "regime": "free", "seconds": 3.21, "finding": {"what": "lse 0.5 off"}}


def said(findings, shrinking):
    target = {"cases": 21100, "skipped": 100, "pass": 20900, "fail": 0, "suspect": 0}
    return {"verdict": "x", "findings": findings, "elapsed_seconds": 300.0, "targets": [target],
            "time": {"shrinking": shrinking}, "sightings": [SIGHTING] * findings}


class TritonRate(Tree):
    def setUp(self):
        super().setUp()
        self.program("build/release/fuzz/plumb", PLUMB)
        self.program("bin/cmake", "")
        self.program("python", PYTHON % "GPU")
        for name in ("planted_triton.py", "planted_triton_kernels.py"):
            self.write(f"tests/fuzz/python/targets/{name}", "")
        self.commit()
        self.says("right", 0, said(0, 0.0))
        self.says("phantom_columns", 1, said(1, 90.0))
        self.write("build/release/fuzz/progress", "plumb: words\n" + at(50.2, 900, 880) + at(60.0, 1100, 900) + at(61, 2000, 1800))

    def says(self, name, status, result):
        self.write(f"build/release/fuzz/said-{name}", json.dumps(result) + "\n")
        self.write(f"build/release/fuzz/status-{name}", str(status))

    def measure(self, *words):
        """(status, what it printed, the stored result)."""
        path = f"{self.root}/bin:{os.environ['PATH']}"
        status, out, error = self.run_store("triton-rate", "--python", self.root / "python", *words, PATH=path)
        kept = self.root / "bench/results/triton-rate.json"
        return status, out + error, json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}

    # Fails if the warm-up, or cases that were skipped or not judged, count in the rate; or a share is wrong.
    def test_figures(self):
        status, text, found = self.measure()
        self.assertEqual(status, 0, text)
        right, defective = found["right"], found["defective"]
        self.assertEqual(right["judged_a_second"], round((20900 - 900) / 240, 1))
        self.assertEqual((right["compilations"], right["first_call_share"]), (2, round(16 / 300, 4)))
        self.assertEqual(defective["shrinking_share"], 0.3)
        sighting, = defective["found"]
        self.assertEqual((sighting["signature"], sighting["seconds"], sighting["what"]), ("bound:lse", 3.2, "lse 0.5 off"))
        self.assertEqual(found["machine"]["device"], "GPU")

    # Fails if a figure that is not as asked counts as held.
    def test_what_is_not_held_is_status_one(self):
        for name, result in (("right", said(1, 0.0)), ("phantom_columns", said(1, 120.0)), ("phantom_columns", said(0, 0.0))):
            self.setUp()
            self.says(name, 0, result)
            self.assertEqual(self.measure()[0], 1, (name, result))

    # Fails if what the first campaign measured is lost where the second has no result.
    def test_what_was_measured_is_kept(self):
        self.says("phantom_columns", 4, {})
        status, text, found = self.measure()
        self.assertEqual(status, 4, text)
        self.assertGreater(found["right"]["judged_a_second"], 0)
        self.assertIsNone(found["defective"])

    # Fails if an interrupted campaign loses what it measured, or the next one begins all the same.
    def test_an_interrupted_campaign_is_kept(self):
        self.says("right", 5, said(0, 0.0))
        status, text, found = self.measure()
        self.assertEqual(status, 5, text)
        self.assertTrue(found["right"]["interrupted"])
        self.assertGreater(found["right"]["judged_a_second"], 0)
        self.assertIsNone(found["defective"])

    # Fails if a campaign that is over before the warm-up has a rate.
    def test_no_progress_after_the_warm_up(self):
        status, text, _ = self.measure("--warm-up", "100")
        self.assertEqual(status, 3, text)
        self.assertIn("no progress between 100 s and the end", text)
        self.assertEqual(self.measure("--seconds", "60")[0], 2)


if __name__ == "__main__":
    unittest.main()
