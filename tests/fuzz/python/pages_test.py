# SPDX-License-Identifier: Apache-2.0
"""Every block of fuzz/PYTHON.md runs, in one folder and in the order of the page."""

import unittest

import page_blocks


class Page(unittest.TestCase):
    # Fails if a block of the page does not run, ends with another status than it says, or finds nothing.
    def test_every_block_runs(self):
        def names_the_script_needs(text, printed):
            if "finding.what" in text:
                self.assertIn("mpmath", printed)

        page_blocks.run("PYTHON.md", self, 6, names_the_script_needs)


if __name__ == "__main__":
    unittest.main()
