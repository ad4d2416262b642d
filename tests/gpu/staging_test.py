#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/accept --stage: what it refuses, what it takes along, and that the folder runs by itself."""

import json
import os
import shutil
import subprocess
import unittest

from acceptance.staging import PROGRAMS, STAGED
from scratch import SCRIPT, Scratch
from store import trees


class Stage(Scratch):
    # Fails if --stage removes files that it did not make, or leaves half a stage.
    def test_refusals_leave_the_folder_alone(self):
        mine = self.write("mine/notes.txt", "not a stage")
        run = subprocess.run([SCRIPT, "--stage", mine.parent, "--root", self.root], stdout=subprocess.PIPE, text=True,
                             check=False)
        self.assertEqual(run.returncode, 2)
        self.assertTrue(mine.exists())
        run = subprocess.run([SCRIPT, "--stage", mine, "--root", self.root], stdout=subprocess.PIPE, text=True,
                             check=False)
        self.assertEqual((run.returncode, run.stdout), (2, f"accept: {mine} is no folder\n"))
        run = subprocess.run([SCRIPT, "--stage", self.root / "new", "--root", self.root], stdout=subprocess.PIPE,
                             text=True, check=False)
        self.assertEqual(run.returncode, 3)
        self.assertIn("build/release has no", run.stdout)
        self.assertFalse((self.root / "new").exists())

    def build(self):
        """A folder that stands for a build, with every program."""
        for path in PROGRAMS.values():
            self.write(f"build/{path}", "#!/bin/sh\n", 0o755)
        return self.root / "build"

    def stage(self, into, build):
        path = f"{self.root / 'tools'}:{os.environ['PATH']}"
        run = subprocess.run([SCRIPT, "--stage", into, "--build", build, "--root", self.root], text=True,
                             stdout=subprocess.PIPE, env=dict(os.environ, PATH=path), check=False)
        return run.returncode, run.stdout

    # Fails if a stage that was run in is removed with its results.
    def test_results_inside_a_stage_are_not_lost(self):
        kept = self.write("stage/accept-out/summary.json", "{}")
        self.write("stage/stage.json", "{}")
        status, said = self.stage(self.root / "stage", self.build())
        self.assertEqual(status, 2)
        self.assertIn("accept-out", said)
        self.assertTrue(kept.exists())

    # Fails if a stage is made whose programs cannot start.
    def test_a_library_that_is_not_found_is_named(self):
        self.write("tools/ldd", "#!/bin/sh\necho ' libX.so.1 => not found'\necho ' libY.so => /nowhere/Y (0x1)'\n",
                   0o755)
        status, said = self.stage(self.root / "new", self.build())
        self.assertEqual(status, 3)
        self.assertIn("fuzz/plumb needs libX.so.1,", said)
        self.assertFalse((self.root / "new").exists())

    # Fails if programs of another source tree travel under this tree's keys.
    def test_a_build_of_another_tree_is_refused(self):
        build = self.build()
        self.write("build/CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
        status, said = self.stage(self.root / "new", build)
        self.assertEqual((status, said), (3, f"accept: {build} is of another source tree: /elsewhere\n"))
        self.assertFalse((self.root / "new").exists())

    def tools(self):
        """Stand-ins: ldd finds no library, cmake installs the build's programs, nvidia-smi names a GPU."""
        self.write("tools/ldd", "#!/bin/sh\n", 0o755)
        self.write("tools/cmake", "#!/bin/bash\nwhile (($#)); do\n  [[ $1 != --install ]] || from=$2\n"
                   "  [[ $1 != --prefix ]] || to=$2\n  shift\ndone\nmkdir -p \"$to/bin\"\n"
                   "cp \"$from\"/*/* \"$to/bin\"\n", 0o755)
        self.write("tools/nvidia-smi", "#!/bin/sh\necho 'NVIDIA H200, 580.1, GPU-0'\n", 0o755)
        return f"{self.root / 'tools'}:{os.environ['PATH']}"

    # Fails if the folder needs anything of the tree that it was made from, is not what stage.json says, or does not
    # say what its programs were built from.
    def test_a_stage_runs_by_itself(self):
        path = self.tools()
        build = self.build()
        self.write("build/fuzz/plumb", "#!/bin/sh\necho '{\"cases\": 3, \"findings\": 0, \"verdict\": \"clean\", "
                   "\"mutants\": [{}]}'\n", 0o755)
        tree = self.root / "tree"
        shutil.copytree(SCRIPT.parent, tree / "tests/gpu", ignore=shutil.ignore_patterns("__pycache__"))
        self.write("tree/corpus/a.safetensors", "case")
        self.write("tree/corpus/new/b.safetensors", "not yet one")
        self.write("tree/kernel/a.cc", "kernel")
        for words in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", "-C", tree, *words], check=True)
        stage = self.root / "elsewhere"
        run = subprocess.run([SCRIPT, "--stage", stage, "--build", build, "--root", tree], text=True, check=False,
                             stdout=subprocess.PIPE, env=dict(os.environ, PATH=path))
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertFalse((stage / "corpus/new").exists())
        self.assertEqual(json.loads((stage / "stage.json").read_text(encoding="utf-8"))["trees"], trees.keys(tree))
        shutil.rmtree(tree)
        shutil.rmtree(build)
        command = [stage / "accept", "--stages", "corpus,mutants", "--out", self.root / "out"]
        run = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                             env=dict(os.environ, PATH=path, PLUMB_MPS_CONTROL=""))
        self.assertEqual(run.returncode, 5, run.stdout)  # the other stages are left
        self.assertIn("corpus passed, production not run", run.stdout)
        for words in (["--status"], ["--store", "x"], ["--stage", "y"]):
            run = subprocess.run([stage / "accept", *words], text=True, stdout=subprocess.PIPE, check=False)
            self.assertEqual((run.returncode, run.stdout.startswith("accept: this is a stage")), (2, True), words)
        # Nothing of its own was added, so that it may be made anew.
        self.assertEqual({path.name for path in stage.iterdir()} - STAGED, set())


if __name__ == "__main__":
    unittest.main()
