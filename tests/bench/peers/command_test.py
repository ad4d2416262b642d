#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the command line of `bench/peers`: what is refused, and what is said where nothing can be measured."""

import argparse
import json
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from peers.worker import shape_of
from results import Scratch


class Arguments(Scratch):
    def test_shapes(self):
        self.assertEqual(shape_of("8192x4096x151936"), (8192, 4096, 151936, False))
        self.assertEqual(shape_of("8x16x32_half_ignored"), (8, 16, 32, True))
        for wrong in ("8192x4096", "axbxc", "8x8x8_ignored", "", "8x0x8"):
            with self.assertRaises(argparse.ArgumentTypeError):
                shape_of(wrong)

    def test_refusals(self):
        for words, named in [(["--shapes", "8x8"], "'8x8'"), (["--rounds", "5"], "--rounds 5"),
                             (["--shapes", "8x8x8,8x8x9,8x8x8"], "8x8x8 stands there 2 times"),
                             (["--peers", "("], "--peers: '('"), (["--context", "x"], "--context 'x'"),
                             (["--context", "shapes=1"], "--context 'shapes=1'"), (["--devices", "0,"], "--devices '0,'"),
                             (["--devices", "x"], "--devices 'x'"), (["--resume"], "--out FILE.json is needed"),
                             (["--minutes", "0"], "--minutes 0"), (["--errors", "--regimes"], "--errors: it has no rounds"),
                             (["--errors", "--rounds", "6"], "--errors: it has no rounds")]:
            status, _, err = self.run_script("peers", *words)
            self.assertEqual(status, 2)
            self.assertIn(named, err)
            self.assertNotIn("Traceback", err)

    def with_a_torch(self, *words):
        """bench/peers beside a PyTorch that has two GPUs and nothing else: its workers die at once."""
        (self.root / "torch").mkdir(exist_ok=True)
        self.store("torch/__init__.py", "__version__ = 'none'\nclass version:\n  cuda = 'none'\n"
                   "class cuda:\n  is_available = staticmethod(lambda: True)\n"
                   "  device_count = staticmethod(lambda: 2)\n  get_device_name = staticmethod(lambda i=0: f'GPU {i}')\n"
                   "class backends:\n  class cuda:\n    class matmul:\n      pass\n"
                   "def device(name):\n  raise RuntimeError('CUDA error: out of memory')\n")
        self.store("triton.py", "raise ImportError('none here')")
        with mock.patch.dict("os.environ", {"PYTHONPATH": str(self.root)}):
            return self.run_script("peers", "--shapes", "8x8x8", *words)

    def test_nothing_measured_is_no_success(self):
        out = self.root / "peers.json"
        status, _, err = self.with_a_torch("--out", out)
        self.assertEqual((status, err), (1, "bench/peers: nothing was measured of 8x8x8\n"))
        self.assertEqual(json.loads(out.read_text(encoding="utf-8"))["shapes"]["8x8x8"], [
            {"name": "the worker", "reason": "before its first peer: ended with status 1: RuntimeError: CUDA error: "
                                             "out of memory"}])

    # Fails if errors alone are asked of every peer, rounds are named, or none measured is a success.
    def test_errors_alone(self):
        out = self.root / "errors.json"
        status, _, err = self.with_a_torch("--errors", "--out", out)
        self.assertEqual((status, err), (1, "bench/peers: nothing was measured of 8x8x8\n"))
        self.assertEqual(json.loads(out.read_text(encoding="utf-8"))["rounds"], 0)
        command = self.with_a_torch("--errors", "--peers", "^nobody$")
        self.assertEqual(command[0], 2)

    def test_what_is_known_before_anything_is_measured(self):
        for words, named in [(["--peers", "^nobody$"], "--peers '^nobody$': matches none of plumbline, "),
                             (["--devices", "0,2"], "--devices 0,2: there is no 2: torch sees 2"),
                             (["--devices", "1,1"], "--devices 1,1: 1 stands there 2 times"),
                             (["--devices", "0,1"], "--devices 0,1: these are GPU 0 and GPU 1"),
                             (["--out", self.root / "no" / "x.json"], f"--out {self.root}/no/x.json: No such file")]:
            status, out, err = self.with_a_torch(*words)
            self.assertEqual((status, out), (2, ""))
            self.assertIn(named, err)

    # Fails if a shape that is there is lost or measured again, an interrupted one is kept or counts as an earlier build's,
    # what was measured otherwise stands beside it, or what people wrote into the result is lost.
    def test_resume(self):
        out = self.root / "peers.json"
        self.with_a_torch("--out", out)
        there = json.loads(out.read_text(encoding="utf-8"))
        there["shapes"] = {"8x8x16": [{"name": "a", "reason": "at round 2: interrupted"}], "8x8x8": [{"name": "kept"}]}
        run = {"date": "2026-11-01T00:00:00Z", "kernel": "v2-0"}
        written = {"conditions": "Other work.", "earlier": {"8x8x8": run}}
        interrupted = {"earlier": {"8x8x8": run, "8x8x16": run}}
        out.write_text(json.dumps(there | written | interrupted), encoding="utf-8")
        status, _, err = self.with_a_torch("--out", out, "--resume", "--rounds", "7")
        self.assertEqual(status, 2)
        self.assertIn("it has rounds 10 and not 7", err)
        self.with_a_torch("--shapes", "8x8x16,8x16x8", "--out", out, "--resume")
        found = json.loads(out.read_text(encoding="utf-8"))
        self.assertEqual(list(found["shapes"]), ["8x8x16", "8x16x8", "8x8x8"])
        self.assertEqual(found["shapes"]["8x8x8"], [{"name": "kept"}])
        self.assertEqual(found["shapes"]["8x8x16"][0]["name"], "the worker")
        self.assertEqual(found["date"], there["date"])
        self.assertEqual({key: found[key] for key in written}, written)

    # Fails if a shape begins for which there is no time, or if nobody is told.
    def test_minutes(self):
        status, out, err = self.with_a_torch("--minutes", "1e-9")
        self.assertEqual((status, out, err), (5, "", "bench/peers: left are 8x8x8\n"))

    def test_without_pytorch_or_a_gpu(self):
        (self.root / "torch").mkdir()
        self.store("torch/__init__.py", "raise ImportError('none here')")
        with mock.patch.dict("os.environ", {"PYTHONPATH": str(self.root)}):
            status, _, err = self.run_script("peers", "--shapes", "8x8x8")
        self.assertEqual((status, err), (4, "bench/peers: PyTorch: none here\n"))


if __name__ == "__main__":
    unittest.main()
