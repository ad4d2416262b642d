#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/record: what is stored, what is not, and with which status it ends; what bench/split lets through."""

import json
import os
import shlex
import signal
import subprocess
import time
import unittest

from results import Scratch

# plumb says SAID STATUS: prints SAID and ends with STATUS. plumb wait: says so, and goes on until it is interrupted.
PLUMB = r"""
case $1 in
  doctor) echo '{"machine": {"cpu": "a \\ b"}, "verdict": "clean"}' ;;
  says) printf %s "$2"; exit "$3" ;;
  wait) trap 'echo "{\"verdict\": \"interrupted\"}"; exit 5' INT; touch waits; while :; do sleep 0.02; done ;;
esac
"""
CLEAN = '{"verdict": "clean", "cases": 3}\n'


class Record(Scratch):
    def setUp(self):
        super().setUp()
        self.copy("bench/record", "bench/stored_result.py")
        self.program("build/release/fuzz/plumb", PLUMB)
        (self.root / "bench/results").mkdir()
        for room in ("kernel", "oracle", "fuzz"):
            self.program(f"{room}/file", room)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        for words in (["init", "-q"], ["add", "kernel", "oracle", "fuzz"],
                      ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
            subprocess.run(["git", *words], cwd=self.root, env=self.environment, check=True)

    def record(self, *words):
        """(status, stderr)."""
        done = subprocess.run([self.root / "bench/record", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=self.environment)
        return done.returncode, done.stderr

    def stored(self, name="x"):
        return json.loads((self.root / f"bench/results/{name}.json").read_text(encoding="utf-8"))

    def names(self):
        return sorted(path.name for path in (self.root / "bench/results").iterdir())

    def test_what_is_stored(self):
        self.assertEqual(self.record("x", "--", "says", "progress\n" + CLEAN, "0"), (0, ""))
        found = self.stored()
        self.assertEqual(found["result"], {"verdict": "clean", "cases": 3})
        self.assertEqual(found["machine"], {"cpu": "a \\ b"})
        self.assertEqual(set(found["trees"]), {"kernel", "oracle", "fuzz"})
        for tree in found["trees"].values():
            self.assertRegex(tree, "^[0-9a-f]{12}$")
        self.assertEqual(self.names(), ["x.json"])

    def test_a_finding_is_stored_and_a_changed_room_is_said(self):
        self.program("oracle/file", "other")
        self.assertEqual(self.record("x", "--", "says", CLEAN, "1"), (1, ""))
        self.assertTrue(self.stored()["trees"]["oracle"].endswith("-modified"))

    def test_the_command_is_what_was_run(self):
        words = ["says", CLEAN, "0", 'a"b', "c\\d", "e f"]
        self.assertEqual(self.record("x", "--", *words)[0], 0)
        self.assertEqual(shlex.split(self.stored()["command"]), ["plumb", *words])

    def test_where_a_folder_lies_is_not_stored(self):
        said = json.dumps({"out": "/a/b/x", "host": {"out": f"{self.root}/y"}, "z": 0.5})
        self.record("x", "--", "says", said, "0", str(self.root / "build/campaigns/x"))
        self.assertEqual(self.stored()["result"], {"out": "x", "host": {"out": "y"}, "z": 0.5})
        self.assertEqual(shlex.split(self.stored()["command"])[-1], "build/campaigns/x")

    def test_what_did_not_come_to_its_end_is_not_stored(self):
        self.record("x", "--", "says", CLEAN, "0")
        for status in (2, 3, 4, 5, 139):
            self.assertEqual(self.record("x", "--", "says", '{"cases": 9}', str(status))[0], status)
        self.assertEqual(self.stored()["result"]["cases"], 3)

    def test_a_result_that_is_none_is_not_stored(self):
        self.record("x", "--", "says", CLEAN, "0")
        for said in ("", "{}", '{"cases": 4', "[1]", '{"cases": 4}\nlast words'):
            status, err = self.record("x", "--", "says", said, "0")
            self.assertEqual(status, 3, said)
            self.assertIn("nothing stored", err)
        self.assertEqual(self.stored()["result"]["cases"], 3)
        self.assertEqual(self.names(), ["x.json"])

    def test_interrupted(self):
        # To the group, as a terminal and `timeout` send it. A test run in the background has it ignored.
        child = subprocess.Popen([self.root / "bench/record", "x", "--", "wait"], cwd=self.root, env=self.environment,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                 preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        begun = time.monotonic()
        while not (self.root / "waits").exists() and child.poll() is None and time.monotonic() - begun < 50:
            time.sleep(0.01)
        os.killpg(child.pid, signal.SIGINT)
        self.assertEqual(child.communicate()[1], "bench/record: status 5, nothing stored\n")
        self.assertEqual((child.returncode, self.names()), (5, []))

    def test_names(self):
        for name in ("../x", "", "a b", "-x"):
            self.assertEqual(self.record(name, "--", "says", CLEAN, "0")[0], 2, name)
        self.assertEqual(self.names(), [])


class Split(Scratch):
    def test_why_a_campaign_did_not_run_is_said(self):
        self.copy("bench/split")
        self.program("bench/record", 'echo "bench/record: status 4, nothing stored" >&2; exit 4\n')
        self.program("bin/taskset", 'shift 2; exec "$@"\n')
        done = subprocess.run([self.root / "bench/split"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}"})
        self.assertEqual((done.returncode, done.stderr), (4, "bench/record: status 4, nothing stored\n"))


if __name__ == "__main__":
    unittest.main()
