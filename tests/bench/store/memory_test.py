#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `bench/store memory` with a library that computes what an operator would say, and holds what is stored to what an
H200 held."""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from peers import operator_call
from report.stored import find
from scratch import BENCH, Tree

# A library in C: its sizes are (rows, saved << 20), and it refuses a hidden size of 7168. The newer one keeps less where saved
# logits need not survive.
LIBRARY = """
#include <stddef.h>
#include <stdint.h>
#include <string.h>
struct Call { int64_t n, h, v, gradients, mean, saved_logits; const void* pointers[12]; int64_t fp32_logits, saved_survives; };
int plumbline_sizes(const struct Call* c, size_t* workspace, size_t* saved, char* message, size_t room) {
  if (REFUSES && c->h == 7168) { strncpy(message, "no memory", room); return 1; }
  *workspace = (size_t)c->n << 20;
  *saved = c->saved_logits == 0 ? 0 : NEW && c->saved_survives == 0 ? 1 << 20 : 2 << 20;
  return 0;
}
int plumbline_at_once_size(const struct Call* c, size_t* workspace, char* message, size_t room) {
  *workspace = c->mean && c->gradients && c->pointers[0] ? 7 << 20 : 0;
  return 0;
}
"""
PLUMB = """echo '{"machine": {"cpu": "x", "cores": "2", "compiler": "c"}}'"""


class Memory(Tree):
    def setUp(self):
        super().setUp()
        self.copy(*(f"bench/peers/{path.name}" for path in (BENCH / "peers").glob("*.py")))
        self.program("build/release/fuzz/plumb", PLUMB)
        (self.root / "build/release/bench").mkdir()

    def library(self, name, new=1, refuses=0):
        source = self.write("library.c", LIBRARY)
        path = self.root / name
        subprocess.run(["cc", "-shared", "-fPIC", f"-DNEW={new}", f"-DREFUSES={refuses}", source, "-o", path], check=True)
        return path

    # Fails if a form is asked for by another's call, a saved state is left out, an earlier build's sizes are lost when the
    # present ones are stored anew, or the earlier library is asked for the present ones.
    def test_a_result(self):
        self.library("build/release/bench/peers_operator.so")
        earlier = self.library("earlier.so", new=0)
        self.assertEqual(self.run_store("memory", "--earlier", earlier, "--revision", "ab")[::2], (0, ""))
        path = self.root / "bench/results/memory.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        sizes = {each["shape"]: each["MiB"] for each in found["measured"]}
        self.assertEqual(sizes["256x4096x151936"],
                         {"recomputed": 256.0, "consumed": 257.0, "surviving": 258.0, "in_forward": 7.0})
        self.assertEqual(found["earlier"]["revision"], "ab")
        self.assertEqual(found["earlier"]["measured"][0]["MiB"]["consumed"], 8194.0)
        earlier.unlink()
        self.assertEqual(self.run_store("memory")[::2], (0, ""))
        self.assertEqual(json.loads(path.read_text(encoding="utf-8")), found)

    # Fails if a library that refuses, or is absent, gives a result.
    def test_faults(self):
        self.assertEqual(self.run_store("memory")[0], 2)
        earlier = self.library("earlier.so", new=0)
        self.assertEqual(self.run_store("memory", "--earlier", earlier)[0], 2)
        status, _, err = self.run_store("memory", "--earlier", earlier, "--revision", "ab")
        self.assertEqual(status, 3)
        self.assertIn("peers_operator.so", err)
        self.library("build/release/bench/peers_operator.so", refuses=1)
        status, _, err = self.run_store("memory", "--earlier", earlier, "--revision", "ab")
        self.assertEqual(status, 3)
        self.assertIn("plumbline_sizes: no memory", err)
        self.assertEqual(self.names(), [])


class Layout(unittest.TestCase):
    # Fails if a field of a call stands at another place in Python than in C.
    def test_a_call_is_what_the_operator_takes(self):
        text = (BENCH / "peers/operator.cc").read_text(encoding="utf-8")
        body = re.sub(r"//[^\n]*", "", re.search(r"struct Call \{(.*?)\n\};", text, re.DOTALL)[1])
        kinds = []
        for declared in body.split(";"):
            found = re.fullmatch(r"\s*(int64_t|(?:const )?void\*) (.+)", declared, re.DOTALL)
            if found:
                kinds += [(name.strip(), "*" in found[1]) for name in found[2].split(",")]
        fields = [(name, kind is operator_call.ctypes.c_void_p) for name, kind in operator_call.CallLayout._fields_]
        self.assertEqual(kinds, fields)

    # Fails if the operator says other sizes than an H200 held under PyTorch, which rounds each buffer up to 2 MiB at most, or
    # the earlier build's are not those of the run that the page shows. A run of another build than memory.json's held what
    # that build took.
    def test_sizes_are_what_was_held(self):
        stored = find("memory.json").data
        names = {"consumed": "plumbline, logits saved", "in_forward": "plumbline, gradients in forward",
                 "recomputed": "plumbline"}
        compared = 0
        runs = [(stored["earlier"]["measured"], "peers-*.json")]
        if find("fastest-h200.json").data["kernel"] == stored["trees"]["kernel"]:
            runs.append((stored["measured"], "fastest-h200.json"))
        for sizes, run in runs:
            held = find(run).data["shapes"]
            for each in sizes:
                results = {result["name"]: result for result in held.get(each["shape"], [])}
                for form, name in names.items():
                    if "step_MiB" in results.get(name, {}):
                        self.assertAlmostEqual(each["MiB"][form], results[name]["step_MiB"], delta=2,
                                               msg=(each["shape"], form, run))
                        compared += 1
        self.assertGreater(compared, 15 * len(runs))


if __name__ == "__main__":
    unittest.main()
