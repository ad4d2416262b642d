#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the median of measurements and its interval."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from report.median_interval import median_interval


class MedianInterval(unittest.TestCase):
    def test_ranks_of_printed_tables(self):
        for n, rank in [(6, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6), (25, 8), (30, 10), (50, 18)]:
            values = list(range(n, 0, -1))
            self.assertEqual(median_interval(values)[1:], (rank, n + 1 - rank), n)

    def test_median(self):
        self.assertEqual(median_interval([3, 1, 2])[0], 2)
        self.assertEqual(median_interval([4, 1, 2, 3]), (2.5, None, None))


if __name__ == "__main__":
    unittest.main()
