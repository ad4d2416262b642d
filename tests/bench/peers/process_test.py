#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the processes in which peers are measured: what is heard of one that fails."""

import os
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from peers import process
from results import BENCH, Scratch


class Listen(Scratch):
    def listen(self, script, limit=20.0):
        return process.listen([sys.executable, "-c", "import os, sys, time\nsay = lambda text: print('PEERS ' + text, "
                             "flush=True)\n" + script], limit)

    def test_messages_among_other_output(self):
        messages, fault = self.listen("print('noise')\nsay('{\"starts\": \"a\"}')\nprint('x', file=sys.stderr)\n"
                                      "say('{\"done\": true}')")
        self.assertEqual((messages, fault), ([{"starts": "a"}, {"done": True}], ""))

    def test_a_crash_keeps_what_was_said(self):
        messages, fault = self.listen("say('{\"starts\": \"a\"}')\nprint('illegal address', file=sys.stderr, flush=True)\n"
                                      "os.abort()")
        self.assertEqual(messages, [{"starts": "a"}])
        self.assertEqual(fault, "ended with status -6: illegal address")

    def test_last_words_that_arrive_in_pieces(self):
        fault = self.listen("for piece in ('first\\nillegal ', 'address', '\\n'):\n"
                            "  sys.stderr.write(piece); sys.stderr.flush(); time.sleep(0.2)\nsys.exit(3)")[1]
        self.assertEqual(fault, "ended with status 3: illegal address")

    def test_an_end_without_a_word(self):
        self.assertEqual(self.listen("sys.exit(3)")[1], "ended with status 3: no word")

    def test_an_end_without_the_last_message_is_a_fault(self):
        self.assertIn("ended with status 0", self.listen("say('{\"starts\": \"a\"}')")[1])

    def hang(self, limit):
        return process.listen(["sh", "-c", f"echo '{process.MARK}{{\"starts\": \"a\"}}'; exec sleep 60"], limit)

    def test_a_hang(self):
        self.assertEqual(self.hang(3), ([{"starts": "a"}], "said nothing for 3 s"))

    def test_interrupted(self):
        begun = time.monotonic()
        self.addCleanup(process.interrupted.clear)
        process.interrupted.set()
        self.assertEqual(self.hang(0.5)[1], "interrupted")
        self.assertLess(time.monotonic() - begun, 30)  # the worker does not outlive it

    def test_a_message_after_a_line_that_does_not_end(self):
        said = self.listen(f"sys.path.insert(0, {str(BENCH)!r})\nfrom peers.process import tell\n"
                           "sys.stdout.write('100 %'); tell(starts='a'); sys.stdout.write('more'); tell(done=True)")
        self.assertEqual(said, ([{"starts": "a"}, {"done": True}], ""))

    def test_what_is_no_message_is_a_fault(self):
        messages, fault = self.listen("say('{\"starts\": \"a\"}')\nsay('{\"peer\": warning: slow}')\ntime.sleep(60)")
        self.assertEqual((messages, fault),
                         ([{"starts": "a"}], 'said what is no message: PEERS {"peer": warning: slow}'))

    def leaves_behind(self, command, ending):
        """listen() to a worker that starts a process, which keeps its pipes, and ends."""
        messages, fault = self.listen("import subprocess\n"
                                      f"say('{{\"child\": %d}}' % subprocess.Popen({command!r}).pid)\n" + ending, 30)
        os.kill(messages[0]["child"], signal.SIGKILL)
        return messages[1:], fault

    def test_its_end_is_not_that_of_a_process_that_it_started(self):
        self.assertEqual(self.leaves_behind(["sleep", "60"], "say('{\"done\": true}')"), ([{"done": True}], ""))
        self.assertEqual(self.leaves_behind(["sh", "-c", "while :; do echo noise; done"],
                                            "print('lost', file=sys.stderr, flush=True)\nsys.exit(3)"),
                         ([], "ended with status 3: lost"))

    def test_nothing_there_is_not_the_end(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(reader, False)
        self.assertIsNone(process.arrived(reader))
        os.write(writer, b"x")
        self.assertEqual(process.arrived(reader), b"x")
        os.close(writer)
        self.assertEqual(process.arrived(reader), b"")


if __name__ == "__main__":
    unittest.main()
