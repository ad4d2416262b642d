# SPDX-License-Identifier: Apache-2.0
"""Whether a function keeps an input, as a worker tells it, without a device."""

import itertools
import sys
import time
import types
import unittest
import unittest.mock

from support import PACKAGE

sys.path.insert(0, str(PACKAGE))

from plumbline.worker import serve


class LettingGo(unittest.TestCase):
    def target_on(self, device, held):
        """A target on a device whose inputs are held as often as `held` says, one after another."""
        kernel = types.SimpleNamespace(
            name="mine:loss", framework=types.SimpleNamespace(held=lambda: next(held)), cannot_show=[],
            declaration=types.SimpleNamespace(device=device, description=lambda *_: "{}"))  # fmt: skip
        with unittest.mock.patch.object(serve.device_heap, "DevicePoison", lambda: None), \
             unittest.mock.patch.object(serve.device_heap, "cannot_show", lambda: ""):
            return serve.Target(kernel)

    # Fails if an input that PyTorch's thread of a device lets go a moment after the call, alone or with a cycle, is said to be
    # kept; if one on the host, which no such thread has, or one that stays, is not; or if each case then waits as long.
    def test_a_device_has_a_moment(self):
        late = itertools.chain([True] * 4, itertools.repeat(False))
        self.assertFalse(self.target_on("cuda", late)._keeps_an_input())
        self.assertTrue(self.target_on("cpu", itertools.chain([True] * 4, itertools.repeat(False)))._keeps_an_input())
        stays = self.target_on("cuda", itertools.repeat(True))
        self.assertTrue(stays._keeps_an_input())
        begun = time.monotonic()
        self.assertTrue(stays._keeps_an_input())
        self.assertLess(time.monotonic() - begun, serve.LET_GO_WITHIN / 2)


if __name__ == "__main__":
    unittest.main()
