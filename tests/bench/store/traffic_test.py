#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store traffic: what is read of ncu's table, and what is stored of calls that are cut short."""

import json
import os
import unittest

from scratch import Tree

TABLE = '''==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Context","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum"
"","","","","byte","byte","ns"
"0","1","void plumbline::Logits<1, 2>(Args)","1","11,000,000","40000","6,720"
"1","1","Merge(Args)","1","1000.5","0","10"
'''
NCU = """
case "$*" in *"$(cat "$0.fails")"*) echo broken >&2; exit 9 ;; esac
echo "$*" >>"$0.said"
echo "$LD_LIBRARY_PATH" >"$0.libraries"
cat "$0.table"
"""


class Traffic(Tree):
    def setUp(self):
        super().setUp()
        self.program("bin/nvidia-smi", 'echo "GPU, 580.1"\n')
        self.ncu = self.program("ncu", NCU)
        self.write("ncu.table", TABLE)
        self.write("ncu.fails", "nothing")
        self.write("stage/trees", "git=aaaaaaaaaaaa\nkernel=v2-bbbbbbbbbbbb\nmachine_code=cc\n")
        self.out = self.root / "bench/results/traffic.json"

    def measure(self, *words):
        path = f"{self.root}/bin:{os.environ['PATH']}"
        status, out, error = self.run_store("traffic", "--stage", self.root / "stage", "--ncu", self.root / "ncu",
                                            "--shapes", "8x8x8", *words, PATH=path)
        return status, out + error

    def calls(self):
        path = self.root / "ncu.said"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    # Fails if a number with separators, the row of units or a kernel's name is read otherwise, or a sum is wrong.
    def test_figures(self):
        status, text = self.measure()
        self.assertEqual(status, 0, text)
        found = json.loads(self.out.read_text(encoding="utf-8"))
        self.assertEqual(found["machine"], {"device": "GPU", "driver": "580.1"})
        self.assertEqual(found["build"]["kernel"], "v2-bbbbbbbbbbbb")
        self.assertEqual([(one["pass"], one["side"]) for one in found["measured"]],
                         [(what, side) for what in ("forward", "backward", "gradients_in_forward") for side in ("ours", "cublas")])
        first = found["measured"][0]
        self.assertEqual((first["read"], first["written"], first["ns"]), (11001000.5, 40000, 6730))
        self.assertEqual([one["kernel"] for one in first["kernels"]], ["void plumbline::Logits", "Merge"])
        self.assertTrue(self.calls()[0].endswith("passes_once 8x8x8 forward ours"))
        # Else passes_once finds none of the stage's libraries.
        libraries = (self.root / "ncu.libraries").read_text(encoding="utf-8")
        self.assertEqual(libraries.strip().split(":")[0], str((self.root / "stage").resolve()))

    # Fails if a fault of ncu is a result, if what was measured before it is lost or measured again, or if a result of
    # another build is gone on with.
    def test_going_on(self):
        self.write("ncu.fails", "backward ours")
        status, text = self.measure()
        self.assertEqual(status, 3)
        self.assertIn("8x8x8 backward ours, status 9: broken", text)
        self.write("ncu.fails", "nothing")
        self.assertEqual(self.measure("--minutes", "0")[0], 5)
        self.assertEqual(len(self.calls()), 2)
        self.assertEqual(self.measure()[0], 0)
        self.assertEqual(len(self.calls()), 6)
        self.write("stage/trees", "git=aaaaaaaaaaaa\nkernel=v2-dddddddddddd\nmachine_code=cc\n")
        status, text = self.measure()
        self.assertEqual(status, 2)
        self.assertIn("of another build", text)


if __name__ == "__main__":
    unittest.main()
