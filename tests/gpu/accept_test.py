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
ROOMS = ["kernel", "oracle", "fuzz", "tests", "corpus"]
PATIENCE = 120  # seconds; of a wait that ends as soon as what it waits for is there

OF_CORPUS = 3  # calls of the stage: a target each

# Stands in for plumb: notes how it was called, and does what the file `deed-T` beside it says, T the target of the
# call, or else the file `deed`.
PLUMB = """#!/bin/bash
here=$(dirname "$0")
echo "$*" >>"$here/calls"
target=$(sed -n 's/.*--target \\([^ ]*\\).*/\\1/p' <<<"$*")
case "$(cat "$here/deed-$target" 2>/dev/null || cat "$here/deed" 2>/dev/null)" in
  fail) echo '{"cases": 3, "findings": 1, "verdict": "findings"}'; exit 1 ;;
  garble) echo '{'; exit 0 ;;
  sleep)
    trap 'echo "{\\"cases\\": 1}"; exit 5' INT
    while [[ $# -gt 0 ]]; do [[ $1 == --out ]] && mkdir -p "$2" && touch "$2/journal.jsonl"; shift; done
    touch "$here/asleep"
    for _ in $(seq 10000); do sleep 0.05; done ;;
esac
echo '{"cases": 3, "findings": 0, "verdict": "clean"}'
"""

# Stands in for a program of tests: the suites of its report are what the file `suites` beside it holds; none: it
# writes no report.
TESTS = """#!/bin/bash
here=$(dirname "$0")
for word; do [[ $word == --gtest_output=json:* ]] && report=${word#*:}; done
[[ -e $here/suites ]] && cp "$here/suites" "$report"
exit 0
"""


def suites(*tests):
    return json.dumps({"testsuites": [{"name": "GpuX", "testsuite": list(tests)}]})


