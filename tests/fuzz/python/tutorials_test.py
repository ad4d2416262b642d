# SPDX-License-Identifier: Apache-2.0
"""Every block of the four tutorials runs, in the order of its page, and prints what the page shows."""

import concurrent.futures
import unittest

import page_blocks

WORKFLOW = page_blocks.FUZZ / "examples/github/plumb.yml"
# The blocks of each page that are run. The longest page is first.
PAGES = {"TRITON-TUTORIAL.md": 7, "../kernel/TRAINING-TUTORIAL.md": 6, "check/TUTORIAL.md": 8, "campaign/CI-TUTORIAL.md": 8}


class Tutorials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Two pages at a time: most of their commands keep one core busy.
        pool = concurrent.futures.ThreadPoolExecutor(2)
        cls.addClassCleanup(pool.shutdown, cancel_futures=True)
        cls.runs = {page: pool.submit(page_blocks.run, page, unittest.TestCase(), least) for page, least in PAGES.items()}

    # Fails if the planted defect is not found or not explained by the tile, its script shows nothing, or the mended kernel
    # has a finding.
    def test_a_triton_kernel(self):
        self.runs["TRITON-TUTORIAL.md"].result()

    # Fails if a call is not captured, or the cause of one of the planted mistakes is not named.
    def test_did_my_run_compute_what_it_should(self):
        self.runs["check/TUTORIAL.md"].result()

    # Fails if the loop does not train, the ratio of another batch is not 1, or a bit differs where the page says none does.
    def test_a_training_loop(self):
        self.runs["../kernel/TRAINING-TUTORIAL.md"].result()

    # Fails if a gate has another verdict than the page says, or the report says nothing.
    def test_continuous_integration(self):
        self.runs["campaign/CI-TUTORIAL.md"].result()

    # Fails if a line of the workflow that the page shows is not in the workflow that users copy.
    def test_the_workflow_that_is_shown(self):
        text = (page_blocks.FUZZ / "campaign/CI-TUTORIAL.md").read_text(encoding="utf-8")
        shown = [line.strip() for kind, block in page_blocks.BLOCK.findall(text) if kind == "yaml" for line in block.splitlines()]
        self.assertGreater(len(shown), 3)
        lines = {line.strip() for line in WORKFLOW.read_text(encoding="utf-8").splitlines()}
        self.assertEqual([line for line in shown if line not in lines], [])


class Shown(unittest.TestCase):
    # Fails if a line that was not printed, or not in this order, counts as shown; or … stands for nothing.
    def test_what_is_shown_was_printed(self):
        printed = "one 1\ntwo 2.5 s\nthree\n"
        self.assertIsNone(page_blocks.not_printed("one 1\ntwo … s\n", printed))
        self.assertEqual(page_blocks.not_printed("one\n", printed), "one")
        self.assertEqual(page_blocks.not_printed("three\none 1\n", printed), "one 1")


if __name__ == "__main__":
    unittest.main()
