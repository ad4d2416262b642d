#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/accept --status and --store: what is said of stored results, and what is kept. Needs no GPU."""

import json
import os
import shutil
import subprocess
import unittest

from acceptance.stages import stages
from scratch import SCRIPT, Scratch
from store import trees

ROOMS = ["kernel", "oracle", "fuzz", "tests", "corpus"]
SOURCES = {"kernel": "kernel/a.cc", "oracle": "oracle/a.cc", "fuzz": "fuzz/a.cc", "tests": "tests/fuzz/a_test.cc",
           "corpus": "corpus/a.safetensors", "cmake": "CMakeLists.txt"}
OLD = "a4790d19cfabfd16873e6fa461a497cab60c44f0"  # a git tree
SUMMARY = {"command": "tests/gpu/accept", "device": "d", "driver": "1", "cuda": "13.0", "date": "2026-11-22",
           "trees": {}, "verdict": "passed", "stages": {"s": {"steps": {"x": {"command": "/a/b/plumb doctor"}}}}}


def passed():
    """Stages of a summary in which every step has passed."""
    return {stage: {"outcome": "passed", "steps": {step.name: {"outcome": "passed"} for step in steps}}
            for stage, steps in stages().items()}


class Tree(Scratch):
    def setUp(self):
        super().setUp()
        for room, path in SOURCES.items():
            self.write(path, room)
        self.git("init", "-q", ".")
        self.commit()

    def git(self, *words):
        return subprocess.run(["git", "-C", self.root, "-c", "user.name=t", "-c", "user.email=t@t", *words],
                              check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "x")

    def keys(self, *rooms):
        return trees.keys(self.root, rooms or trees.ACCEPTANCE)

    def put(self, name, what):
        self.write(f"bench/results/{name}.json", what if isinstance(what, str) else json.dumps(what))

    def store(self, keys, name="gpu-accept", **more):
        self.put(name, {"device": "NVIDIA H200", "date": "2026-11-21", "verdict": "passed", "trees": keys,
                        "stages": passed(), **more})

    def run_accept(self, *words, **environment):
        """(status, stdout)."""
        run = subprocess.run([SCRIPT, *words, "--root", self.root], stdout=subprocess.PIPE, text=True, check=False,
                             env={**os.environ, **environment})
        return run.returncode, run.stdout

    def status(self):
        status, said = self.run_accept("--status")
        self.assertEqual(status, 0)  # a warning, never a failure
        return said

    def strict(self):
        return self.run_accept("--status", "--strict")[0]