def imported(name="accept"):
    """A script of this folder as a module."""
    from importlib.machinery import SourceFileLoader
    from importlib.util import module_from_spec, spec_from_loader
    loader = SourceFileLoader(name.partition(".")[0], str(SCRIPT.parent / name))
    sys.dont_write_bytecode = True
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


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
        for room in ROOMS:
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
        return {room: self.git("rev-parse", f"HEAD:{room}") for room in ROOMS}

    def store(self, trees, name="gpu-accept", **more):
        self.write(f"bench/results/{name}.json", json.dumps(
            {"device": "NVIDIA H200", "date": "2026-11-21", "verdict": "passed", "trees": trees, **more}))

    def status(self):
        run = subprocess.run([SCRIPT, "--status", "--root", self.root], stdout=subprocess.PIPE, text=True)
        self.assertEqual(run.returncode, 0)  # a warning, never a failure
        return run.stdout

    def test_nothing_stored_is_stale(self):
        self.assertTrue(self.status().startswith("STALE: no GPU result is stored"))

    def test_trees_decide(self):
        self.store(self.trees())
        self.write("bench/b.cc", "not a room that a result speaks of")
        self.assertEqual(self.status(), "current gpu-accept.json (NVIDIA H200, 2026-11-21)\n")
        self.write("fuzz/a.cc", "changed, not committed")
        said = self.status()
        self.assertTrue(said.startswith("STALE gpu-accept.json"))
        self.assertIn("fuzz was", said)
        self.assertNotIn("kernel was", said)

    def test_tests_and_corpus_count_where_they_are_recorded(self):
        older = {room: self.trees()[room] for room in ["kernel", "oracle", "fuzz"]}
        self.store(self.trees(), "gpu-new")
        self.store(older, "gpu-old")
        self.write("corpus/a.cc", "another case")
        self.write("tests/a.cc", "another test")
        new, old = self.status().splitlines()
        self.assertTrue(new.startswith("STALE gpu-new.json"), new)
        self.assertIn("tests was", new)
        self.assertIn("corpus was", new)
        self.assertEqual(old, "current gpu-old.json (NVIDIA H200, 2026-11-21): not recorded: tests, corpus")

    def test_what_has_not_passed_stands_out(self):
        stages = {"probe": {"outcome": "passed"}, "small": {"outcome": "failed"}}
        self.store(self.trees(), verdict="failed", stages=stages)
        self.assertTrue(self.status().startswith("current, FAILED small gpu-accept.json ("), self.status())
        stages["small"]["outcome"] = "unavailable"
        self.store(self.trees(), verdict="incomplete", stages=stages)
        self.assertTrue(self.status().startswith("current, INCOMPLETE small gpu-accept.json ("), self.status())

    def test_other_results_that_name_their_trees_are_listed(self):
        short = {room: tree[:12] for room, tree in self.trees().items() if room in ("kernel", "oracle", "fuzz")}
        self.store(self.trees())
        self.store(short, "campaign")
        self.store({**short, "kernel": short["kernel"] + "-modified"}, "modified")
        self.store({**short, "oracle": ""}, "unsaid")
        self.write("bench/results/host_bench.json", json.dumps({"context": {}}))  # its name has the tree
        self.write("bench/results/torn.json", "{")
        said = self.status().splitlines()
        self.assertEqual([line[:line.index(".json")] for line in said],
                         ["current gpu-accept", "current campaign", "STALE modified", "STALE torn", "STALE unsaid"])
        self.assertTrue(said[2].endswith(f"kernel was {short['kernel']}"), said[2])

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

    def test_the_repository_is_left_alone(self):
        self.write("fuzz/a.cc", "changed")
        self.write("fuzz/new.cc", "new")
        git = self.root / ".git"
        self.git("status")  # which may write the index

        def held():
            return {path: path.read_bytes() for path in git.rglob("*") if path.is_file()}
        before = held()
        for path in [git, *git.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        self.store(self.trees())
        try:
            self.assertIn("fuzz was", self.status())
        finally:
            for path in [git, *git.rglob("*")]:
                path.chmod(0o755 if path.is_dir() else 0o644)
        self.assertEqual(held(), before)

    def test_what_cannot_be_read_is_stale(self):
        self.write("bench/results/gpu-x.json", "{")
        self.write("bench/results/gpu-y.json", "[]")
        self.store([], "gpu-z")
        said = self.status()
        self.assertEqual(said.count("STALE gpu-"), 3, said)
        self.assertIn("gpu-x.json: cannot be read", said)
        self.assertIn("gpu-y.json: not a summary", said)

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

    def start(self, *words, tools="tools", mps=""):
        environment = dict(os.environ, PATH=f"{self.root / tools}:{os.environ['PATH']}", PLUMB_MPS_CONTROL=str(mps))
        return subprocess.Popen([self.root / "stage/accept", "--out", self.root / "out", *words], text=True,
                                stdout=subprocess.PIPE, env=environment)

    def accept(self, *words, **how):
        run = self.start(*words, **how)
        said = run.communicate(timeout=PATIENCE)[0]
        return run.returncode, said

    def interrupt(self, *words):
        """Interrupts what sleeps, once it does; the exit status."""
        run = self.start(*words)
        asleep, end = self.root / "stage/bin/asleep", time.monotonic() + PATIENCE
        while not asleep.exists():
            self.assertIsNone(run.poll(), "it ended before anything slept")
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        asleep.unlink()
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=PATIENCE)
        return run.returncode

    def calls(self):
        path = self.root / "stage/bin/calls"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def deed(self, what, target=None):
        self.write(f"stage/bin/deed-{target}" if target else "stage/bin/deed", what)

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

    def test_a_failure_before_an_interruption_stays(self):
        self.deed("fail", "cuda")
        self.deed("sleep", "cuda-portable")
        self.assertEqual(self.interrupt("--stages", "corpus"), 1)
        stage = self.summary()["stages"]["corpus"]
        self.assertEqual((stage["outcome"], stage["steps"]["cuda-portable"]["outcome"]), ("failed", "interrupted"))
        # What is left goes on; what failed does not run again, and still counts.
        self.deed("", "cuda")
        self.deed("", "cuda-portable")
        self.assertEqual(self.accept("--stages", "corpus")[0], 1)
        self.assertEqual([call.split()[3] for call in self.calls()],
                         ["cuda", "cuda-portable", "cuda-portable", "cuda-forward-backward"])
        self.assertEqual(self.summary()["stages"]["corpus"]["outcome"], "failed")
        self.assertEqual(self.accept("--stages", "corpus")[0], 1)
        self.assertEqual(len(self.calls()), 4)
        self.accept("--stages", "corpus", "--again")
        self.assertEqual(self.summary()["stages"]["corpus"]["outcome"], "passed")

    def test_what_ends_well_and_says_nothing_stays_failed(self):
        self.deed("garble", "cuda")
        self.deed("sleep", "cuda-portable")
        self.assertEqual(self.interrupt("--stages", "corpus"), 1)
        self.deed("", "cuda-portable")
        self.assertEqual(self.accept("--stages", "corpus")[0], 1)
        self.assertIn("cannot be read", self.summary()["stages"]["corpus"]["steps"]["cuda"]["why"])

    def test_a_program_that_tested_nothing_fails(self):
        self.write("stage/bin/cuda_tests", TESTS, 0o755)
        self.write("stage/bin/suites", suites({"name": "a", "result": "SKIPPED", "skipped": [{"message": "none"}]}))
        self.assertEqual(self.accept("--stages", "batch")[0], 1)
        self.assertEqual(self.summary()["stages"]["batch"]["steps"]["batch"]["why"], "it tested nothing")
        self.assertEqual(self.accept("--stages", "batch")[0], 1)
        # A report of an earlier run is not one of this.
        self.write("stage/bin/suites", suites({"name": "a", "result": "COMPLETED"}))
        self.assertEqual(self.accept("--stages", "batch", "--again")[0], 5)
        self.assertEqual(self.summary()["stages"]["batch"]["outcome"], "passed")
        (self.root / "stage/bin/suites").unlink()
        self.assertEqual(self.accept("--stages", "batch", "--again")[0], 1)

    def test_what_the_machine_lacks_is_no_failure(self):
        self.write("stage/tightness.py", "import sys\nprint('noise')\nprint('no PyTorch')\nsys.exit(4)")
        status, said = self.accept("--stages", "figures")
        self.assertEqual(status, 5)
        self.assertIn("no PyTorch", said)
        summary = self.summary()
        self.assertEqual((summary["verdict"], summary["stages"]["figures"]["outcome"]), ("incomplete", "unavailable"))
        self.write("stage/tightness.py", "print('{}')")  # it is there now
        self.accept("--stages", "figures")
        self.assertEqual(self.summary()["stages"]["figures"]["outcome"], "passed")
        self.write("stage/tightness.py", "import sys\nsys.exit(3)")
        self.assertEqual(self.accept("--stages", "figures", "--again")[0], 1)

    def test_a_campaign_goes_on_where_it_was_interrupted(self):
        self.deed("sleep")
        self.assertEqual(self.interrupt("--stages", "small"), 5)
        self.assertEqual(self.summary()["stages"]["small"]["outcome"], "interrupted")
        self.deed("")
        self.accept("--stages", "small")
        self.assertTrue(self.calls()[0].startswith("fuzz --target cuda"))
        self.assertTrue(self.calls()[1].startswith("fuzz --resume"))
        self.assertEqual(self.summary()["stages"]["small"]["outcome"], "passed")

    def test_a_campaign_of_other_trees_is_not_gone_on_with(self):
        self.deed("sleep")
        self.assertEqual(self.interrupt("--stages", "small"), 5)
        self.assertTrue((self.root / "out/small-campaign/journal.jsonl").exists())
        self.manifest(kernel="k2")
        self.deed("")
        self.accept("--stages", "small")
        self.assertFalse(self.calls()[1].startswith("fuzz --resume"))

    def test_out_of_time_is_interrupted(self):
        self.deed("sleep")
        self.assertEqual(self.accept("--stages", "corpus", "--minutes", "0.03")[0], 5)
        step = self.summary()["stages"]["corpus"]["steps"]["cuda"]
        self.assertEqual((step["outcome"], step["why"]), ("interrupted", "out of time"))

    def test_the_gpu_is_shared_by_the_program_named(self):
        control = """#!/bin/sh\n[ "$1" = -d ] || read -r word\necho "${1:-$word}" >>"$(dirname "$0")/orders"\n"""
        self.write("tools/nvidia-cuda-mps-control", control, 0o755)
        orders = self.root / "tools/orders"
        self.accept("--stages", "small", mps="")
        self.assertFalse(orders.exists())
        self.accept("--stages", "small", "--again", mps=self.root / "tools/nvidia-cuda-mps-control")
        self.assertEqual(orders.read_text(encoding="utf-8").split(), ["-d", "quit"])

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
        run = subprocess.run([SCRIPT, "--stage", mine, "--root", self.root], stdout=subprocess.PIPE, text=True)
        self.assertEqual((run.returncode, run.stdout), (2, f"accept: {mine} is no folder\n"))
        run = subprocess.run([SCRIPT, "--stage", self.root / "new", "--root", self.root], stdout=subprocess.PIPE,
                             text=True)
        self.assertEqual(run.returncode, 3)
        self.assertIn("build/release has no", run.stdout)
        self.assertFalse((self.root / "new").exists())


    def build(self):
        """A folder that stands for a build, with every program."""
        for path in imported().PROGRAMS.values():
            self.write(f"build/{path}", "#!/bin/sh\n", 0o755)
        return self.root / "build"

    def stage(self, into, build):
        path = f"{self.root / 'tools'}:{os.environ['PATH']}"
        run = subprocess.run([SCRIPT, "--stage", into, "--build", build, "--root", self.root], text=True,
                             stdout=subprocess.PIPE, env=dict(os.environ, PATH=path))
        return run.returncode, run.stdout

    def test_results_inside_a_stage_are_not_lost(self):
        kept = self.write("stage/accept-out/summary.json", "{}")
        self.write("stage/stage.json", "{}")
        status, said = self.stage(self.root / "stage", self.build())
        self.assertEqual(status, 2)
        self.assertIn("accept-out", said)
        self.assertTrue(kept.exists())

    def test_a_library_that_is_not_found_is_named(self):
        self.write("tools/ldd", "#!/bin/sh\necho ' libX.so.1 => not found'\necho ' libY.so => /nowhere/Y (0x1)'\n",
                   0o755)
        status, said = self.stage(self.root / "new", self.build())
        self.assertEqual(status, 3)
        self.assertIn("fuzz/plumb needs libX.so.1,", said)
        self.assertFalse((self.root / "new").exists())


