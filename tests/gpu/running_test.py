#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DIR/accept in a stage made here: what is run, what is run again, how it ends. Needs no GPU."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
import unittest

from scratch import HERE, PATIENCE, SCRIPT, Scratch

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
echo '{"cases": 3, "findings": 0, "verdict": "clean", "mutants": [{}]}'
"""

# Stands in for a program of tests: the suites of its report are what the file `suites` beside it holds; none: it
# writes no report.
TESTS = """#!/bin/bash
here=$(dirname "$0")
for word; do [[ $word == --gtest_output=json:* ]] && report=${word#*:}; done
[[ -e $here/suites ]] && cp "$here/suites" "$report"
exit 0
"""

# Stands in for any program: notes that another call of it or of a program beside it is under way.
EXCLUSIVE = """#!/bin/bash
here=$(dirname "$0")
mkdir "$here/busy" || echo "$0 beside another" >>"$here/calls"
sleep 0.2
rmdir "$here/busy"
"""


def suites(*tests):
    return json.dumps({"testsuites": [{"name": "GpuX", "testsuite": list(tests)}]})


class Run(Scratch):
    def setUp(self):
        super().setUp()
        self.write("stage/bin/plumb", PLUMB, 0o755)
        self.write("tools/nvidia-smi", "#!/bin/sh\necho 'NVIDIA H200, 580.1, GPU-0'\n", 0o755)
        shutil.copy(SCRIPT, self.root / "stage/accept")
        shutil.copytree(HERE / "acceptance", self.root / "stage/acceptance",
                        ignore=shutil.ignore_patterns("__pycache__"))
        self.manifest()

    def manifest(self, kernel="k"):
        files = {name: hashlib.sha256((self.root / "stage" / name).read_bytes()).hexdigest()
                 for name in ["bin/plumb", "accept"]}
        self.write("stage/stage.json", json.dumps({"trees": {"kernel": kernel, "oracle": "o", "fuzz": "f"},
                                                   "files": files}))

    def start(self, *words, tools="tools", mps=""):
        environment = dict(os.environ, PATH=f"{self.root / tools}:{os.environ['PATH']}", PLUMB_MPS_CONTROL=str(mps))
        return subprocess.Popen([self.root / "stage/accept", "--out", self.root / "out", "--at-once", "1", *words],
                                text=True, stdout=subprocess.PIPE, env=environment)

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

    # Fails if stages wait for each other where several may run at once, or if one of them is lost from the summary.
    def test_stages_run_at_once(self):
        # Either call waits until the other has begun.
        self.write("stage/bin/plumb", """#!/bin/bash
here=$(dirname "$0")
touch "$here/begun-$1"
until [[ -e $here/begun-doctor && -e $here/begun-selftest ]]; do sleep 0.02; done
echo '{"mutants": [{}], "killed": 1, "lines": [{"verdict": "held"}]}'
""", 0o755)
        self.manifest()
        said = self.accept("--stages", "probe,mutants", "--at-once", "2", "--minutes", "1")[1]
        self.assertEqual({name: self.summary()["stages"][name]["outcome"] for name in ["probe", "mutants"]},
                         {"probe": "passed", "mutants": "passed"}, said)
        self.assertEqual(self.accept("--at-once", "0")[0], 2)

    # Fails if two stages that need most of the device's memory run together.
    def test_those_that_need_much_memory_take_turns(self):
        for name in ["plumb", "cuda_tests", "hopper_tests", "oracle_tests", "fuzz_tests"]:
            self.write(f"stage/bin/{name}", EXCLUSIVE, 0o755)
        self.manifest()
        self.accept("--stages", "small,tests", "--at-once", "2", "--minutes", "1")
        self.assertEqual(self.calls(), [])

    # Fails if a stage does not have one GPU of several, or those that need much memory share one where there are two.
    def test_stages_spread_over_the_gpus(self):
        self.write("tools/nvidia-smi", "#!/bin/sh\n" + "".join(
            f"echo 'NVIDIA {name}, 580.1, GPU-{name}-{i}'\n" for i, name in enumerate(["H200", "H200", "T4"])), 0o755)
        # Either call waits until the other has begun.
        waiting = """#!/bin/bash
here=$(dirname "$0")
echo "$CUDA_VISIBLE_DEVICES" >>"$here/calls"
until [[ $(wc -l <"$here/calls") -ge 2 ]]; do sleep 0.02; done
"""
        for name in ["plumb", "cuda_tests", "hopper_tests", "oracle_tests", "fuzz_tests"]:
            self.write(f"stage/bin/{name}", waiting, 0o755)
        self.manifest()
        self.accept("--stages", "small,tests", "--at-once", "2", "--minutes", "1")
        self.assertEqual(sorted(self.calls()[:2]), ["GPU-H200-0", "GPU-H200-1"])
        self.assertEqual(self.summary()["devices"], 2)

    # Fails if a stage runs beside one that takes all of the device's memory.
    def test_what_takes_all_memory_runs_alone(self):
        for name in ["plumb", "fuzz_tests"]:
            self.write(f"stage/bin/{name}", EXCLUSIVE, 0o755)
        self.manifest()
        self.accept("--stages", "probe,memory", "--at-once", "2", "--minutes", "1")
        self.assertEqual(self.calls(), [])

    # Fails if a step that has passed runs again, or a stage that was not asked for runs.
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

    # Fails if a stage as it arrives on the other machine has no programs.
    def test_a_packed_stage_unpacks_itself(self):
        with tarfile.open(self.root / "stage/programs.tar.xz", "w:xz") as archive:
            archive.add(self.root / "stage/bin", "bin")
        shutil.rmtree(self.root / "stage/bin")
        self.assertEqual(self.accept("--stages", "corpus")[0], 5)
        self.assertEqual(len(self.calls()), OF_CORPUS)

    # Fails if results of other trees count for these.
    def test_other_trees_are_another_run(self):
        self.accept("--stages", "corpus")
        self.manifest(kernel="k2")
        self.accept("--stages", "mutants")
        self.assertEqual(self.summary()["stages"]["corpus"]["outcome"], "not run")
        self.accept("--stages", "corpus")
        self.assertEqual(len(self.calls()), 2 * OF_CORPUS + 1)

    # Fails if a failure is forgotten when the step is called again.
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

    # Fails if what goes on after an interruption runs again, or forgets a failure.
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

    # Fails if an output that cannot be read passes.
    def test_what_ends_well_and_says_nothing_stays_failed(self):
        self.deed("garble", "cuda")
        self.deed("sleep", "cuda-portable")
        self.assertEqual(self.interrupt("--stages", "corpus"), 1)
        self.deed("", "cuda-portable")
        self.assertEqual(self.accept("--stages", "corpus")[0], 1)
        self.assertIn("cannot be read", self.summary()["stages"]["corpus"]["steps"]["cuda"]["why"])

    # Fails if a filter that matches nothing, or an older report, passes.
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

    # Fails if a missing PyTorch is a failure, or any other status is not.
    def test_what_the_machine_lacks_is_no_failure(self):
        self.write("stage/tightness.py", "import sys\nprint('noise')\nprint('no PyTorch')\nsys.exit(4)")
        status, said = self.accept("--stages", "figures")
        self.assertEqual(status, 5)
        self.assertIn("no PyTorch", said)
        summary = self.summary()
        self.assertEqual((summary["verdict"], summary["stages"]["figures"]["outcome"]), ("incomplete", "unavailable"))
        self.write("stage/tightness.py", 'print(\'{"beyond": 0}\')')  # it is there now
        self.accept("--stages", "figures")
        self.assertEqual(self.summary()["stages"]["figures"]["outcome"], "passed")
        self.write("stage/tightness.py", "import sys\nsys.exit(3)")
        self.assertEqual(self.accept("--stages", "figures", "--again")[0], 1)

    # Fails if an interrupted campaign begins anew, or with as many workers as there are processors.
    def test_a_campaign_goes_on_where_it_was_interrupted(self):
        self.deed("sleep")
        self.assertEqual(self.interrupt("--stages", "small"), 5)
        self.assertEqual(self.summary()["stages"]["small"]["outcome"], "interrupted")
        self.deed("")
        self.accept("--stages", "small")
        self.assertTrue(self.calls()[0].startswith("fuzz --target cuda"))
        self.assertTrue(self.calls()[1].startswith("fuzz --resume"))
        begun, resumed = (call[call.index("--jobs"):].split()[:2] for call in self.calls()[:2])
        self.assertEqual(begun, resumed)
        self.assertEqual(self.summary()["stages"]["small"]["outcome"], "passed")

    # Fails if a campaign of other programs goes on with these.
    def test_a_campaign_of_other_trees_is_not_gone_on_with(self):
        self.deed("sleep")
        self.assertEqual(self.interrupt("--stages", "small"), 5)
        self.assertTrue((self.root / "out/small-campaign/journal.jsonl").exists())
        self.manifest(kernel="k2")
        self.deed("")
        self.accept("--stages", "small")
        self.assertFalse(self.calls()[1].startswith("fuzz --resume"))

    # Fails if a step that had too little time fails.
    def test_out_of_time_is_interrupted(self):
        self.deed("sleep")
        self.assertEqual(self.accept("--stages", "corpus", "--minutes", "0.03")[0], 5)
        step = self.summary()["stages"]["corpus"]["steps"]["cuda"]
        self.assertEqual((step["outcome"], step["why"]), ("interrupted", "out of time"))

    # Fails if CUDA's service is not started and stopped, or is where none is named.
    def test_the_gpu_is_shared_by_the_program_named(self):
        control = """#!/bin/sh\n[ "$1" = -d ] || read -r word\necho "${1:-$word}" >>"$(dirname "$0")/orders"\n"""
        self.write("tools/nvidia-cuda-mps-control", control, 0o755)
        orders = self.root / "tools/orders"
        self.accept("--stages", "small", mps="")
        self.assertFalse(orders.exists())
        self.accept("--stages", "small", "--again", mps=self.root / "tools/nvidia-cuda-mps-control")
        self.assertEqual(orders.read_text(encoding="utf-8").split(), ["-d", "quit"])

    # Fails if anything runs without a GPU, by programs that --stage did not put there, or for a stage that is none.
    def test_refusals(self):
        self.assertEqual(self.accept("--stages", "nope")[0], 2)
        self.write("none/nvidia-smi", "#!/bin/sh\nexit 9\n", 0o755)
        self.assertEqual(self.accept("--stages", "corpus", tools="none")[0], 4)
        self.write("stage/bin/plumb", PLUMB + "\n# changed\n", 0o755)
        status, said = self.accept("--stages", "corpus")
        self.assertEqual(status, 3)
        self.assertIn("bin/plumb", said)
        self.assertEqual(self.calls(), [])

if __name__ == "__main__":
    unittest.main()
