#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store/search.py: what counts as nearer, and how likely chance is."""

import argparse
import contextlib
import io
import unittest
from pathlib import Path
from unittest import mock

from scratch import BENCH  # noqa: F401  (bench on the path)
from store import search


def said(cells, tightness):
    """What plumb fuzz says of a campaign with one class and one output."""
    one = {"class": "exact", "aim": "sharp", "dtype": "bf16", "grads": "fp32",
           "outputs": {"lse": {"tightness": tightness}}}
    return {"targets": [{"classes": [one]}], "coverage": {"host": {"cells": cells}}}


class Search(unittest.TestCase):
    # Fails if the test is one-sided, or counts a tie.
    def test_chance(self):
        self.assertEqual(search.sign_test(10, 0), 2 / 1024)
        self.assertEqual(search.sign_test(1, 9), 22 / 1024)
        self.assertEqual((search.sign_test(5, 5), search.sign_test(0, 0)), (1.0, 1.0))

    # Fails if the two programs are confused, or if a difference within 0.1 % counts.
    def test_compare(self):
        for ours, others, nearer in ((0.5, 0.4, (1, 0)), (0.5, 0.50001, (0, 0)), (0.5, 0.9, (0, 1))):
            answers = {Path("with"): said(7, ours), Path("without"): said(9, others)}
            options = argparse.Namespace(plumb=Path("with"), without=Path("without"), cases=1, seeds=1, what="x")
            with mock.patch.object(search, "ask", lambda plumb, *_, a=answers: (0, a[plumb])), \
                    contextlib.redirect_stdout(io.StringIO()):
                seed = search.compare(options)["seeds"][0]
            self.assertEqual((seed["cells"], seed["cells_without"]), (7, 9))
            self.assertEqual((seed["nearer"], seed["nearer_without"]), nearer)


if __name__ == "__main__":
    unittest.main()
