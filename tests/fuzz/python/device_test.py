# SPDX-License-Identifier: Apache-2.0
"""The device heap under PyTorch: unwritten elements, writes outside of a block, and a block that outlives its run."""

import os
import pathlib
import sys
import tempfile
import unittest

from support import fuzz

DEVICE = os.environ.get("PLUMBLINE_TEST_DEVICE", "cuda")  # cpu: what can be tried without a GPU


def why_not():
    """Why nothing is tested; empty where it is."""
    if DEVICE != "cuda":
        return ""
    import torch

    return "" if torch.cuda.is_available() else "PyTorch sees no GPU"


class Device(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.out = pathlib.Path(self._folder.name) / "out"

    # Fails if an honest function has a finding on the device, or the heap is not in the place of PyTorch's allocator.
    def test_an_honest_function_has_no_finding(self):
        status, text, report = fuzz("device_torch:honest", self.out, 100)
        self.assertEqual(status, 0, text)
        self.assertGreaterEqual(report["judged"], 90, text)
        self.assertEqual("it allocates on the device beyond 1 GiB in a run" in text, DEVICE == "cuda", text)

    # Fails if an element that nobody wrote is taken for a value.
    def test_an_unwritten_element_is_a_finding(self):
        status, text, _ = fuzz("device_torch:unwritten", self.out, 40, "--stop-after", 1)
        self.assertEqual(status, 1, text)
        self.assertIn("unwritten:logprob", text)

    # Fails if a write behind a block of the function's own is not seen.
    @unittest.skipIf(DEVICE != "cuda", "host memory has no guard bands")
    def test_a_write_outside_of_a_block_is_a_finding(self):
        status, text, _ = fuzz("device_torch:out_of_band", self.out, 40, "--stop-after", 1)
        self.assertEqual(status, 1, text)
        self.assertIn("wrote outside of what it allocated: byte +", text)

    # Fails if a block that outlives its run is used again, or filled with the pattern of a later one.
    def test_a_block_that_outlives_a_case_keeps_its_values(self):
        status, text, report = fuzz("device_torch:keeps_a_block", self.out, 100)
        self.assertEqual(status, 0, text)
        self.assertGreaterEqual(report["judged"], 90, text)


if __name__ == "__main__":
    if why_not():
        print(why_not())
        sys.exit(77)
    unittest.main()
