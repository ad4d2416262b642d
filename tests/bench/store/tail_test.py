#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store's tails: limits of rates that are known."""

import math
import random
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from store import tail


class Counted(unittest.TestCase):
    # Fails if the limit is that of two sides, or of another number of events: tables of Garwood's limits.
    def test_limits(self) -> None:
        for events, mean in ((0, 2.9957), (1, 4.7439), (3, 7.7537), (10, 16.9622)):
            self.assertAlmostEqual(1e6 * tail.upper_rate(events, 10**6), mean, places=3)
        self.assertEqual(tail.upper_rate(0, 0), 1)


class Fitted(unittest.TestCase):
    # Fails if a limit is below the true rate much more often than one time in twenty, or says nothing: power laws of
    # index 8, of whose 1500 draws none need be beyond 8.
    def test_limits_hold(self) -> None:
        draws = random.Random(5)
        below, truth = 0, 0.5 * 8.0**-8
        for _ in range(30):
            sample = [0.5**(1 / 8) * draws.random()**(-1 / 8) for _ in range(1500)]
            found = tail.fit(sample, 8, 0.1)
            assert found
            below += found.limit < truth
            self.assertLess(found.limit, 1e-5)
            self.assertLessEqual(found.rate, found.limit)
        self.assertLessEqual(below, 5)  # more than 5 of 30 at 0.05: once in 300

    # Fails if a tail that ends is taken for a power law: ratios below 2 are never beyond 8.
    def test_short_tail(self) -> None:
        draws = random.Random(6)
        found = tail.fit([math.exp(0.7 * draws.random()) for _ in range(4000)], 8, 0.1)
        assert found
        self.assertLess(found.limit, 1e-9)
        self.assertLess(found.shape, -0.3)

    # Fails if a handful of ratios, or equal ones, are extrapolated.
    def test_too_few(self) -> None:
        self.assertIsNone(tail.fit([1 + k / 100 for k in range(200)], 8, 0.1))
        self.assertIsNone(tail.fit([1.0] * 5000, 8, 0.1))


if __name__ == "__main__":
    unittest.main()
