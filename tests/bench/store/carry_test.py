#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store carry: a speed result goes over to another tree if, and only if, its machine code did not change."""

import json
import os
import unittest

from archive import cubin, library
from scratch import Tree

MAIN = ("_ZN4cuda6hopper13ProductKernelIfE", b"main loop", 168, 9216)
SMALL = ("_ZN4cuda6FinishEv", b"a sum", 32, 0)
OLD = "0123456789ab"


class Carry(Tree):
    def setUp(self):
        super().setUp()
        self.archive("old.a", MAIN, SMALL)
        self.archive("build/release/kernel/libplumbline_kernel.a", MAIN, SMALL)
        self.result("cuda_bench", {"context": {"kernel": OLD, "date": "2026-11-22"}, "benchmarks": [{"name": "x"}]})
        self.result("peers", {"kernel": OLD, "machine": {}, "shapes": {}})

    def archive(self, name, *kernels):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(library([(2, 0x11, cubin(*kernels))]) if kernels else library(None))

    def result(self, program, what, key=OLD):
        return self.write(f"bench/results/{program}-h200-{key}.json", json.dumps(what))

    def carry(self, *words, **how):
        """(status, stdout, stderr) for all results."""
        return self.run_store("carry", *sorted((self.root / "bench/results").glob("*.json")), *words, **how)

    def key(self):
        return self.run_store("trees", "kernel")[1].split()[1].removesuffix("-modified")

    # Fails if a result is not renamed, loses something, or does not say from where to where it was carried.
    def test_the_same_code(self):
        status, out, err = self.carry("--old", self.root / "old.a")
        self.assertEqual((status, err), (0, ""), out)
        key = self.key()
        self.assertEqual(self.names(), [f"cuda_bench-h200-{key}.json", f"peers-h200-{key}.json"])
        for name in self.names():
            found = json.loads((self.root / "bench/results" / name).read_text(encoding="utf-8"))
            self.assertEqual(found["carried"]["from"], OLD)
            self.assertEqual(found["carried"]["to"], key)
            self.assertRegex(found["carried"]["machine_code"], "^[0-9a-f]{64}$")
            self.assertRegex(found["carried"]["date"], r"^\d{4}-\d\d-\d\d$")
            self.assertEqual(found.get("context", found)["kernel"], OLD)  # what was measured stays
        self.assertIn("already about this tree", self.carry()[1])

    # Fails if a changed main kernel is carried over, is not named, or anything is written then.
    def test_another_code(self):
        self.archive("build/release/kernel/libplumbline_kernel.a", (MAIN[0], b"main pool", *MAIN[2:]), SMALL)
        before = self.names()
        status, out, err = self.carry("--old", self.root / "old.a")
        self.assertEqual((status, out, self.names()), (1, "", before))
        self.assertIn(MAIN[0], err)

    # Fails if a small kernel beside the products keeps a result from being carried over, or is not named.
    def test_other_kernels_are_named(self):
        self.archive("build/release/kernel/libplumbline_kernel.a", MAIN, (SMALL[0], b"another sum", 32, 0))
        status, out, _ = self.carry("--old", self.root / "old.a")
        self.assertEqual(status, 0)
        self.assertIn(f"other kernels differ: {SMALL[0]}", out)

    # Fails if a carried result needs the old build once more, or forgets what it was measured with.
    def test_a_second_time(self):
        self.assertEqual(self.carry()[0], 2)  # neither says its machine code
        self.carry("--old", self.root / "old.a")
        self.write("kernel/file.cc", "other")
        self.assertEqual(self.carry("--new", self.root / "build/release")[0], 0)
        key = self.key()
        self.assertEqual(self.names(), [f"cuda_bench-h200-{key}.json", f"peers-h200-{key}.json"])
        found = json.loads((self.root / "bench/results" / self.names()[0]).read_text(encoding="utf-8"))
        self.assertEqual((found["carried"]["from"], found["carried"]["to"]), (OLD, key))
        self.write("kernel/file.cc", "more")
        self.archive("old.a", (MAIN[0], b"main pool", *MAIN[2:]))
        self.assertEqual(self.carry("--new", self.root / "old.a")[0], 1)
        self.assertEqual(self.carry("--old", self.root / "old.a")[0], 2)  # not what it was measured with
        self.assertIn(key, self.names()[0])

    # Fails if an archive passes for one of the present tree without a word.
    def test_an_archive_is_taken_as_it_is(self):
        said = self.carry("--old", self.root / "old.a", "--new", self.root / "old.a")[1]
        self.assertIn("old.a is taken to be of the present tree", said)

    # Fails if a build that is older than its sources, or of other sources, passes for that of the present tree.
    def test_whose_build_it_is(self):
        words = ("--old", self.root / "old.a")
        cache = self.write("build/release/CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
        before = self.names()
        status, _, err = self.carry(*words)
        self.assertEqual((status, self.names()), (2, before))
        self.assertIn("is of another source tree: /elsewhere", err)
        cache.write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={self.root}\n", encoding="utf-8")
        kernel = self.root / "build/release/kernel/libplumbline_kernel.a"
        changed = self.write("changed.a", "")
        changed.write_bytes(library([(2, 0x11, cubin((MAIN[0], b"main pool", *MAIN[2:])))]))
        cmake = self.write("bin/cmake", f'#!/bin/sh\ncp {changed} {kernel}\n')
        cmake.chmod(0o755)
        path = f"{cmake.parent}:{os.environ['PATH']}"
        self.assertEqual(self.carry(*words, PATH=path)[0], 1)
        cmake.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        self.assertIn("does not build", self.carry(*words, PATH=path)[2])

    # Fails if a build without device code, or a file that is no result, is taken.
    def test_refusals(self):
        self.archive("host.a")
        self.assertIn("built without CUDA", self.carry("--old", self.root / "host.a")[2])
        self.assertEqual(self.carry("--old", self.root / "nothing.a")[0], 2)
        self.result("peers", {"shapes": {}})
        self.assertEqual(self.carry("--old", self.root / "old.a")[0], 2)
        path = self.write("bench/results/selftest.json", "{}")
        self.assertEqual(self.run_store("carry", path, "--old", self.root / "old.a")[0], 2)


if __name__ == "__main__":
    unittest.main()
