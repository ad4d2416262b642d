#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store adapters: the shares judged of public kernels in Python, and what is said of those that are not there."""

import json
import os
import sys
import unittest
import unittest.mock
from pathlib import Path

from scratch import Tree

# Refuses cut_cross_entropy, notes how it was called, and says what the file says.
PLUMB = r"""
here=$(dirname "$0")
echo "$TRITON_INTERPRET $*" >>"$here/calls"
case "$*" in
  doctor*) echo '{"machine": {"cpu": "x"}, "verdict": "clean"}' ;;
  *cut_cross_entropy:*) echo "plumb: $2: no driver (in cce.py:3) ($PLUMBLINE_PYTHON)" >&2; exit 4 ;;
  fuzz*) cat "$here/said" ;;
esac
"""


def said(judged=3):
    target = {"cases": 4, "judged": judged, "fail": 1, "suspect": 0, "skip_reasons": {}, "signatures": {"bound:loss": 1}}
    sighting = {"signature": "bound:loss", "finding": {"what": "loss = 1 where 2 is required"}}
    return {"verdict": "findings", "elapsed_seconds": 3.0, "time": {"shrinking": 1.5}, "targets": [target],
            "sightings": [sighting]}


class Adapters(Tree):
    def setUp(self):
        super().setUp()
        self.copy(*(f"bench/store/adapted/{name}.py" for name in ("cce_functions", "fla_functions", "pytorch_functions",
                                                               "trl_functions", "unsloth_functions", "verl_on_cpu")))
        self.program("build/release/fuzz/plumb", PLUMB)
        self.program("bin/cmake", "")
        self.write(".gitignore", "build/\n")
        self.commit()

    def adapters(self, result, *words):
        """(status, stdout, stderr)."""
        self.write("build/release/fuzz/said", json.dumps(result) + "\n")
        path = f"{self.root}/bin:{os.environ['PATH']}"
        return self.run_store("adapters", "--python", sys.executable, *words, PATH=path)

    def stored(self):
        return json.loads((self.root / "bench/results/adapters.json").read_text(encoding="utf-8"))

    def calls(self):
        return (self.root / "build/release/fuzz/calls").read_text(encoding="utf-8").splitlines()

    # Fails if a kernel is left out, is not interpreted or has other cases than its kind, or if its share, its speed
    # without shrinking, its findings or its versions are not those of the campaign.
    def test_every_kernel_is_stored(self):
        self.assertEqual(self.adapters(said(), "--cases", 40, "--seconds", 9)[0], 0)
        found = self.stored()
        by_name = {each["kernel"]: each for each in found["adapters"]}
        eager = by_name["PyTorch, eager"]
        self.assertEqual((eager["drawn"], eager["judged"], eager["share"]), (4, 3, 0.75))
        self.assertEqual(eager["judged_per_second"], 2.0)
        self.assertEqual(eager["findings"], ["bound:loss: loss = 1 where 2 is required"])
        self.assertEqual(eager["versions"]["python"], sys.version.split()[0])
        self.assertEqual((found["device"], "python" in found["trees"]), ("cpu", True))
        fuzz = {line.split()[3]: line for line in self.calls() if " fuzz " in line}
        self.assertRegex(fuzz["python:pytorch_functions:eager"], "^0 .*--budget 40cases .*--jobs 1 --out ")
        self.assertRegex(fuzz["python:verl_on_cpu:linear_cross_entropy"], "^1 .*--budget 9s .*--case-timeout 300s ")
        compiled = fuzz["python:pytorch_functions:compiled"]
        self.assertRegex(compiled, "^0 .*--budget 9s .*--case-timeout 300s ")

    # Fails if a kernel that is not there is no record, has no reason or tells a folder, or counts as too little judged.
    def test_what_is_not_there_says_why(self):
        self.assertEqual(self.adapters(said())[0], 0)
        cce = next(each for each in self.stored()["adapters"] if each["kernel"] == "CCE")
        self.assertEqual(cce["unavailable"], "no driver (in cce.py:3)")
        self.assertNotIn("share", cce)

    # Fails if what is through is measured again, or what another interpreter measured is taken for it.
    def test_it_goes_on_where_it_was_interrupted(self):
        self.adapters(said())
        before = len(self.calls())
        self.adapters(said(judged=1))
        self.assertEqual(len(self.calls()), before + 1)  # doctor alone
        self.assertEqual(self.adapters(said(judged=1), "--seconds", 5)[0], 1)

    # Fails if a share below what is asked counts as held, or if one kernel alone is stored.
    def test_too_little_judged_is_status_one(self):
        self.assertEqual(self.adapters(said(judged=2), "--only", "Liger")[0], 1)
        self.assertEqual(self.adapters(said(judged=3), "--only", "Liger")[0], 0)
        self.assertFalse((self.root / "bench/results/adapters.json").exists())

    def test_usage(self):
        self.assertEqual(self.adapters(said(), "--only", "nonsense")[0], 2)
        self.assertEqual(self.adapters(said(), "--cases", 0)[0], 2)

    # Fails if a kernel's name on a GPU is another kernel's, or none's.
    def test_names_on_a_gpu(self):
        bench = Path(__file__).resolve().parents[3] / "bench"
        with unittest.mock.patch.object(sys, "path", [str(bench), str(bench / "store/adapted"), *sys.path]):
            import on_cuda
            from store.adapters import ADAPTERS
        named = {each.on_cuda: each.target for each in ADAPTERS.values() if each.on_cuda}
        self.assertEqual(named, on_cuda.KERNELS)


if __name__ == "__main__":
    unittest.main()
