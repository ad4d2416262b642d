#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store record, campaign and split: what is stored, what is not, and with which status they end."""

import json
import os
import shlex
import signal
import subprocess
import time
import unittest

from scratch import Tree

# plumb says SAID STATUS: prints SAID and ends with STATUS. plumb wait: says so, and goes on until it is interrupted.
# plumb fuzz: notes its arguments, begins a journal, and ends as the file `fuzz` says.
PLUMB = r"""
here=$(dirname "$0")
case $1 in
  doctor) cat "$here/doctor" 2>/dev/null || echo '{"machine": {"cpu": "a \\ b"}, "verdict": "clean"}' ;;
  says) printf %s "$2"; exit "$3" ;;
  wait) trap 'echo "{\"verdict\": \"interrupted\"}"; exit 5' INT; touch waits; while :; do sleep 0.02; done ;;
  fuzz)
    echo "$*" >>"$here/calls"
    while (($#)); do [[ $1 != --out ]] || { mkdir -p "$2"; touch "$2/journal.jsonl"; }; shift; done
    cat "$here/said" 2>/dev/null || echo '{"cases": 9}'
    exit "$(cat "$here/fuzz" 2>/dev/null || echo 0)" ;;
esac
"""
CLEAN = '{"verdict": "clean", "cases": 3}\n'


class Recording(Tree):
    def setUp(self):
        super().setUp()
        self.program("build/release/fuzz/plumb", PLUMB)
        self.program("bin/cmake", "")

    def stored(self, name="x"):
        return json.loads((self.root / f"bench/results/{name}.json").read_text(encoding="utf-8"))

    def calls(self):
        return (self.root / "build/release/fuzz/calls").read_text(encoding="utf-8").splitlines()

    def tell(self, what, text):
        self.write(f"build/release/fuzz/{what}", str(text))


