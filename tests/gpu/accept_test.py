#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/accept on a tree and a stage made here: what is stale, what is run again, how it ends. Needs no GPU."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "accept"

OF_CORPUS = 3  # calls of the stage: a target each

# Stands in for plumb: notes how it was called, and does what the file `deed` beside it says.
PLUMB = """#!/bin/bash
here=$(dirname "$0")
echo "$*" >>"$here/calls"
case "$(cat "$here/deed" 2>/dev/null)" in
  fail) echo '{"cases": 3, "findings": 1, "verdict": "findings"}'; exit 1 ;;
  sleep)
    trap 'echo "{\\"cases\\": 1}"; exit 5' INT
    while [[ $# -gt 0 ]]; do [[ $1 == --out ]] && mkdir -p "$2" && touch "$2/journal.jsonl"; shift; done
    touch "$here/asleep"
    for _ in $(seq 200); do sleep 0.05; done ;;
esac
echo '{"cases": 3, "findings": 0, "verdict": "clean"}'
"""


class Scratch(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="plumbline-accept-"))
        self.addCleanup(shutil.rmtree, self.root, True)

    def write(self, path, text, mode=0o644):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path


class Status(Scratch):
    def setUp(self):
        super().setUp()
        for room in ["kernel", "oracle", "fuzz"]:
            self.write(f"{room}/a.cc", room)
        self.git("init", "-q", ".")
        self.commit()

    def git(self, *words):
        return subprocess.run(["git", "-C", self.root, "-c", "user.name=t", "-c", "user.email=t@t", *words],
                              check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "x")

    def trees(self):
        return {room: self.git("rev-parse", f"HEAD:{room}") for room in ["kernel", "oracle", "fuzz"]}

    def store(self, trees):
        self.write("bench/results/gpu-accept.json", json.dumps(
            {"device": "NVIDIA H200", "date": "2026-11-21", "verdict": "passed", "trees": trees}))

    def status(self):
        run = subprocess.run([SCRIPT, "--status", "--root", self.root], stdout=subprocess.PIPE, text=True)
        self.assertEqual(run.returncode, 0)  # a warning, never a failure
        return run.stdout

    def test_nothing_stored_is_stale(self):
        self.assertTrue(self.status().startswith("STALE: no GPU result is stored"))

    def test_trees_decide(self):
        self.store(self.trees())
        self.assertTrue(self.status().startswith("current gpu-accept.json (NVIDIA H200, 2026-11-21, passed)"))
        self.write("tests/b.cc", "not a room that a result speaks of")
        self.write("fuzz/a.cc", "changed, not committed")
        said = self.status()
        self.assertTrue(said.startswith("STALE gpu-accept.json"))
        self.assertIn("fuzz was", said)
        self.assertNotIn("kernel was", said)

    def test_a_new_file_counts_and_committing_changes_nothing(self):
        self.write("oracle/new.cc", "not known to git yet")
        self.store(self.trees())
        self.assertIn("oracle was", self.status())
        self.commit()
        self.store(self.trees())
        self.assertTrue(self.status().startswith("current"))
        self.git("rm", "-q", "kernel/a.cc")
        self.write("kernel/b.cc", "kernel")
        self.assertIn("kernel was", self.status())

    def test_the_index_is_left_alone(self):
        self.write("fuzz/a.cc", "changed")
        before = self.git("status", "--porcelain")
        self.status()
        self.assertEqual(self.git("status", "--porcelain"), before)

    def test_what_cannot_be_read_is_stale(self):
        self.write("bench/results/gpu-x.json", "{")
        self.write("bench/results/gpu-y.json", "[]")
        self.assertEqual(self.status().count("not a summary"), 2)

    def test_no_checkout(self):
        shutil.rmtree(self.root / ".git")
        said = subprocess.run([SCRIPT, "--status", "--root", self.root], stdout=subprocess.PIPE, text=True,
                              env=dict(os.environ, GIT_CEILING_DIRECTORIES=str(self.root.parent)))
        self.assertEqual(said.returncode, 0)
        self.assertTrue(said.stdout.startswith("UNKNOWN"))