class Steps(Scratch):
    """One step after another, in this process."""

    def setUp(self):
        super().setUp()
        self.accept = imported()
        self.context = self.accept.Context(self.root, self.root)

    def run_stage(self, *steps, seconds=PATIENCE, before=None):
        return self.accept.run_stage("s", steps, self.context, seconds, before or {}, lambda result: None)

    def step(self, name="a", seconds=PATIENCE, command=("sleep", "600"), **how):
        return self.accept.Step(name, lambda c: list(command), seconds=seconds, **how)

    def test_what_does_not_end_in_its_own_time_fails(self):
        result = self.run_stage(self.step(seconds=0.3), self.step("b", command=["true"]))
        self.assertEqual(result["outcome"], "failed")
        self.assertEqual(result["steps"]["a"]["why"], "does not end in 0.3 s")
        self.assertEqual(result["steps"]["b"]["outcome"], "passed")
        again = self.run_stage(self.step(command=["true"]), self.step("b", command=["true"]), before=result)
        self.assertEqual(again["outcome"], "failed")

    def test_what_had_not_its_own_time_is_interrupted(self):
        result = self.run_stage(self.step(), seconds=0.3)
        self.assertEqual((result["outcome"], result["steps"]["a"]["why"]), ("interrupted", "out of time"))

    def test_what_can_go_on_is_interrupted(self):
        result = self.run_stage(self.step(seconds=0.3, resume=lambda c: ["sleep", "600"]))
        self.assertEqual(result["outcome"], "interrupted")

    def test_a_tool_that_is_not_there_is_unavailable(self):
        tool = str(self.root / "no-sanitizer")
        result = self.run_stage(self.step(command=[tool], lacking=self.accept.CANNOT_START))
        self.assertEqual(result["outcome"], "unavailable")
        self.assertIn(tool, result["steps"]["a"]["why"])
        self.assertEqual(self.run_stage(self.step(command=[tool]))["outcome"], "failed")
        self.assertEqual([step.lacking for step in self.accept.stages()["sanitizer"]], [127] * 4)

    def test_every_stage_is_within_the_budget(self):
        for name, steps in self.accept.stages().items():
            self.assertLessEqual(max(step.seconds for step in steps), 480, name)


