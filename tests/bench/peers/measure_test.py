#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers.py without PyTorch or a GPU: what is said of a peer that fails, and that the others are kept."""

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest import mock

from results import BENCH, Scratch

import peer_process  # results.py names the folder
import peers

ERRORS = {name: {"max": 1e-4, "rms": 2e-3} for name in ("logprob", "entropy", "grad_hidden", "grad_weight")}


def measured(name, contract="rows", **more):
    return {"peer": name, "contract": contract, "note": "", "errors": ERRORS, "forward_MiB": 73.2, "step_MiB": 408.0,
            **more}


def times(rounds=6, **of):
    """Messages of rounds at (forward, step, backward) times 1, 1.01, …"""
    return [{"times": {name: [value * (1 + i / 100) for value in values] for name, values in of.items()}}
            for i in range(rounds)]


class Listen(Scratch):
    def listen(self, script, limit=20.0):
        return peer_process.listen([sys.executable, "-c", "import os, sys, time\nsay = lambda text: print('PEERS ' + text, "
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
        return peer_process.listen(["sh", "-c", f"echo '{peer_process.MARK}{{\"starts\": \"a\"}}'; exec sleep 60"], limit)

    def test_a_hang(self):
        self.assertEqual(self.hang(3), ([{"starts": "a"}], "said nothing for 3 s"))

    def test_interrupted(self):
        begun = time.monotonic()
        self.addCleanup(peer_process.interrupted.clear)
        peer_process.interrupted.set()
        self.assertEqual(self.hang(0.5)[1], "interrupted")
        self.assertLess(time.monotonic() - begun, 30)  # the worker does not outlive it

    def test_a_message_after_a_line_that_does_not_end(self):
        said = self.listen(f"sys.path.insert(0, {str(BENCH)!r})\nfrom peer_process import tell\n"
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
        self.assertIsNone(peer_process.arrived(reader))
        os.write(writer, b"x")
        self.assertEqual(peer_process.arrived(reader), b"x")
        os.close(writer)
        self.assertEqual(peer_process.arrived(reader), b"")

    def test_one_that_ends_before_its_turn(self):
        messages, fault = peer_process.listen(
            ["sh", "-c", f"exec <&-; echo '{peer_process.MARK}{{\"ready\": true}}'; exit 3"], 20)
        self.assertEqual((messages, fault), ([], "ended with status 3: no word"))

    def test_a_worker_waits_for_its_turn(self):
        told = []
        messages, fault = peer_process.listen(
            ["sh", "-c", f"echo '{peer_process.MARK}{{\"ready\": true}}'; read line; echo '{peer_process.MARK}{{\"at\": "
             "\"'$line'\"}'; echo '" + peer_process.MARK + "{\"done\": true}'"], 20, lambda: told.append(1))
        self.assertEqual((messages, fault, told), ([{"at": "go"}, {"done": True}], "", [1]))


class TurnsTest(unittest.TestCase):
    def test_none_is_timed_while_another_prepares_or_is_timed(self):
        turns, log, both = peer_process.Turns(), [], threading.Barrier(2)

        def shape(name, preparing, timing):
            turns.prepare(name)
            if name != "c":
                both.wait(20)
            time.sleep(preparing)
            log.append((name, "ready"))
            turns.begin(name)
            log.append((name, "timed"))
            time.sleep(timing)
            log.append((name, "end"))
            turns.end(name)
        with ThreadPoolExecutor(2) as pool:  # c may prepare only when a or b has ended
            running = [pool.submit(shape, *what) for what in (("a", 0, 0.1), ("b", 0.2, 0.1), ("c", 0.1, 0))]
        for future in running:
            future.result()
        places = {entry: i for i, entry in enumerate(log)}
        self.assertEqual(len(places), 9)
        for name in "ab":  # next to each other: nothing between the begin and the end of a timing
            self.assertEqual(places[name, "end"], places[name, "timed"] + 1)
        self.assertLess(places["b", "ready"], places["a", "timed"])

    def test_one_that_died_keeps_nobody_waiting(self):
        turns = peer_process.Turns()
        turns.prepare("a")
        turns.prepare("b")
        turns.end("a")
        turns.begin("b")
        self.assertEqual(turns.timing, "b")


class SlotsTest(unittest.TestCase):
    def test_each_device_as_often_as_allowed_and_its_turns_its_own(self):
        slots = peer_process.Slots(["a", "b"], 2)
        with contextlib.ExitStack() as held:
            taken = [held.enter_context(slots.take()) for _ in range(slots.count)]
            self.assertTrue(slots.free.empty())
        self.assertEqual([device for device, _ in taken], ["a", "b", "a", "b"])  # spread before it is shared
        turns = [turn for _, turn in taken]
        self.assertIs(turns[0], turns[2])
        self.assertIsNot(turns[0], turns[1])
        with self.assertRaises(OSError), slots.take():
            raise OSError
        self.assertEqual(slots.free.qsize(), 4)  # free again, whatever happened


class Measure(Scratch):
    def measure(self, *runs, device=None):
        """peers.measure where the worker's runs go as scripted; what each was told to skip is in self.skipped, and what
        its environment had to be in self.environments."""
        self.skipped, self.environments, runs = [], [], list(runs)

        def listen(command, _, __, environment):
            self.skipped.append([command[i + 1] for i, word in enumerate(command) if word == "--skip"])
            self.environments.append(environment)
            return runs.pop(0)
        arguments = SimpleNamespace(rounds=6, peers="", library="x.so", limit=1.0)
        with mock.patch.object(peers, "listen", listen):
            return {result["name"]: result
                    for result in peers.measure("8x8x8", arguments, peer_process.Slots([device], 1))}

    def test_a_worker_sees_its_device_alone(self):
        done = ([measured("plumbline"), {"done": True}], "")
        self.measure(done)
        self.assertEqual(self.environments, [{}])
        self.measure(done, device="3")
        self.assertEqual(self.environments, [{"CUDA_VISIBLE_DEVICES": "3"}])

    def test_a_peer_that_kills_the_process_costs_no_other(self):
        found = self.measure(
            ([{"starts": "plumbline"}, measured("plumbline"), {"starts": "bad"}], "ended with status -6: abort"),
            ([{"starts": "plumbline"}, measured("plumbline"), {"starts": "late"}, measured("late"),
              {"starts": "round 0"}, *times(plumbline=(1.0, 4.0, 2.0), late=(2.0, 8.0, 6.0)), {"done": True}], ""))
        self.assertEqual(self.skipped, [[], ["bad"]])
        self.assertEqual(found["bad"], {"name": "bad", "reason": "ended with status -6: abort"})
        self.assertEqual(found["late"]["over_ours"], [2.0, 2.0, 2.0])
        self.assertEqual(found["plumbline"]["step_ms"], 4.1)
        self.assertEqual(found["late"]["step_ms_interval"], [8.0, 8.4])

    def test_one_that_refuses_is_not_tried_again(self):
        refused = {"peer": "no", "contract": "rows", "reason": "ValueError: V"}
        self.measure(([refused, {"starts": "bad"}], "said nothing for 1 s"), ([measured("plumbline"), {"done": True}], ""))
        self.assertEqual(self.skipped[1], ["no", "bad"])

    def test_a_fault_in_the_rounds_leaves_those_that_were_enough(self):
        def run(rounds):
            return self.measure(([measured("plumbline"), *times(rounds, plumbline=(1.0, 4.0, 2.0)),
                                  {"starts": "round 9"}], "ended with status 1: lost"))["plumbline"]
        self.assertEqual(run(5)["reason"], "at round 9: ended with status 1: lost")
        self.assertNotIn("step_ms", run(5))
        self.assertEqual(run(6)["step_ms"], 4.1)
        self.assertNotIn("reason", run(6))

    def test_a_worker_that_dies_before_its_first_peer_is_a_result(self):
        found = self.measure(([], "ended with status 1: CUDA error: out of memory"))
        self.assertEqual(found["the worker"]["reason"],
                         "before its first peer: ended with status 1: CUDA error: out of memory")
        self.assertIn("* the worker: not measured: before its first peer: ended",
                      peers.table("8x8x8", list(found.values())))

    def test_what_is_no_number_is_null_and_a_word(self):
        nowhere = {**ERRORS, "logprob": {"max": float("nan"), "rms": float("inf")}}
        found = self.measure(([{**measured("plumbline"), "errors": nowhere}, *times(plumbline=(1.0, 4.0, 2.0)),
                               {"done": True}], ""))["plumbline"]
        self.assertEqual(found["errors"]["logprob"], {"max": None, "max_is": "nan", "rms": None, "rms_is": "inf"})
        self.assertEqual(found["errors"]["entropy"], ERRORS["entropy"])
        json.dumps(found, allow_nan=False)
        self.assertIn("| nan | 1.0e-04 |", peers.table("8x8x8", [found]))

    def test_table(self):
        found = self.measure(([measured("plumbline"), measured("slow", note="a note"),
                               {"peer": "no", "contract": "rows", "reason": "absent"},
                               *times(plumbline=(1.0, 4.0, 2.0), slow=(2.0, 8.0, 6.0)), {"done": True}], ""))
        lines = peers.table("8x8x8", list(found.values())).splitlines()
        self.assertEqual(lines[4], "| plumbline | rows | 1.02 | 4.10 | 2.05 | 1.000 | 73 | 408 | 1.0e-04 | 1.0e-04 "
                                   "| 2.0e-03 | 2.0e-03 |")
        self.assertTrue(lines[5].startswith("| slow | rows | 2.05 | 8.20 |"))
        self.assertEqual(lines[7:], ["* slow: a note", "* no: not measured: absent"])
        stored = self.store("peers.json", {"shapes": {"8x8x8": list(found.values())}})
        self.assertEqual(self.run_script("peers.py", "--table", stored)[1].splitlines()[:len(lines)], lines)
        status, _, err = self.run_script("peers.py", "--table", stored, "--shapes", "8x8x9")
        self.assertEqual(status, 2)
        self.assertIn("it has no 8x8x9", err)

    def test_steps_of_all_shapes(self):
        both = self.measure(([measured("plumbline"), measured("fast"), *times(plumbline=(1.0, 4.0, 2.0),
                                                                            fast=(1.0, 2.0, 1.0)), {"done": True}], ""))
        ours = self.measure(([measured("plumbline"), {"peer": "fast", "contract": "rows", "reason": "absent"},
                              *times(plumbline=(1.0, 8.0, 2.0)), {"done": True}], ""))
        stored = self.store("peers.json", {"shapes": {"8x8x8": list(both.values()),
                                                      "8x8x9_half_ignored": list(ours.values())}})
        self.assertEqual(self.run_script("peers.py", "--steps", stored)[1].splitlines()[:4],
                         ["| step, ms | contract | 8x8x8 | 8x8x9, half ignored |", "|---|---|---:|---:|",
                          "| fast | rows | **2.05** | — |", "| plumbline | rows | 4.10 | **8.20** |"])

    def test_keeping_a_result(self):
        found = self.measure(([measured("plumbline"), {"peer": "no", "contract": "rows", "reason": "no /tmp/x/y.so"},
                               *times(plumbline=(1.0, 4.0, 2.0)), {"done": True}], ""))
        for tree, shapes, why in [("0123456789ab", {"8x8x8": list(found.values())}, None),
                                  ("0123456789ab-modified", {"8x8x8": list(found.values())}, "0123456789ab-modified"),
                                  ("0123456789ab", {}, "no shape")]:
            result = self.store("peers.json", {"kernel": tree, "machine": {"device": "NVIDIA H200"}, "shapes": shapes})
            status, out, err = self.run_script("peers.py", "--store", result, "--folder", self.root)
            kept = self.root / "peers-h200-0123456789ab.json"
            self.assertEqual(status, 2 if why else 0)
            self.assertIn(why or str(kept), err if why else out)
        self.assertIn('"no y.so"', kept.read_text(encoding="utf-8"))  # where a folder lies is one machine's business


class Arguments(Scratch):
    def test_shapes(self):
        self.assertEqual(peers.shape_of("8192x4096x151936"), (8192, 4096, 151936, False))
        self.assertEqual(peers.shape_of("8x16x32_half_ignored"), (8, 16, 32, True))
        for wrong in ("8192x4096", "axbxc", "8x8x8_ignored", "", "8x0x8"):
            with self.assertRaises(argparse.ArgumentTypeError):
                peers.shape_of(wrong)

    def test_refusals(self):
        for words, named in [(["--shapes", "8x8"], "'8x8'"), (["--rounds", "5"], "--rounds 5"),
                             (["--shapes", "8x8x8,8x8x9,8x8x8"], "8x8x8 stands there 2 times"),
                             (["--peers", "("], "--peers '('"), (["--context", "x"], "--context 'x'"),
                             (["--context", "shapes=1"], "--context 'shapes=1'"), (["--devices", "0,"], "--devices '0,'"),
                             (["--devices", "x"], "--devices 'x'")]:
            status, _, err = self.run_script("peers.py", *words)
            self.assertEqual(status, 2)
            self.assertIn(named, err)
            self.assertNotIn("Traceback", err)

    def with_a_torch(self, *words):
        """peers.py beside a PyTorch that has two GPUs and nothing else: its workers die at once."""
        (self.root / "torch").mkdir(exist_ok=True)
        self.store("torch/__init__.py", "__version__ = 'none'\nclass version:\n  cuda = 'none'\n"
                   "class cuda:\n  is_available = staticmethod(lambda: True)\n"
                   "  device_count = staticmethod(lambda: 2)\n  get_device_name = staticmethod(lambda i=0: f'GPU {i}')\n"
                   "class backends:\n  class cuda:\n    class matmul:\n      pass\n"
                   "def device(name):\n  raise RuntimeError('CUDA error: out of memory')\n")
        self.store("triton.py", "raise ImportError('none here')")
        with mock.patch.dict("os.environ", {"PYTHONPATH": str(self.root)}):
            return self.run_script("peers.py", "--shapes", "8x8x8", *words)

    def test_nothing_measured_is_no_success(self):
        out = self.root / "peers.json"
        status, _, err = self.with_a_torch("--out", out)
        self.assertEqual((status, err), (1, "peers.py: nothing was measured of 8x8x8\n"))
        self.assertEqual(json.loads(out.read_text(encoding="utf-8"))["shapes"]["8x8x8"], [
            {"name": "the worker", "reason": "before its first peer: ended with status 1: RuntimeError: CUDA error: "
                                             "out of memory"}])

    def test_what_is_known_before_anything_is_measured(self):
        for words, named in [(["--peers", "^nobody$"], "--peers '^nobody$': matches none of plumbline, "),
                             (["--devices", "0,2"], "--devices 0,2: there is no 2: torch sees 2"),
                             (["--devices", "1,1"], "--devices 1,1: 1 stands there 2 times"),
                             (["--devices", "0,1"], "--devices 0,1: these are GPU 0 and GPU 1"),
                             (["--out", self.root / "no" / "x.json"], f"--out {self.root}/no/x.json: No such file")]:
            status, out, err = self.with_a_torch(*words)
            self.assertEqual((status, out), (2, ""))
            self.assertIn(named, err)

    def test_without_pytorch_or_a_gpu(self):
        (self.root / "torch").mkdir()
        self.store("torch/__init__.py", "raise ImportError('none here')")
        with mock.patch.dict("os.environ", {"PYTHONPATH": str(self.root)}):
            status, _, err = self.run_script("peers.py", "--shapes", "8x8x8")
        self.assertEqual((status, err), (4, "peers.py: PyTorch: none here\n"))


if __name__ == "__main__":
    unittest.main()