class Run(Scratch):
    def setUp(self):
        super().setUp()
        self.write("stage/bin/plumb", PLUMB, 0o755)
        self.write("tools/nvidia-smi", "#!/bin/sh\necho 'NVIDIA H200, 580.1'\n", 0o755)
        shutil.copy(SCRIPT, self.root / "stage/accept")
        self.manifest()

    def manifest(self, kernel="k"):
        files = {name: hashlib.sha256((self.root / "stage" / name).read_bytes()).hexdigest()
                 for name in ["bin/plumb", "accept"]}
        self.write("stage/stage.json", json.dumps({"trees": {"kernel": kernel, "oracle": "o", "fuzz": "f"},
                                                   "files": files}))

    def start(self, *words, tools="tools"):
        path = f"{self.root / tools}:{os.environ['PATH']}"
        return subprocess.Popen([self.root / "stage/accept", "--out", self.root / "out", *words], text=True,
                                stdout=subprocess.PIPE, env=dict(os.environ, PATH=path))

    def accept(self, *words, **how):
        run = self.start(*words, **how)
        said = run.communicate(timeout=60)[0]
        return run.returncode, said

    def calls(self):
        path = self.root / "stage/bin/calls"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def deed(self, what):
        self.write("stage/bin/deed", what)

    def summary(self):
        return json.loads((self.root / "out/summary.json").read_text(encoding="utf-8"))

    def test_what_passed_is_not_run_again(self):
        self.assertEqual(self.accept("--stages", "corpus")[0], 5)  # the other stages are left
        self.assertEqual(len(self.calls()), OF_CORPUS)
        for call, target in zip(self.calls(), ["cuda", "cuda-portable", "cuda-forward-backward"]):
            self.assertIn(f"--target {target} ", call)
        status, said = self.accept("--stages", "corpus,mutants")
        self.assertEqual((status, len(self.calls())), (5, OF_CORPUS + 1))
        self.assertIn("passed before", said)
        summary = self.summary()
        self.assertEqual(summary["verdict"], "incomplete")
        self.assertEqual(summary["stages"]["corpus"]["outcome"], "passed")
        self.assertEqual(summary["stages"]["batch"]["outcome"], "not run")
        self.assertEqual((summary["device"], summary["driver"]), ("NVIDIA H200", "580.1"))
        self.assertEqual(summary["trees"]["kernel"], "k")

    def test_a_packed_stage_unpacks_itself(self):
        with tarfile.open(self.root / "stage/programs.tar.xz", "w:xz") as archive:
            archive.add(self.root / "stage/bin", "bin")
        shutil.rmtree(self.root / "stage/bin")
        self.assertEqual(self.accept("--stages", "corpus")[0], 5)
        self.assertEqual(len(self.calls()), OF_CORPUS)

    def test_other_trees_are_another_run(self):
        self.accept("--stages", "corpus")
        self.manifest(kernel="k2")
        self.accept("--stages", "mutants")
        self.assertEqual(self.summary()["stages"]["corpus"]["outcome"], "not run")
        self.accept("--stages", "corpus")
        self.assertEqual(len(self.calls()), 2 * OF_CORPUS + 1)

    def test_a_failure_fails_and_stays(self):
        self.deed("fail")
        status, said = self.accept("--stages", "corpus")
        self.assertEqual(status, 1)
        self.assertIn("status 1", said)
        self.deed("")
        self.assertEqual(self.accept("--stages", "corpus")[0], 1)
        self.assertEqual(len(self.calls()), OF_CORPUS)
        self.assertEqual(self.accept("--stages", "corpus", "--again")[0], 5)
        self.assertEqual(self.summary()["stages"]["corpus"]["outcome"], "passed")

    def test_a_campaign_goes_on_where_it_was_interrupted(self):
        self.deed("sleep")
        run = self.start("--stages", "small")
        for _ in range(400):
            if (self.root / "stage/bin/asleep").exists():
                break
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.communicate(timeout=60) and run.returncode, 5)
        self.assertEqual(self.summary()["stages"]["small"]["outcome"], "interrupted")
        self.deed("")
        self.accept("--stages", "small")
        self.assertTrue(self.calls()[0].startswith("fuzz --target cuda"))
        self.assertTrue(self.calls()[1].startswith("fuzz --resume"))
        self.assertEqual(self.summary()["stages"]["small"]["outcome"], "passed")

    def test_a_campaign_of_other_trees_is_not_gone_on_with(self):
        self.deed("sleep")
        run = self.start("--stages", "small", "--minutes", "0.03")
        self.assertEqual(run.communicate(timeout=60) and run.returncode, 5)  # out of time
        self.manifest(kernel="k2")
        self.deed("")
        self.accept("--stages", "small")
        self.assertFalse(self.calls()[1].startswith("fuzz --resume"))

    def test_refusals(self):
        self.assertEqual(self.accept("--stages", "nope")[0], 2)
        self.write("none/nvidia-smi", "#!/bin/sh\nexit 9\n", 0o755)
        self.assertEqual(self.accept("--stages", "corpus", tools="none")[0], 4)
        self.write("stage/bin/plumb", PLUMB + "\n# changed\n", 0o755)
        status, said = self.accept("--stages", "corpus")
        self.assertEqual(status, 3)
        self.assertIn("bin/plumb", said)
        self.assertEqual(self.calls(), [])


