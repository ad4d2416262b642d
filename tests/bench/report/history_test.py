#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bench/report history`: one line a stored result, by date, devices apart."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import Scratch, failed, pair, result


class History(Scratch):
    def results(self):
        return [self.store("new.json", result(pair("forward/a", 0.95, ms=9), pair("backward/a", 1.1),
                                              date="2026-11-23T09:00:00+02:00", kernel="bbbb")),
                # Later on the clock of the day, earlier in time than 06:30 UTC.
                self.store("old.json", result(pair("forward/a", 1.02, ms=10, workspace=80.0, saved=0.5),
                                              failed("backward/a", "x"), date="2026-11-23T08:00:00+02:00",
                                              kernel="aaaa")),
                self.store("between.json", result(pair("forward/a", 1.00), date="2026-11-23T06:30:00+00:00",
                                                  kernel="cccc")),
                self.store("other.json", result(pair("forward/a", 2.0), device="NVIDIA H100", kernel="dddd"))]

    def test_table(self):
        status, out, _ = self.run_script("report", "history", *self.results())
        lines = out.splitlines()
        self.assertEqual(status, 0)
        at = lines.index("forward/a, NVIDIA H200")
        self.assertEqual([line.split()[1] for line in lines[at + 2:at + 5]], ["aaaa", "cccc", "bbbb"])
        self.assertEqual(lines[at + 2].split(), ["2026-11-23", "aaaa", "10.000", "1.020", "[1.010,", "1.030]", "80.5"])
        at = lines.index("backward/a, NVIDIA H200")
        self.assertEqual(len(lines[at + 2].split()), 7)
        self.assertIn("bbbb", lines[at + 2])  # the one that failed has no point
        self.assertEqual(lines[lines.index("forward/a, NVIDIA H100") + 2].split()[1], "dddd")

    def test_filter(self):
        _, out, _ = self.run_script("report", "history", "--filter", "^backward", *self.results())
        self.assertNotIn("forward/a", out)
        self.assertIn("backward/a", out)

    def test_a_filter_that_says_nothing(self):
        for words, named in [(["--filter", "("], "--filter: '('"), (["--filter", "^nothing"], "--filter '^nothing'")]:
            status, _, err = self.run_script("report", "history", *words, *self.results())
            self.assertEqual(status, 2)
            self.assertIn(named, err)
            self.assertNotIn("Traceback", err)

    def test_a_file_of_another_program_is_named(self):
        path = self.store("host.json", {"context": {"date": "2026-11-22T00:00:00+00:00"}, "benchmarks": []})
        status, _, err = self.run_script("report", "history", path)
        self.assertEqual(status, 2)
        self.assertIn("host.json", err)

    def test_store(self):
        kept = self.root / "kept"
        kept.mkdir()
        tree = "0123456789ab"
        good = self.store("good.json", result(pair("forward/a", 1.0), kernel=tree))
        self.assertEqual(self.run_script("report", "history", "--folder", kept, "--store", good)[0], 0)
        self.assertEqual([path.name for path in kept.iterdir()], [f"cuda_bench-h200-{tree}.json"])
        changed = tree + "-modified"
        for what, why in [(result(pair("forward/a", 1.0), kernel=changed), f"kernel is '{changed}'"),
                          (result(pair("forward/a", 1.0), git="unknown"), "git is 'unknown'"),
                          (result(pair("forward/a", 1.0), git=changed), f"git is '{changed}'"),
                          (result(pair("forward/a", 1.0), failed("backward/a", "x"), kernel="f" * 12), "backward/a"),
                          (result(kernel="f" * 12), "no benchmark")]:
            status, _, err = self.run_script("report", "history", "--folder", kept, "--store", self.store("bad.json", what))
            self.assertEqual(status, 2)
            self.assertIn(why, err)
        self.assertEqual(len(list(kept.iterdir())), 1)
        # What is kept is what is read.
        self.assertIn(tree, self.run_script("report", "history", "--folder", kept)[1])

    # Fails if a result that only git remembers is lost, or one that was renamed counts twice.
    def test_what_git_remembers(self):
        kept = self.root / "kept"
        kept.mkdir()
        git = ["git", "-C", kept, "-c", "user.name=a", "-c", "user.email=a@b"]

        def commit():
            for words in (["add", "-A"], ["commit", "-qm", "x"]):
                subprocess.run([*git, *words], check=True, env=environment)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        subprocess.run([*git, "init", "-q"], check=True, env=environment)
        before = self.store("kept/cuda_bench-h200-aaaaaaaaaaaa.json", result(pair("forward/a", 1.0), kernel="aaaaaaaaaaaa",
                                                                            date="2026-11-21T01:00:00+00:00"))
        commit()
        before.unlink()
        now = self.store("kept/cuda_bench-h200-bbbbbbbbbbbb.json", result(pair("forward/a", 0.9), kernel="bbbbbbbbbbbb"))
        commit()
        now.rename(now.with_name("cuda_bench-h200-v2-cccccccccccc.json"))
        status, out, err = self.run_script("report", "history", "--folder", kept)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual([line.split()[1] for line in out.splitlines()[2:]], ["aaaaaaaaaaaa", "bbbbbbbbbbbb"])


if __name__ == "__main__":
    unittest.main()