class Tightness(Scratch):
    """Its statuses, with a stand-in for PyTorch and one for plumb."""

    def run_script(self):
        script = SCRIPT.parent / "tightness.py"
        run = subprocess.run([sys.executable, "-B", script, "--folder", self.root / "dumps"], stderr=subprocess.PIPE,
                             text=True, env=dict(os.environ, PYTHONPATH=str(self.root)))
        return run.returncode, run.stderr

    def test_only_what_is_beyond_ends_with_1(self):
        self.write("torch.py", "raise ImportError('none')")
        self.assertEqual(self.run_script()[0], 4)
        self.write("torch.py", "class cuda:\n  @staticmethod\n  def is_available():\n    return True\n")
        status, said = self.run_script()
        self.assertEqual(status, 3)
        self.assertIn("has no attribute", said)

    def test_a_check_that_says_nothing_of_a_dump_is_named(self):
        for says in ["", "{}", '{"dumps": []}', "{"]:
            plumb = self.write("plumb", f"#!/bin/sh\necho '{says}'\n", 0o755)
            with self.assertRaisesRegex(RuntimeError, "plumb check d.safetensors .*status 0, and no JSON"):
                imported("tightness.py").check(str(plumb), "d.safetensors", [], 1)


class Digests(unittest.TestCase):
    """What is kept of outputs: the numbers that a summary is read for."""

    def setUp(self):
        self.accept = imported()

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


if __name__ == "__main__":
    unittest.main()