class Stage(Scratch):
    def test_refusals_leave_the_folder_alone(self):
        mine = self.write("mine/notes.txt", "not a stage")
        run = subprocess.run([SCRIPT, "--stage", mine.parent, "--root", self.root], stdout=subprocess.PIPE, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertTrue(mine.exists())
        run = subprocess.run([SCRIPT, "--stage", self.root / "new", "--root", self.root], stdout=subprocess.PIPE, text=True)
        self.assertEqual(run.returncode, 3)
        self.assertIn("build/release has no", run.stdout)
        self.assertFalse((self.root / "new").exists())


class Digests(unittest.TestCase):
    """What is kept of outputs: the numbers that a summary is read for."""

    def setUp(self):
        from importlib.machinery import SourceFileLoader
        from importlib.util import module_from_spec, spec_from_loader
        loader = SourceFileLoader("accept", str(SCRIPT))
        sys.dont_write_bytecode = True
        self.accept = module_from_spec(spec_from_loader("accept", loader))
        loader.exec_module(self.accept)

    def test_a_test_program_that_tests_nothing_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "r.json"
            suite = {"name": "GpuX", "testsuite": [{"name": "a", "result": "SKIPPED",
                                                   "skipped": [{"message": "no CUDA device\n"}]}]}
            report.write_text(json.dumps({"testsuites": [suite]}), encoding="utf-8")
            self.assertEqual(self.accept.gtest_digest(report, ""),
                             {"ran": 0, "failed": [], "skipped": {"GpuX.a": "no CUDA device"}, "nothing": True})
            suite["testsuite"].append({"name": "b", "result": "COMPLETED", "failures": [{}]})
            report.write_text(json.dumps({"testsuites": [suite]}), encoding="utf-8")
            digest = self.accept.gtest_digest(report, "")
            self.assertEqual((digest["ran"], digest["failed"], digest["nothing"]), (1, ["GpuX.b"], False))

    def test_a_campaign_keeps_the_largest_of_each_output(self):
        entry = lambda t: {"dtype": "bf16", "grads": "fp32", "outputs": {"lse": {"tightness": t}, "loss": {}}}
        output = json.dumps({"cases": 9, "findings": 0, "targets": [
            {"target": "cuda", "cases": 9, "classes": [entry(0.25), entry(0.5)]}]})
        digest = self.accept.campaign_digest(None, "noise\n" + output + "\n")
        self.assertEqual(digest["targets"][0]["largest"], {"lse bf16": 0.5})

    def test_every_stage_is_within_the_budget(self):
        for name, steps in self.accept.stages().items():
            self.assertLessEqual(max(step.seconds for step in steps), 480, name)


if __name__ == "__main__":
    unittest.main()