class Record(Recording):
    def record(self, *words):
        """(status, stderr)."""
        return self.run_store("record", *words)[::2]

    # Fails if a key of a result (command, date, trees, machine, result) is lost, or numbers and text are not plumb's.
    def test_what_is_stored(self):
        self.assertEqual(self.record("x", "--", "says", "progress\n" + CLEAN, "0"), (0, ""))
        found = self.stored()
        self.assertEqual(list(found), ["command", "date", "trees", "machine", "result"])
        self.assertEqual(found["result"], {"verdict": "clean", "cases": 3})
        self.assertEqual(found["machine"], {"cpu": "a \\ b"})
        self.assertRegex(found["date"], r"^\d{4}-\d\d-\d\d$")
        self.assertEqual(set(found["trees"]), {"kernel", "oracle", "fuzz"})
        for key in found["trees"].values():
            self.assertRegex(key, "^v2-[0-9a-f]{12}$")
        self.assertEqual(self.names(), ["x.json"])

    # Fails if a finding is not stored, or a change that is not committed is not said.
    def test_a_finding_is_stored_and_a_changed_room_is_said(self):
        self.write("oracle/file.cc", "other")
        self.assertEqual(self.record("x", "--", "says", CLEAN, "1"), (1, ""))
        self.assertTrue(self.stored()["trees"]["oracle"].endswith("-modified"))
        self.assertFalse(self.stored()["trees"]["kernel"].endswith("-modified"))

    # Fails if an argument's spelling is lost on the way to plumb or into the stored command.
    def test_the_command_is_what_was_run(self):
        words = ["says", CLEAN, "0", 'a"b', "c\\d", "e f"]
        self.assertEqual(self.record("x", "--", *words)[0], 0)
        self.assertEqual(shlex.split(self.stored()["command"]), ["plumb", *words])

    # Fails if a path of this machine is stored.
    def test_where_a_folder_lies_is_not_stored(self):
        said = json.dumps({"out": "/a/b/x", "host": {"out": f"{self.root}/y"}, "z": 0.5})
        self.record("x", "--", "says", said, "0", str(self.root / "build/campaigns/x"))
        self.assertEqual(self.stored()["result"], {"out": "x", "host": {"out": "y"}, "z": 0.5})
        self.assertEqual(shlex.split(self.stored()["command"])[-1], "build/campaigns/x")

    # Fails if the result of a run that did not end well takes the place of one that did.
    def test_what_did_not_come_to_its_end_is_not_stored(self):
        self.record("x", "--", "says", CLEAN, "0")
        for status in (2, 3, 4, 5, 139):
            self.assertEqual(self.record("x", "--", "says", '{"cases": 9}', str(status))[0], status)
        self.assertEqual(self.stored()["result"]["cases"], 3)

    # Fails if what is no JSON object is stored, or anything of it is left behind.
    def test_a_result_that_is_none_is_not_stored(self):
        self.record("x", "--", "says", CLEAN, "0")
        for said in ("", "{}", '{"cases": 4', "[1]", '{"cases": 4}\nlast words'):
            status, err = self.record("x", "--", "says", said, "0")
            self.assertEqual(status, 3, said)
            self.assertIn("nothing stored", err)
        self.tell("doctor", "{}")
        self.assertEqual(self.record("x", "--", "says", CLEAN, "0")[0], 3)
        self.assertEqual(self.stored()["result"]["cases"], 3)
        self.assertEqual(self.names(), ["x.json"])

    def interrupt(self, *words):
        """(status, stderr) of a command that plumb waits in, interrupted as a terminal and `timeout` do: the group."""
        # A test that runs in the background has the signal ignored; a child has the default where a handler is set.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        child = subprocess.Popen(self.command(*words), cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, start_new_session=True)
        begun = time.monotonic()
        while not (self.root / "waits").exists() and child.poll() is None and time.monotonic() - begun < 50:
            time.sleep(0.01)
        os.killpg(child.pid, signal.SIGINT)
        err = child.communicate()[1]
        return child.returncode, err

    # Fails if SIGINT ends bench/store before plumb has saved its state, or plumb's status 5 is not passed on.
    def test_interrupted(self):
        self.assertEqual(self.interrupt("record", "x", "--", "wait"),
                         (5, "bench/store record: status 5, nothing stored\n"))
        self.assertEqual(self.names(), [])

    # Fails if a program that is older than its sources, or of other sources, is stored under the present keys.
    def test_whose_program_it_is(self):
        said = ("x", "--", "says", CLEAN, "0")
        self.write("build/release/CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
        status, err = self.record(*said)
        self.assertEqual((status, self.names()), (2, []))
        self.assertIn("of another source tree", err)
        self.write("build/release/CMakeCache.txt", f"CMAKE_HOME_DIRECTORY:INTERNAL={self.root}\n")
        cmake = self.write("bin/cmake", '#!/bin/sh\nexit 1\n')
        cmake.chmod(0o755)
        path = f"{cmake.parent}:{os.environ['PATH']}"
        status, _, err = self.run_store("record", *said, PATH=path)
        self.assertEqual((status, self.names()), (2, []))
        self.assertIn("does not build", err)
        cmake.write_text('#!/bin/sh\ntouch "$(dirname "$0")/ran"\n', encoding="utf-8")
        self.assertEqual(self.run_store("record", *said, PATH=path)[0], 0)
        self.assertTrue((cmake.parent / "ran").exists())

    # Fails if a name may lead out of the folder of results.
    def test_names(self):
        for name in ("../x", "", "a b", "-x"):
            self.assertEqual(self.record(name, "--", "says", CLEAN, "0")[0], 2, name)
        self.assertEqual(self.names(), [])

    # Fails if wrong usage runs something, or --help is an error.
    def test_usage(self):
        for words in ([], ["x"], ["x", "--"], ["x", "says", CLEAN, "0"]):
            self.assertEqual(self.record(*words)[0], 2, words)
        self.assertEqual(self.run_store("record", "--help")[0], 0)
        self.assertEqual(self.run_store()[0], 2)
        self.assertEqual(self.run_store("nothing")[0], 2)
        (self.root / "build/release/fuzz/plumb").unlink()
        self.assertIn("tests/run or fuzz/run builds it", self.record("x", "--", "says", CLEAN, "0")[1])


class Campaign(Recording):
    def campaign(self, *words):
        return self.run_store("campaign", *words, PATH=f"{self.root}/bin:{os.environ['PATH']}")

    # Fails if an interrupted campaign begins anew, does not pass plumb's status on, or is stored before its end.
    def test_pieces(self):
        self.tell("fuzz", 5)
        self.assertEqual(self.campaign("host+a:b", 30)[0], 5)
        self.assertEqual(self.names(), [])
        self.tell("fuzz", 0)
        self.assertEqual(self.campaign("host+a:b", 30)[0], 0)
        out = f"{self.root}/build/campaigns/host-a-b-30"
        self.assertEqual(self.calls(), [f"fuzz --target host+a:b --budget 30cases --seed 1 --out {out} --json",
                                        f"fuzz --resume {out} --json"])
        self.assertEqual(self.names(), ["host-a-b-30.json"])

    # Fails if a campaign goes on with programs of another tree, or is refused for a page.
    def test_another_tree(self):
        self.tell("fuzz", 5)
        self.campaign("host", 30)
        self.write("fuzz/README.md", "a page")
        self.assertEqual(self.campaign("host", 30)[0], 5)
        self.write("fuzz/file.cc", "other")
        status, _, err = self.campaign("host", 30)
        self.assertEqual(status, 2)
        self.assertIn("begun with other trees of kernel, oracle or fuzz", err)
        self.write("fuzz/file.cc", "fuzz")
        self.assertEqual(self.campaign("host", 30, "--jobs", 1)[0], 2)
        self.assertEqual(len(self.calls()), 2)

    # Fails if a seed that is given is overruled, or a number of cases that is none is taken.
    def test_arguments(self):
        self.campaign("host", 30, "--seed", 7)
        self.assertIn("--budget 30cases --seed 7 --out", self.calls()[0])
        for words in ([], ["host"], ["host", "0"], ["host", "x"]):
            self.assertEqual(self.campaign(*words)[0], 2, words)
        self.assertEqual(len(self.calls()), 1)


class Split(Recording):
    # Fails if the status or the reason of a campaign that did not run is lost.
    def test_why_a_campaign_did_not_run_is_said(self):
        self.tell("fuzz", 4)
        self.assertEqual(self.run_store("split")[::2], (4, "bench/store split: status 4, nothing stored\n"))
        self.assertEqual(len(self.calls()), 1)

    # Fails if the table is not of the results, or the stored command names a folder.
    def test_table(self):
        self.tell("said", json.dumps({"campaign": {"targets": ["t"]}, "cases": 600, "time": {
            "jobs": 2, "wall": 2.0, "target": 1.0, "oracle": 0.4, "arbiter": 0.2, "shrinking": 0.4, "expansion": 1.0}}))
        status, out, err = self.run_store("split", "--seconds", 2)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out.splitlines()[-1], "| `t` | 300 | 25 % | 10 % | 5 % | 50 % | 25 % |")
        self.assertEqual(self.names(), ["split-host-hopper.json", "split-host.json"])
        self.assertEqual(self.stored("split-host")["command"],
                         "plumb fuzz --target host --budget 2s --jobs 2 --seed 1 --out host")

    # Fails if a length that is none is taken.
    def test_arguments(self):
        for words in (["--seconds"], ["--seconds", "0"], ["--seconds", "x"], ["x"], ["--seconds", "1", "x"]):
            self.assertEqual(self.run_store("split", *words)[0], 2, words)


if __name__ == "__main__":
    unittest.main()
