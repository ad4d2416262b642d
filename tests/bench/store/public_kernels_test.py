#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store public-kernels: what is stored of a kernel that was hunted, of one that is not there, and of the operator."""

import json
import os
import pathlib
import sys
import unittest

from scratch import Tree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

from store import public_kernels

# Says what the file says of eager PyTorch and the operator; the others are not there.
PLUMB = r"""
here=$(dirname "$0")
echo "$CUDA_VISIBLE_DEVICES $*" >>"$here/calls"
case "$*" in
  doctor*) echo '{"machine": {"cpu": "x"}, "verdict": "clean"}' ;;
  *on_cuda:pytorch_eager*) cat "$here/said"; exit 1 ;;
  *"--target cuda "*) cat "$here/said-cuda" ;;
  *) echo "plumb: fuzzing" >&2; echo "plumb: python:x: ModuleNotFoundError: No module named 'x'" >&2
     echo '{"status": 4}'; exit 4 ;;
esac
"""
PYTHON = """echo '{"device": "GPU", "python": "3", "torch": "2", "triton": "3", "numpy": "2"}'\n"""


def said(findings):
    target = {"target": "t", "cases": 10, "pass": 7, "fail": 1, "suspect": 0, "skip_reasons": {"empty": 2}}
    sighting = {"signature": "bound:loss", "regime": "mean", "seconds": 2.0, "finding": {"what": "loss = 1"}}
    shortcut = {"what": "logits rounded to bf16", "declares": "logits=bf16", "cases": 3, "output": "lse", "error": 0.1}
    return {"verdict": "findings" if findings else "clean", "elapsed_seconds": 5.0, "time": {"shrinking": 1.0},
            "targets": [target], "sightings": [sighting] * findings,
            "inference": [{"shortcuts": [shortcut] * findings, "incomplete": "" if findings else "it hangs"}]}


class PublicKernels(Tree):
    def setUp(self):
        super().setUp()
        self.program("build/release/fuzz/plumb", PLUMB)
        self.program("bin/cmake", "")
        self.program("bin/nvidia-smi", "printf '0, GPU-0\\n1, GPU-1\\n'\n")
        self.program("python", PYTHON)
        self.write(".gitignore", "build/\nbin/\npython\n")
        self.commit()
        self.write("build/release/fuzz/said", json.dumps(said(1)) + "\n")
        self.write("build/release/fuzz/said-cuda", json.dumps(said(0)) + "\n")

    def hunt(self, *words, **environment):
        path = f"{self.root}/bin:{os.environ['PATH']}"
        return self.run_store("public-kernels", "--python", self.root / "python", "--seconds", "5", *words, PATH=path, **environment)

    # Fails if a script that cannot be run is taken for one that shows the finding, or an exception that is the finding is not.
    def test_what_a_script_shows(self):
        missing = "Traceback (most recent call last):\n  File \"x\"\nModuleNotFoundError: No module named 'x'\n"
        compiling = "Traceback (most recent call last):\n  File \"x\"\ntriton.compiler.errors.CompilationError: at 1:2:\n  tl.dot\n"
        for signature, status, why, expected in (
            ("bound:lse", 1, "", True), ("bound:lse", 1, missing, False), ("bound:lse", 0, "", False), ("bound:lse", None, "", False),
            ("status:CompilationError@loss.3fa2c1", 1, compiling, True), ("status:CompilationError@loss.3fa2c1", 1, missing, False),
            ("status:CompilationError@loss.3fa2c1", 1, "loss has shape", True),
            ("status:KeyError@loss.3fa2c1", 1, missing.replace("Module", "KeyError: 1\n\nTraceback (most recent call last):\nModule"), False),
            ("crash", -11, "", True), ("crash (once)", 134, "", True), ("crash", 1, missing, False), ("hang", None, "", True),
            ("hang", 0, "", False),
        ):  # fmt: skip
            with self.subTest((signature, status, why)):
                self.assertIs(public_kernels.shows(signature, status, why), expected)
        lost = "exited with status 6, its device lost; its last line: CUDA: misaligned address (cudaErrorMisalignedAddress)"
        for status, why, expected in ((1, "torch.AcceleratorError: CUDA error: misaligned address\n", True), (1, missing, False),
                                      (0, "misaligned address", False), (-6, "", True)):  # fmt: skip
            with self.subTest((status, why)):
                self.assertIs(public_kernels.shows("crash", status, why, lost), expected)

    # Fails if shares, shortcuts, findings or the reason of what is not there are lost, or a kernel has no GPU.
    def test_what_is_stored(self):
        status, text, error = self.hunt()
        self.assertEqual(status, 0, text + error)
        found = json.loads((self.root / "bench/results/public-kernels.json").read_text(encoding="utf-8"))
        by_name = {each["kernel"]: each for each in found["kernels"]}
        eager, own, cce = by_name["PyTorch, eager"], by_name["plumbline, cuda"], by_name["CCE"]
        self.assertEqual((eager["share"], eager["judged_a_second"], eager["skipped"]), (0.8, 2.0, {"empty": 2}))
        self.assertEqual([each["declares"] for each in eager["shortcuts"]], ["logits=bf16"])
        self.assertEqual([(each["signature"], each["what"]) for each in eager["findings"]], [("bound:loss", "loss = 1")])
        self.assertEqual((own["verdict"], own["not_inferred"]), ("clean", ["it hangs"]))
        self.assertIn("No module named 'x'", cce["unavailable"])
        calls = (self.root / "build/release/fuzz/calls").read_text(encoding="utf-8")
        self.assertIn("GPU-1 fuzz", calls)
        self.assertNotIn("\n fuzz", calls)

    # Fails if a hunt goes to a GPU that is left to others, or a GPU that is not there is passed over in silence.
    def test_the_gpus_that_are_left(self):
        self.assertEqual(self.hunt(CUDA_VISIBLE_DEVICES="1")[0], 0)
        calls = (self.root / "build/release/fuzz/calls").read_text(encoding="utf-8")
        self.assertIn("GPU-1 fuzz", calls)
        self.assertNotIn("GPU-0 fuzz", calls)
        for visible, reason in (("1,3", "CUDA_VISIBLE_DEVICES 1,3: nvidia-smi names no GPU 3"), ("", "leaves no GPU")):
            status, text, error = self.hunt("--keep", self.root / "build/none", CUDA_VISIBLE_DEVICES=visible)
            self.assertEqual(status, 4)
            self.assertIn(reason, text + error)

    # Fails if what is through is run again, or a share below the threshold counts as enough.
    def test_it_goes_on_and_judges_the_share(self):
        self.hunt()
        before = (self.root / "build/release/fuzz/calls").read_text(encoding="utf-8").count("fuzz")
        little = said(1)
        little["targets"][0] |= {"cases": 100}
        self.write("build/release/fuzz/said", json.dumps(little) + "\n")
        self.assertEqual(self.hunt()[0], 0)
        self.assertEqual((self.root / "build/release/fuzz/calls").read_text(encoding="utf-8").count("fuzz"), before)
        self.assertEqual(self.hunt("--keep", self.root / "build/again")[0], 1)


if __name__ == "__main__":
    unittest.main()
