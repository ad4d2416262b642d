#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store compare: what is stored of kernels that were compared, and of a comparison that goes on."""

import json
import os
import shutil
import unittest

from scratch import Tree
from store.adapters import ADAPTERS
from store.public_kernels import ran

# Compares what it is given: the second target of a pair is not there if it is CCE. Interrupted where a file says so, or for a
# target that one names.
PLUMB = r"""
here=$(dirname "$0")
echo "$CUDA_VISIBLE_DEVICES $*" >>"$here/calls"
case "$1" in
  doctor) echo '{"machine": {"cpu": "x"}, "verdict": "clean"}'; exit 0 ;;
esac
[ -e "$here/interrupt" ] && exit "$(cat "$here/interrupt")"
case "$*" in
  *"$(cat "$here/interrupted_for" 2>/dev/null || echo nothing)"*) exit 5 ;;
esac
shift
said=
while [ "${1#--}" = "$1" ]; do
  case "$1" in
    *cce*|*cut_cross*) entry="\"error\": \"no module named x\", \"verdict\": \"unavailable\"" ;;
    *) entry="\"verdict\": \"clean\", \"accuracy\": {\"seconds\": 0.5}" ;;
  esac
  said="$said${said:+, }{\"target\": \"$1\", $entry}"
  shift
done
echo "{\"yardstick\": \"fp32\", \"targets\": [$said], \"status\": 0}"
"""
PYTHON = """echo '{"device": "GPU", "python": "3", "torch": "2", "triton": "3", "numpy": "2"}'\n"""


class Compare(Tree):
    def setUp(self):
        super().setUp()
        self.program("build/release/fuzz/plumb", PLUMB)
        self.program("bin/cmake", "")
        self.program("bin/nvidia-smi", "printf '0, GPU-0\\n1, GPU-1\\n'\n")
        self.program("python", PYTHON)
        self.write(".gitignore", "build/\nbin/\npython\n")
        self.commit()

    def compare(self, *words):
        path = f"{self.root}/bin:{os.environ['PATH']}"
        return self.run_store("compare", "--python", self.root / "python", *words, PATH=path)

    # Fails if what a comparison says is lost where the machine is gone before its end.
    def test_a_log_is_there_while_it_runs(self):
        log = self.root / "x.log"
        self.assertEqual(ran(["sh", "-c", f"echo told >&2; cat {log}; exit 5"], {}, 60, log=log), (5, "told\n", "told\n"))

    # Fails if a kernel is left out or compared twice, or out of the list's order, if what is not there is hidden, or if what is
    # through runs again.
    def test_what_is_stored(self):
        status, text, error = self.compare("--cases", "7")
        self.assertEqual(status, 1, text + error)
        found = json.loads((self.root / "bench/results/comparison.json").read_text(encoding="utf-8"))
        kernels = [each["kernel"] for each in found["targets"]]
        self.assertEqual(len(kernels), len(set(kernels)))
        self.assertEqual(kernels[0], "plumbline, cuda")
        listed = [name for name in ADAPTERS if name in kernels]
        self.assertEqual(kernels[1:], listed)
        by_name = {each["kernel"]: each for each in found["targets"]}
        self.assertEqual(by_name["plumbline, cuda"]["target"], "cuda")
        self.assertNotIn("versions", by_name["plumbline, cuda"])
        self.assertIn("versions", by_name["CCE"])
        self.assertEqual((by_name["CCE"]["verdict"], by_name["CCE"]["error"]), ("unavailable", "no module named x"))
        self.assertNotIn("seconds", by_name["plumbline, cuda"]["accuracy"])
        self.assertEqual(found["yardstick"], "fp32")
        calls = self.root / "build/release/fuzz/calls"
        before = calls.read_text(encoding="utf-8").count(" compare ")
        self.assertIn("--cases 7", calls.read_text(encoding="utf-8"))
        self.assertIn("GPU-1 compare", calls.read_text(encoding="utf-8"))
        self.assertEqual(self.compare("--cases", "7")[0], 1)
        self.assertEqual(calls.read_text(encoding="utf-8").count(" compare "), before)
        # What one of the comparisons alone found in the operator is not lost.
        kept = self.root / "build/comparison/liger.json"
        kept.write_text(kept.read_text(encoding="utf-8").replace('"clean"', '"findings"', 1), encoding="utf-8")
        self.compare("--cases", "7")
        found = json.loads((self.root / "bench/results/comparison.json").read_text(encoding="utf-8"))
        self.assertEqual((found["targets"][0]["kernel"], found["targets"][0]["verdict"]), ("plumbline, cuda", "findings"))

    # Fails if what is through is lost with its folder, if it runs again on another machine or counts for other files, or if a
    # part passes for the whole.
    def test_goes_on_from_what_is_stored(self):
        calls, out = self.root / "build/release/fuzz/calls", self.root / "bench/results/comparison.json"
        self.write("build/release/fuzz/interrupted_for", "verl")
        status, text, _ = self.compare("--cases", "7")
        self.assertEqual((status, "not through are " in text), (5, True), text)
        found = json.loads(out.read_text(encoding="utf-8"))
        kernels = {each["kernel"] for each in found["targets"]}
        self.assertIn("plumbline, cuda", kernels)
        self.assertIn("verl, Triton kernel", found["waiting"])
        self.assertFalse(kernels & set(found["waiting"]))
        shutil.rmtree(self.root / "build/comparison")
        (self.root / "build/release/fuzz/interrupted_for").unlink()
        calls.unlink()
        self.assertEqual(self.compare("--cases", "7")[0], 1)
        again = calls.read_text(encoding="utf-8")
        self.assertNotIn("pytorch_eager", again)
        self.assertIn("verl", again)
        whole = json.loads(out.read_text(encoding="utf-8"))
        self.assertEqual((whole["waiting"], {each["kernel"] for each in whole["targets"]}), ([], kernels | set(found["waiting"])))
        shutil.rmtree(self.root / "build/comparison")
        self.assertEqual(self.compare("--cases", "8")[0], 1)
        self.assertIn("pytorch_eager", calls.read_text(encoding="utf-8"))

    # Fails if a comparison that was cut off or refused is stored, or is waited for for ever, or the operator is compared with none.
    def test_what_is_not(self):
        self.write("build/release/fuzz/interrupt", "5")
        status, text, _ = self.compare("--only", "CCE", "--out", self.root / "out.json")
        self.assertEqual(status, 5, text)
        self.assertFalse((self.root / "out.json").exists())
        self.assertEqual(self.compare("--minutes", "0")[0], 5)
        self.write("build/release/fuzz/interrupt", "2")
        status, _, error = self.compare("--only", "CCE")
        self.assertEqual((status, "ended with 2" in error), (3, True), error)
        status, _, error = self.compare("--only", "plumbline, cuda")
        self.assertEqual(status, 2)
        self.assertIn("is compared with a kernel", error)


if __name__ == "__main__":
    unittest.main()
