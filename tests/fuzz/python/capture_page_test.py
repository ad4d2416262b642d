# SPDX-License-Identifier: Apache-2.0
"""Every block of fuzz/CAPTURE.md runs, in one folder and in the order of the page."""

import unittest

import page_blocks


class Page(unittest.TestCase):
    # Fails if a block of the page does not run, ends with another status than it says, captures nothing, or prints no
    # variables.
    def test_every_block_runs(self):
        def says_what_it_says(text, printed):
            if "plumb check" in text:
                self.assertIn("verdict=clean", printed)
            if "--env" in text:
                self.assertIn("dir=/tmp/dumps,step=100", printed)

        page_blocks.run("CAPTURE.md", self, 6, says_what_it_says)


if __name__ == "__main__":
    unittest.main()