class Status(Tree):
    # Fails if a tree without any acceptance passes for one whose acceptance is current.
    def test_nothing_stored_is_stale(self):
        self.assertTrue(self.status().startswith("STALE: no GPU result is stored"))
        self.assertEqual(self.strict(), 77)

    # Fails if a room's sources may change without the result's becoming stale, or another room is named.
    def test_keys_decide(self):
        self.store(self.keys())
        self.write("bench/b.cc", "not a room that a result speaks of")
        self.assertEqual(self.status(), "current gpu-accept.json (NVIDIA H200, 2026-11-21)\n")
        self.assertEqual(self.strict(), 0)
        for room, path in SOURCES.items():
            self.write(path, "changed, not committed")
            said = self.status()
            self.assertTrue(said.startswith("STALE gpu-accept.json"))
            self.assertIn(f"{room} was {self.stored_key(room)}", said)
            self.assertEqual(said.count(" was "), 1)
            self.write(path, room)
        self.write("oracle/new.cc", "not known to git yet")
        self.assertIn("oracle was", self.status())
        self.assertEqual(self.strict(), 77)

    def stored_key(self, room):
        return json.loads((self.root / "bench/results/gpu-accept.json").read_text(encoding="utf-8"))["trees"][room]

    # Fails if a page, a Python test or a test that is not staged makes the acceptance stale.
    def test_what_is_not_built_from_does_not_count(self):
        self.store(self.keys())
        for path in ["kernel/README.md", "fuzz/campaign/HARNESS.md", "tests/gpu/x_test.py", "tests/bench/a_test.cc",
                     "tests/structure/structure_test.cc", "README.md", "bench/SPEED.md"]:
            self.write(path, "x")
        self.assertTrue(self.status().startswith("current gpu-accept.json"), self.status())

    # Fails if a result that does not record a room is stale for it, or nothing says so.
    def test_what_is_not_recorded_is_said(self):
        self.store(self.keys("kernel", "oracle", "fuzz"), "gpu-old")
        self.write("corpus/b.safetensors", "another case")
        self.assertEqual(self.status(), "current gpu-old.json (NVIDIA H200, 2026-11-21): "
                                        "not recorded: tests, corpus, cmake\n")

    # Fails if a result of before the keys is called current, or its trees are compared with keys.
    def test_git_trees_are_the_old_key(self):
        self.store(dict.fromkeys(ROOMS, OLD))
        self.store({"kernel": OLD[:12] + "-modified"}, "campaign")
        self.put(f"cuda_bench-h200-{OLD[:12]}",
                 {"context": {"device": "NVIDIA H200", "date": "2026-11-22T01:00", "kernel": OLD[:12]}})
        acceptance, campaign, bench = self.status().splitlines()
        for line in (acceptance, campaign, bench):
            self.assertTrue(line.startswith("STALE "), line)
            self.assertIn("it names git trees, the key before v2, in which every file counted", line)
            self.assertNotIn(" was ", line)
        self.assertTrue(bench.endswith("; to be carried over or made again"), bench)

    # Fails if what has not passed looks like what has, or ctest's strict call passes or skips it: what failed also where
    # it is stale as well, what was not run only where it is of this tree.
    def test_what_has_not_passed_stands_out_and_fails(self):
        found = passed()
        found["small"]["outcome"] = "failed"
        self.store(self.keys(), verdict="failed", stages=found)
        self.assertTrue(self.status().startswith("current, FAILED small gpu-accept.json ("), self.status())
        self.assertEqual(self.strict(), 1)
        found["small"]["outcome"] = "unavailable"
        self.store(self.keys(), verdict="incomplete", stages=found)
        self.assertTrue(self.status().startswith("current, INCOMPLETE small gpu-accept.json ("), self.status())
        self.assertEqual(self.strict(), 1)
        self.write("kernel/a.cc", "changed")
        self.assertTrue(self.status().startswith("STALE, INCOMPLETE small"), self.status())
        self.assertEqual(self.strict(), 77)
        found["small"]["outcome"] = "failed"
        self.store(self.keys() | {"kernel": "v2-0"}, verdict="failed", stages=found)
        self.assertTrue(self.status().startswith("STALE, FAILED small"), self.status())
        self.assertEqual(self.strict(), 1)

    # Fails if a stage or step that has no result, or a stage that has not passed, hides behind "passed": scripts are in
    # no key.
    def test_a_stage_without_a_result_is_incomplete(self):
        found = passed()
        del found["large"], found["tests"]["steps"]["oracle_tests"]
        found["batch"]["outcome"] = "interrupted"
        self.store(self.keys(), stages=found)
        self.assertTrue(self.status().startswith("current, INCOMPLETE batch tests large gpu-accept.json ("), self.status())
        self.assertEqual(self.strict(), 1)

    # Fails if findings that bench/store kept pass for a clean result, or a clean one for findings.
    def test_findings_fail(self):
        self.store(self.keys())
        for more, begin in [({"result": {"verdict": "clean"}}, "current campaign"),
                            ({"result": {"verdict": "findings"}}, "current, FAILED findings campaign"),
                            ({"runs": [{"verdict": "clean"}, {"verdict": "findings"}]}, "current, FAILED findings campaign")]:
            self.put("campaign", {"date": "2026-11-21", "trees": self.keys("kernel", "oracle", "fuzz"), **more})
            self.assertTrue(self.status().splitlines()[1].startswith(begin), self.status())
            self.assertEqual(self.strict(), int("FAILED" in begin))

    # Fails if the findings on planted defects count as failures, or if what was missed is not said.
    def test_findings_on_planted_defects_do_not_fail(self):
        self.store(self.keys())
        self.put("sight", {"date": "2026-11-21", "trees": self.keys("kernel", "oracle", "fuzz"),
                           "missed": ["a defect: clean at 7"], "runs": [{"verdict": "findings"}]})
        self.assertEqual(self.status().splitlines()[1], "current sight.json (2026-11-21): 1 missed")
        self.assertEqual(self.strict(), 0)

    # Fails if a result is current because it names no room that there is.
    def test_a_room_that_is_gone(self):
        self.store(self.keys())
        self.put("campaign", {"date": "2026-11-21", "trees": {"core": self.keys("kernel")["kernel"]}})
        self.assertIn("STALE campaign.json (2026-11-21): there is no room core", self.status())

    # Fails if results of plumb are not listed, or "-modified" passes for the tree that it was modified from.
    def test_other_results_that_name_their_trees_are_listed(self):
        keys = self.keys("kernel", "oracle", "fuzz")
        self.store(self.keys())
        self.store(keys, "campaign")
        self.store({**keys, "kernel": keys["kernel"] + "-modified"}, "modified")
        self.store({**keys, "oracle": ""}, "unsaid")
        self.put("host_bench", {"context": {}})  # it names no tree
        said = self.status().splitlines()
        self.assertEqual([line[:line.index(".json")] for line in said],
                         ["current gpu-accept", "current campaign", "STALE modified", "STALE unsaid"])
        self.assertTrue(said[2].endswith(f"kernel was {keys['kernel']}"), said[2])
        self.assertEqual(self.strict(), 77)

    # Fails if a speed result is current for another kernel, or one that was carried over to this one is stale.
    def test_speed_results(self):
        self.store(self.keys())
        now = self.keys()["kernel"]
        bench = {"context": {"device": "NVIDIA H200", "date": "2026-11-22T01:00:00+00:00", "kernel": now}}
        peers = {"machine": {"device": "NVIDIA H200"}, "date": "2026-11-22T01:00:00Z", "kernel": OLD[:12],
                 "carried": {"from": OLD[:12], "to": now}}
        self.put(f"cuda_bench-h200-{now}", bench)
        self.put(f"peers-h200-{now}", peers)
        self.assertEqual(self.status().splitlines()[1:],
                         [f"current cuda_bench-h200-{now}.json (NVIDIA H200, 2026-11-22)",
                          f"current, carried peers-h200-{now}.json (NVIDIA H200, 2026-11-22)"])
        self.assertEqual(self.strict(), 0)
        self.write("kernel/a.cc", "changed")
        for line, why in zip(self.status().splitlines(), [f": kernel was {now}", f": kernel was {now}; to be carried",
                                                          f": it was carried over to kernel {now}; to be carried"],
                             strict=True):
            self.assertTrue(line.startswith("STALE ") and why in line, line)

    # Fails if committing changes what is current, or a file that moved does not.
    def test_committing_changes_nothing(self):
        self.write("oracle/new.cc", "not known to git yet")
        self.store(self.keys())
        self.commit()
        self.assertTrue(self.status().startswith("current"))
        self.git("mv", "kernel/a.cc", "kernel/b.cc")
        self.assertIn("kernel was", self.status())

    # Fails if --status writes to the repository, or needs to.
    def test_the_repository_is_left_alone(self):
        self.store(self.keys())
        self.write("fuzz/a.cc", "changed")
        self.write("fuzz/new.cc", "new")
        git = self.root / ".git"
        self.git("status")  # which may write the index

        def held():
            return {path: path.read_bytes() for path in git.rglob("*") if path.is_file()}
        before = held()
        for path in [git, *git.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            self.assertIn("fuzz was", self.status())
        finally:
            for path in [git, *git.rglob("*")]:
                path.chmod(0o755 if path.is_dir() else 0o644)
        self.assertEqual(held(), before)

    # Fails if a result that cannot be read is passed over, ends --status, or passes or skips ctest's strict call.
    def test_what_cannot_be_read_fails(self):
        self.put("gpu-x", "{")
        self.put("gpu-y", "[]")
        self.store([], "gpu-z")
        said = self.status()
        self.assertEqual(said.count("STALE gpu-"), 3, said)
        self.assertIn("gpu-x.json: cannot be read", said)
        self.assertIn("gpu-y.json: not a summary", said)
        self.assertEqual(self.strict(), 1)
        for name in ("gpu-x", "gpu-y", "gpu-z"):
            (self.root / f"bench/results/{name}.json").unlink()
        self.store(self.keys())
        self.assertEqual(self.strict(), 0)
        for name, what in [("campaign", "{"), ("cuda_bench-h200", {"context": {}}), ("peers-h200", [])]:
            self.put(name, what)
            self.assertEqual(self.strict(), 1, name)
            (self.root / f"bench/results/{name}.json").unlink()

    # Fails if a part of an acceptance takes the place of what passed before, if what was not run is said to have passed, or
    # if a part of another tree or device is taken for one of this.
    def test_parts_of_an_acceptance_are_joined(self):
        def summary(**outcomes):
            found = {name: {**its, "outcome": outcomes.get(name, "not run"), "seconds": 2.0} for name, its in passed().items()}
            if found["probe"]["outcome"] == "passed":
                found["probe"]["steps"]["probe"]["result"] = {"cuda_runtime": "13.0"}
            return {"device": "NVIDIA H200", "driver": "1", "date": "2026-11-21", "verdict": "incomplete", "trees": self.keys(),
                    "stages": found}

        def store(summary):
            self.write("summary.json", json.dumps(summary))
            self.assertEqual(self.run_accept("--store", self.root / "summary.json")[0], 0)
            return json.loads((self.root / "bench/results/gpu-accept.json").read_text(encoding="utf-8"))
        but = {name: "passed" for name in passed() if name not in ("small", "batch")}
        self.put("host", "{}")  # the folder of stored results
        store(summary(**but, batch="interrupted"))
        self.assertIn("INCOMPLETE small batch", self.status().replace("batch small", "small batch"))
        found = store(summary(batch="passed", large="interrupted"))
        self.assertEqual((found["verdict"], found["stages"]["large"]["outcome"], found["stages"]["small"]["outcome"]),
                         ("incomplete", "passed", "not run"))
        self.assertEqual(found["cuda"], "13.0")  # of the first part, where the stage `probe` came to its end
        self.assertEqual(store(summary(small="failed"))["verdict"], "failed")
        self.assertEqual(store(summary(small="passed"))["verdict"], "passed")
        self.assertTrue(self.status().startswith("current gpu-accept.json"), self.status())
        other = store(summary(batch="passed") | {"driver": "2"})
        self.assertEqual((other["verdict"], other["stages"]["large"]["outcome"]), ("incomplete", "not run"))

    # Fails if a tree without git is said to be current.
    def test_no_checkout(self):
        shutil.rmtree(self.root / ".git")
        where = {"GIT_CEILING_DIRECTORIES": str(self.root.parent)}
        status, said = self.run_accept("--status", **where)
        self.assertEqual(status, 0)
        self.assertTrue(said.startswith("UNKNOWN"))
        self.assertEqual(self.run_accept("--status", "--strict", **where)[0], 77)


class Store(Tree):
    # Fails if what a stored result must keep (device, versions, date, command) is lost, or a folder is kept.
    def test_what_is_kept(self):
        (self.root / "bench/results").mkdir(parents=True)
        path = self.write("summary.json", json.dumps(SUMMARY))
        self.assertEqual(self.run_accept("--store", path), (0, "bench/results/gpu-accept.json: passed\n"))
        kept = json.loads((self.root / "bench/results/gpu-accept.json").read_text(encoding="utf-8"))
        self.assertEqual(kept.pop("stages"), {"s": {"steps": {"x": {"command": "plumb doctor"}}}})
        self.assertEqual(kept, {key: value for key, value in SUMMARY.items() if key != "stages"})

    # Fails if what is no summary takes the place of one.
    def test_what_is_no_summary_is_not_kept(self):
        for text in ("{}", "{", json.dumps({**SUMMARY, "trees": None})[:-9]):
            status, said = self.run_accept("--store", self.write("summary.json", text))
            self.assertEqual(status, 2)
            self.assertTrue(said.startswith("accept: "), said)
        self.assertFalse((self.root / "bench/results").exists())


if __name__ == "__main__":
    unittest.main()
