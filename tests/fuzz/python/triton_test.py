# SPDX-License-Identifier: Apache-2.0
"""Triton kernels under its interpreter: a public one by its name alone, the operator, and a planted defect of it."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE, TARGETS, fuzz, plumb

LIGER = "liger_kernel.transformers.functional:liger_fused_linear_cross_entropy"
CASES = 6
RIGHT_CASES = 40
# Hunts a defect from Python and says where the script of its finding lies.
HUNT = """
import json, sys
sys.path[:0] = {path!r}
import planted_triton, plumbline
campaign = plumbline.fuzz(
    planted_triton.phantom_columns, "60cases", seed=1, jobs=1, out={out!r}, regime="small-vocabulary",
    options=["--stop-after", "1", "--shrink-tries", "120"],
)
found = campaign.findings[0]
print(json.dumps({{"explained": found.explanation, "values": campaign.json["sightings"][0]["kept"]["values_after"],
                   "what": found.what, "script": found.repro()}}))
"""
# The keys of a function's answers: in a worker, in a script, and in a worker with another configuration.
KEYS = """
import os, sys
sys.path[:0] = {path!r}
from plumbline import loading
from plumbline.probing.found import _key
name = "planted_triton:right"
worker = loading.load(name)
assert worker.cannot_show
keys = [_key(worker), _key(loading.bound(name, loading.find(name)))]
os.environ["PLUMBLINE_AUTOTUNE"] = "1"
print(*keys, _key(worker))
"""
# Launches of a stand-in for a kernel: two that compile, the second from the cache, and one that does not.
LAUNCHES = """
import sys
sys.path[:0] = {path!r}
from triton import knobs
from triton.runtime.jit import JITFunction
def launch(self, hit):
    if hit is not None:
        knobs.compilation.listener(src=None, metadata=None, metadata_group=None, times=None, cache_hit=hit)
JITFunction.run = launch
import compile_log
for hit in (False, True, None):
    JITFunction.run(None, hit)
"""


class Triton(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)
        self.out = self.folder / "out"
        self.environment = {"TRITON_INTERPRET": "1", "XDG_CACHE_HOME": self._folder.name}

    # Fails if a public kernel cannot be fuzzed by its name: not identified, refused, out of memory or not judged.
    def test_a_public_kernel_by_its_name(self):
        status, text, _ = plumb("targets", f"python:{LIGER}", environment=self.environment)
        self.assertEqual(status, 0, text)
        self.assertIn("returns=('nll',)", text)
        status, text, report = fuzz(LIGER, self.out, CASES, "--no-infer", environment=self.environment, timeout=800)
        print("\n".join(line for line in text.splitlines() if line.startswith("finding ")))
        self.assertIn(status, (0, 1), text)  # 3 is a fault of the harness
        self.assertGreaterEqual(report["judged"], CASES * 6 // 10, text)
        for log in self.out.rglob("*.log"):
            self.assertNotIn("MemoryError", log.read_text(errors="replace"), log)

    # Fails if kernels that are right have a finding, or cases of them are not judged.
    def test_kernels_without_a_defect_have_no_finding(self):
        status, text, report = fuzz("planted_triton:right", self.out, RIGHT_CASES, environment=self.environment)
        self.assertEqual(status, 0, text)
        self.assertGreaterEqual(report["judged"], RIGHT_CASES * 9 // 10, text)

    # Fails if a tail that is not masked is not found, is not shrunk to few values, or has no rule of the vocabulary; if
    # the script of the finding needs plumbline or shows nothing; or if it fails on kernels without a defect.
    def test_a_tail_without_a_mask(self):
        hunt = HUNT.format(path=[str(PACKAGE), str(TARGETS)], out=str(self.out))
        ended = self._run("-c", hunt)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        found = json.loads(ended.stdout.splitlines()[-1])
        self.assertLessEqual(found["values"], 9, found["what"])
        self.assertRegex("\n".join(found["explained"]), r"(?m)^V: fails ", found["what"])
        script = self.folder / "script.py"
        mended = found["script"].replace("import phantom_columns as kernel", "import right as kernel")
        for text, status, words in ((found["script"], 1, "<-- wrong"), (mended, 0, "<-- within the bound")):
            script.write_text(text)
            # -I: neither this package nor the variables that name it are there.
            ended = self._run("-I", str(script))
            self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
            self.assertIn(words, ended.stdout)

    # Fails if a script asks a function again because a worker knows what its run cannot show; or if answers of one
    # autotuned configuration are taken for those of another.
    def test_a_script_finds_the_answers_of_a_worker(self):
        ended = self._run("-c", KEYS.format(path=[str(PACKAGE), str(TARGETS)]))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        worker, script, other = ended.stdout.split()
        self.assertEqual(worker, script)
        self.assertNotEqual(worker, other)

    # Fails if a launch that compiles is not told from one that does not, so that a share of first calls is 0 or all.
    def test_launches_that_compile_are_noted(self):
        log = self.folder / "log"
        self.environment |= {"COMPILE_LOG": str(log)}
        del self.environment["TRITON_INTERPRET"]
        folders = [str(PACKAGE), str(TARGETS), str(TARGETS.parents[3] / "bench/store/timed")]
        ended = self._run("-c", LAUNCHES.format(path=folders))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual([line.split()[1] for line in log.read_text().splitlines()], ["0", "1"])

    def _run(self, *words):
        return subprocess.run(
            [sys.executable, *words], cwd=self.folder, env={**os.environ, **self.environment}, capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip


if __name__ == "__main__":
    unittest.main()
