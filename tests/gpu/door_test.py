#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/door: its stage, what runs beside what, what is kept of a run that is cut, and the table."""

import json
import os
import shutil
import subprocess
import sys
import time
import unittest
import zipfile

from python_targets import staging, steps
from python_targets.table import table
from scratch import HERE, Scratch

GPU = {"name": "NVIDIA H100", "driver": "580.1", "uuid": "GPU-0"}
RIGHT = {"judged_a_second": 71.5, "first_call_share": 0.104, "compilations": 90, "findings": 0}


def wheel_of(path, code=staging.DEVICE_CODE):
    """A wheel whose program says what it is called with."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in staging.BINARIES:
            archive.writestr(name, b"#!/bin/sh\necho plumb $*\nexit 0\n" + code)
    return path


class Stage(Scratch):
    def make(self, wheel, out="stage"):
        return staging.make_stage(self.root / out, lambda: {"fuzz": "v2-1"}, wheel, self.root)

    # Fails if a file is left out of the stage, or a wheel without the GPU's code travels: nothing would be measured.
    def test_the_stage_is_the_wheel_with_its_keys(self):
        lines = self.make(wheel_of(self.root / "a.whl"))
        names = {path.name for path in (self.root / "stage").iterdir()}
        self.assertLessEqual({"a.whl", "keys", "stage.json"}, names)
        self.assertEqual(len(lines), len(names))
        self.assertEqual((self.root / "stage/keys").read_text(), "fuzz v2-1\n")
        with self.assertRaisesRegex(staging.StageError, "has no code for a GPU"):
            self.make(wheel_of(self.root / "host.whl", b""))
        with self.assertRaisesRegex(staging.StageError, "is no wheel of this package"):
            self.make(self.write("text.whl", "text"))

    # Fails if --stage removes files that it did not make.
    def test_another_folder_is_left_alone(self):
        kept = self.write("mine/notes.txt", "")
        with self.assertRaisesRegex(staging.StageError, "is not a stage"):
            self.make(wheel_of(self.root / "a.whl"), "mine")
        self.assertTrue(kept.exists())

    # Fails if the staged program does not stand where the release build's does, if one of a build is overwritten, or if
    # a file that changed on its way is run.
    def test_unpacking(self):
        self.make(wheel_of(self.root / "a.whl"))
        stage, tree = self.root / "stage", self.root / "tree"
        for _ in range(2):
            self.assertEqual(staging.unpack(stage, tree)["wheel"], "a.whl")
        program = tree / "build/release/fuzz/plumb"
        self.assertEqual(subprocess.run([program, "x"], capture_output=True, check=True).stdout, b"plumb x\n")
        self.write("built/build/release/fuzz/plumb", "mine")
        with self.assertRaisesRegex(staging.StageError, "is a build of this tree"):
            staging.unpack(stage, self.root / "built")
        (stage / "keys").write_text("fuzz v2-2\n")
        with self.assertRaisesRegex(staging.StageError, "is not the file that was staged"):
            staging.unpack(stage, tree)
        with self.assertRaisesRegex(staging.StageError, "is no stage"):
            staging.unpack(self.root / "nowhere", tree)


class Steps(Scratch):
    def step(self, name, script, figures=steps.tests_of):
        return steps.Step(name, ["bash", "-c", script], figures, "asked")

    def run_all(self, its, plan, seconds=60.0):
        deadline = time.monotonic() + steps.MARGIN + seconds
        return steps.run_all({step.name: step for step in its}, plan, self.root, deadline, [GPU], {})["steps"]

    # Fails if anything shares the rate's GPU while it is measured, or a step is left out.
    def test_the_rate_is_alone_on_its_gpu(self):
        names = ["rate", "planted", "wheel", "heap", "sight"]
        for gpus, others in ((1, [("planted", 0), ("heap", 0), ("sight", 0)]), (2, [("planted", 1), ("heap", 1), ("sight", 1)])):
            first = [[[("rate", 0)], others]] if gpus == 1 else [[[("rate", 0)]], [others]]
            self.assertEqual(steps.lanes(names, gpus), [*first, [[("wheel", 0)]]])
        self.assertEqual(steps.lanes(["planted"], 2), [[[("planted", 1)]]])

    # Fails if a step that failed, was cut or had nothing to test counts as passed, or takes others with it.
    def test_outcomes(self):
        its = [self.step("rate", "echo 'Ran 3 tests in 1s'"), self.step("wheel", "echo 'FAILED (failures=1)'; exit 1"),
               self.step("heap", "echo 'PyTorch sees no GPU'; exit 77"), self.step("planted", "sleep 600")]
        found = self.run_all(its, [[[("wheel", 0), ("heap", 0)], [("planted", 0)], [("rate", 0)]]], 2.0)
        self.assertEqual({name: record["outcome"] for name, record in found.items()},
                         {"rate": "not run", "wheel": "failed", "heap": "unavailable", "planted": "cut"})
        self.assertEqual(found["heap"]["last"], "PyTorch sees no GPU")
        self.assertEqual(found["wheel"]["figures"]["failed"], 1)

    # Fails if what a step found is lost where the run is killed in a later one.
    def test_each_result_is_written_at_once(self):
        script = f"[[ $(<{self.root}/summary.json) == *'\"ran\": 3'* ]]"
        found = self.run_all([self.step("rate", "echo 'Ran 3 tests in 1s'"), self.step("heap", script)],
                             [[[("rate", 0)], [("heap", 0)]]])
        self.assertEqual(found["heap"]["outcome"], "passed")

    # Fails if the reason of a skipped test is lost, or a stored result that is not there is an error.
    def test_figures(self):
        text = "test_a (x) ... skipped 'no objdump'\nRan 2 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)\n"
        self.assertEqual(steps.tests_of(text, self.root), {"ran": 2, "failed": 3, "skipped": ["no objdump"]})
        read = steps.stored("r.json", ("right", "defective"))
        self.assertEqual(read("", self.root), {})
        self.write("r.json", json.dumps({"right": RIGHT, "defective": None}))
        self.assertEqual(read("", self.root), {"right": RIGHT})


class Table(unittest.TestCase):
    # Fails if a figure, or the reason of a step without one, is not in the table.
    def test_table(self):
        record = {"outcome": "passed", "seconds": 300.5, "asked": "60/s", "figures": {"right": RIGHT}}
        found = table({"devices": [GPU], "steps": {
            "rate": record | {"outcome": "cut", "last": "…"},
            "planted": record | {"figures": {"figures": {"found": 12, "defects": 12, "median_seconds": 9.5, "p90_seconds": None,
                                                         "findings_a_cause": 1.0}, "right": {"findings": 0}}},
            "wheel": record | {"figures": {"ran": 11, "failed": 0, "skipped": ["no nm"]}},
            "heap": record | {"outcome": "failed", "figures": {}, "last": "ImportError: x"}}}).splitlines()
        self.assertEqual(found[0], "NVIDIA H100 (driver 580.1)")
        self.assertTrue(found[2].endswith("71.5/s; 10.4% first calls, 90 compilations; 0 findings"), found[2])
        self.assertIn("12 of 12 found; median 9.5 s; p90 None s; 1.0 a cause; right: 0 findings", found[3])
        self.assertIn("11 tests, 0 failed; skipped: no nm", found[4])
        self.assertTrue(found[5].endswith("ImportError: x"), found[5])


class Command(Scratch):
    def setUp(self):
        super().setUp()
        self.tree = self.root / "tree"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(HERE / "python_targets", self.tree / "tests/gpu/python_targets", ignore=ignored)
        shutil.copy(HERE / "door", self.tree / "tests/gpu")
        shutil.copytree(HERE.parents[1] / "bench/store", self.tree / "bench/store", ignore=ignored)
        shutil.copytree(HERE.parents[1] / "bench/report", self.tree / "bench/report", ignore=ignored)
        (self.tree / "bench/results").mkdir()
        self.write("tree/tests/fuzz/python/wheel_test.py", "import os; assert os.environ['PLUMBLINE_WHEEL']; print('Ran 9 tests')")
        self.write("tree/tests/fuzz/python/device_test.py", "print('Ran 4 tests')")
        self.write("tools/nvidia-smi", "#!/bin/sh\necho 'NVIDIA H100, 580.1, GPU-0'\n", 0o755)

    def door(self, *words):
        path = f"{self.root / 'tools'}:{os.environ['PATH']}"
        done = subprocess.run([sys.executable, self.tree / "tests/gpu/door", *map(str, words)], capture_output=True, text=True,
                              cwd=self.root, env=os.environ | {"PATH": path}, check=False)
        return done.returncode, done.stdout + done.stderr

    # Fails if the command, its summary or its table does not go with the stage, or --store keeps a folder's name.
    def test_a_run(self):
        staging.make_stage(self.root / "stage", lambda: {"fuzz": "v2-1"}, wheel_of(self.root / "a.whl"), self.root)
        status, said = self.door("--from", "stage", "--out", "out", "--steps", "wheel,heap")
        self.assertEqual(status, 0, said)
        self.assertIn("9 tests, 0 failed", said)
        summary = json.loads((self.root / "out/summary.json").read_text())
        self.assertEqual(summary["trees"], {"fuzz": "v2-1"})
        self.assertEqual(summary["devices"], [{"name": "NVIDIA H100", "driver": "580.1"}])
        self.assertEqual(set(summary["versions"]), {"python", "torch", "triton", "numpy"})
        self.assertEqual(self.door("--store", "out")[0], 0)
        kept = self.tree / "bench/results/python-targets-gpu.json"
        self.assertEqual(json.loads(kept.read_text())["steps"]["heap"]["figures"]["ran"], 4)
        self.assertNotIn(str(self.root), kept.read_text())

    # Fails if a mistake of the caller's, a machine without a GPU or a missing stage is told as a failed step.
    def test_statuses(self):
        for words, status, said in (
            (["--steps", "none"], 2, "there are rate, planted"), (["--minutes", "0"], 2, "it is above 0"),
            (["--wheel", "x"], 2, "--wheel goes with --stage"), (["--from", "nowhere"], 3, "is no stage"),
            (["--store", "nowhere"], 2, ""),
        ):
            found = self.door(*words)
            self.assertEqual(found[0], status, found[1])
            self.assertIn(said, found[1])
        self.write("tools/nvidia-smi", "#!/bin/sh\nexit 9\n", 0o755)
        self.assertEqual(self.door("--from", "nowhere"), (4, "door: nvidia-smi names no GPU\n"))


if __name__ == "__main__":
    unittest.main()
