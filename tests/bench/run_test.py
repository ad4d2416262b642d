#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests bench/run with programs that end as they are told: what is kept, and the status."""

import json
import os
import shutil
import subprocess
import sys
import unittest

from results import BENCH, Scratch, failed, pair, result

# A Google Benchmark program: its results are the file beside it, its status the one in the other.
PROGRAM = """
for word; do [[ $word != --benchmark_out=* ]] || out=${word#*=}; done
[[ ! -e $0.json ]] || cp "$0.json" "$out"
exit "$(cat "$0.status")"
"""


class Run(Scratch):
    def setUp(self):
        super().setUp()
        self.copy("bench/run", *(str(path.relative_to(BENCH.parent)) for path in (BENCH / "report").glob("*.py")),
                  "fuzz/setup.sh")
        self.program("bin/cmake", "")

    def give(self, name, status, what=None):
        self.program(f"built/bench/{name}", PROGRAM)
        self.store(f"built/bench/{name}.status", str(status))
        if what is not None:  # laid out as Google Benchmark does
            self.store(f"built/bench/{name}.json", json.dumps(what, indent=2))

    def run_it(self, *words):
        """(status, stdout, stderr, names of the programs whose results are kept)."""
        done = subprocess.run([self.root / "bench/run", "--build", self.root / "built", *words],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}"})
        kept = sorted(path.name.split("-")[0] for path in (self.root / "build/bench").glob("*.json"))
        return done.returncode, done.stdout, done.stderr, kept

    def test_a_program_that_fails_costs_neither_its_results_nor_the_others(self):
        self.give("a_bench", 1, result(failed("x", "row 3: logprob nan")))
        self.give("b_bench", 0, result(pair("y", 1.0)))
        status, _, err, kept = self.run_it()
        self.assertEqual((status, kept), (1, ["a_bench", "b_bench"]))
        self.assertIn("a_bench ended with status 1", err)

    def test_the_status_is_that_of_the_first_that_failed(self):
        self.give("a_bench", 0, result(pair("y", 1.0)))
        self.give("b_bench", 7)
        self.give("c_bench", 1, result(failed("x", "no")))
        self.assertEqual(self.run_it()[::3], (7, ["a_bench", "c_bench"]))

    def test_a_benchmark_that_failed_where_the_program_says_nothing(self):
        self.give("host_bench", 0, result(failed("x", "the host fails")))
        self.assertEqual(self.run_it()[::3], (1, ["host_bench"]))

    def test_what_is_skipped_is_no_failure_but_no_result(self):
        self.give("cuda_bench", 0)
        self.assertEqual(self.run_it()[::3], (2, []))
        self.give("host_bench", 0, result(pair("x", 1.0)))
        self.assertEqual(self.run_it()[::3], (0, ["host_bench"]))

    def test_the_filter_is_google_benchmarks(self):
        # It is matched with the whole name there, and is no Python.
        before = self.store("before.json", json.dumps(result(pair("x", 1.0), pair("y", 1.0)), indent=2))
        self.give("cuda_bench", 0, result(pair("x", 1.2)))
        status, out, err, _ = self.run_it("--compare", before, "--filter", "x/iterations:1/[[:alpha:]_]*$")
        self.assertEqual((status, out.splitlines()[-1]), (1, "verdict: 1 of 1 slower or failed: x"), err)

    def test_a_failure_outweighs_a_comparison(self):
        before = self.store("before.json", json.dumps(result(pair("x", 1.0)), indent=2))
        self.give("cuda_bench", 7, result(pair("x", 1.2)))
        self.assertEqual(self.run_it("--compare", before)[0], 7)

    # Fails if a staged program imports what --stage leaves behind.
    def test_what_is_staged_needs_no_tree(self):
        self.copy(*(str(path.relative_to(BENCH.parent)) for path in (BENCH / "peers").glob("*.py")))
        self.program("bin/strip", 'cp "$3" "$2"\n')
        self.program("bin/ldd", "")
        for name in ("cuda_bench", "passes_once", "peers_operator.so"):
            self.program(f"built/bench/{name}", PROGRAM)
        stage = self.root / "stage"
        self.assertEqual(self.run_it("--stage", stage)[0], 0)
        stage = stage.rename(self.root.with_name(self.root.name + "-stage"))  # beside no tree
        self.addCleanup(shutil.rmtree, stage, True)
        once = self.store("a.json", result(pair("a", 1.0)))
        shapes = self.store("peers.json", {"shapes": {"8x8x8": []}})
        for words, status, said in [(["report", "compare", once, once], 0, "verdict: 0 of 1 slower or failed"),
                                    (["report", "figures", once], 1, "| not measured | no |"),
                                    (["peers", "--table", shapes], 0, "### 8x8x8"),
                                    (["peers", "worker", "--help"], 0, "usage: bench/peers worker")]:
            done = subprocess.run([sys.executable, "-B", stage / words[0], *words[1:]], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(said, done.stdout)


if __name__ == "__main__":
    unittest.main()
