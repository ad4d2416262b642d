#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/COMPARISON.md: what is shown of kernels that were compared, and that it is left out where nothing is stored."""

import copy
import json
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from report.pages import pages, render
from report.stored import RESULTS
from results import Scratch

ERRORS = [{"output": "logprob", "typical": 0.155, "p99": 12345.0, "largest": "inf", "problems": 4, "units": 240}]
OWN = {"kernel": "plumbline, cuda", "target": "cuda", "verdict": "clean", "cases": 60, "judged": 60, "deterministic": "yes",
       "batch_invariant": "yes", "special_rows": "yes", "accuracy": {"judged": 4, "problems": 4, "changed": 0, "outputs": ERRORS}}
OTHER = {**OWN, "kernel": "CCE", "versions": {"torch": "2.11.0+cu130", "triton": "3.6.0", "cut_cross_entropy": "25.1.1", "python": "3"},
         "judged": 41, "shortcuts": ["logits rounded to bf16"], "special_rows": "no", "deterministic": "no",
         "findings": [{"signature": "bound:logprob", "what": "off by\n 3", "suspect": True}, {"signature": "nonfinite:lse", "what": "NaN"}],
         "skipped": [{"cases": 19, "reason": "no temperature"}], "limits": ["H a multiple of 8"]}
GONE = {"kernel": "Megatron", "versions": {"torch": "2.11.0", "megatron-core": "missing"}, "target": "python:x", "verdict": "unavailable", "cases": 0, "error": "no module named x"}
STORED = {"command": "python3 bench/store compare --python PYTHON --cases 60 --problems 12 --palette 6", "date": "2026-11-28",
          "trees": {"kernel": "v2-0123456789ab"}, "machine": {"device": "NVIDIA H200", "torch": "2.11.0", "triton": "3.6.0", "cpu": "x", "cores": "16", "compiler": "g++"},
          "yardstick": "tensor-core-fp32", "waiting": ["Liger"], "targets": [OWN, OTHER, GONE]}


class ComparisonPage(Scratch):
    def page(self, found):
        folder = self.root / "results"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "comparison.json").write_text(json.dumps(found), encoding="utf-8")
        return render("comparison", folder)

    # Fails if a kernel, a finding or what is left out is not shown, a suspect finding counts as wrong, or a number is another.
    def test_everything_is_shown(self):
        text = self.page(STORED)
        for line in ("| plumbline, cuda | this tree | 60 of 60 | 0 | 0 | 0 | yes | yes | as defined |",
                     "| CCE | cut_cross_entropy 25.1.1 | 41 of 60 | 1 | 1 | 1 | no | yes | wrong |",
                     "| Megatron | megatron-core missing | unavailable | – | – | – | – | – | – |",
                     "| CCE | 4 of 4 | 0.15 / 1e+04 / inf | – | – | – | – |",
                     "  * suspect: bound:logprob: off by 3", "  * wrong: nonfinite:lse: NaN", "  * shortcut: logits rounded to bf16",
                     "  * limit: H a multiple of 8", "  * 19 cases skipped: no temperature", "  * unavailable: no module named x",
                     "Not compared yet: Liger.", "60 cases of\nseed 1 in 6 shapes"):
            self.assertIn(line, text)
        whole = copy.deepcopy(STORED) | {"waiting": []}
        self.assertIn("Every kernel that could be loaded came to its end.", self.page(whole))

    # Fails if the page is asked for without a result, or left out with one.
    def test_it_is_there_with_its_result(self):
        self.page(STORED)
        self.assertIn("comparison", pages(self.root / "results"))
        self.assertEqual("comparison" in pages(), (RESULTS / "comparison.json").exists())
        (self.root / "results/comparison.json").unlink()
        self.assertNotIn("comparison", pages(self.root / "results"))


if __name__ == "__main__":
    unittest.main()
