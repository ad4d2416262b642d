#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the generated pages: those in the tree are what their generator writes, of the stored results that there are."""

import json
import re
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from report.pages import pages, render
from report.stored import RESULTS, ROOT, find, power
from results import Scratch


class Pages(Scratch):
    # Fails if a page was edited by hand, or a result or template changed and `python3 bench/report all` was not run.
    def test_pages_are_what_the_generator_writes(self):
        status, out, err = self.run_script("report", "all", "--folder", self.root)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(sorted(out.split()), sorted(page.path for page in pages().values()))
        for name in out.split():
            with self.subTest(name):
                self.assertEqual((ROOT / name).read_bytes(), (self.root / name).read_bytes(),
                                 f"{name} is not what `python3 bench/report all` writes")

    # Fails if a page links to a file that is not there.
    def test_links_lead_to_files(self):
        for page in pages().values():
            text = (ROOT / page.path).read_text(encoding="utf-8")
            links = re.findall(r"\]\(([^)#:]+)\)", text)
            self.assertGreater(len(links), 0, page.path)
            for link in links:
                self.assertTrue(((ROOT / page.path).parent / link).exists(), f"{page.path}: {link}")

    def copied(self, changed, **values):
        """A copy of the stored results in which `changed`, a pattern, has other values at the top."""
        folder = self.root / "results"
        shutil.copytree(RESULTS, folder, ignore=shutil.ignore_patterns("earlier"))
        path = find(changed, folder).path
        path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **values}), encoding="utf-8")
        return folder

    # Fails if a page does not follow the results: the date of one that was measured again stays.
    def test_a_page_follows_its_result(self):
        folder = self.copied("gpu-accept.json", date="1999-01-01")
        for name in ("found", "gpu"):
            self.assertIn("1999-01-01", render(name, folder))

    # Fails if a result that is missing, or lacks what a page shows, gives a page all the same.
    def test_a_result_that_lacks_something(self):
        folder = self.copied("host-1000000.json", result={"targets": []})
        with self.assertRaises((ValueError, KeyError)):
            render("tightness", folder)
        find("peers-*.json", folder).path.unlink()
        with self.assertRaisesRegex(ValueError, "0 stored results are named peers-"):
            render("peers", folder)

    # Fails if errors of what is kept are not shown once they are stored.
    def test_errors_of_what_is_kept(self):
        folder = self.copied("gpu-accept.json")
        (folder / "kept-errors-h200.json").unlink(missing_ok=True)
        self.assertNotIn("exponents ÷ fp32", render("peers", folder))
        run = json.loads((RESULTS / "fastest-h200.json").read_text(encoding="utf-8"))
        (folder / "kept-errors-h200.json").write_text(json.dumps({**run, "shapes": {"8x8x8": []}}), encoding="utf-8")
        self.assertIn("\n### RMS error of gradients, exponents ÷ fp32\n", render("peers", folder))

    # Fails if one of two results of a name is taken silently.
    def test_two_results_of_a_name(self):
        folder = self.copied("selftest.json")
        found = find("cuda_bench-*.json", folder).path
        shutil.copy(found, found.with_name("cuda_bench-h200-0123456789ab.json"))
        with self.assertRaisesRegex(ValueError, "2 stored results"):
            render("speed", folder)

    # Fails if a wrong subcommand or argument is taken, or refused without saying what there is.
    def test_what_is_refused_is_named(self):
        for words, named in [(["figurs"], "invalid choice: 'figurs' (choose from"),
                             (["all", "x"], "unrecognized arguments: x"), ([], "required: SUBCOMMAND")]:
            status, out, err = self.run_script("report", *words)
            self.assertEqual((status, out), (2, ""))
            self.assertIn(named, err)

    # Fails if an exponent loses its sign, or digits are not those asked for.
    def test_powers(self):
        self.assertEqual((power(5.9992e-06), power(1.4e-3, 1), power(29155740481, 1)), ("6·10⁻⁶", "1.4·10⁻³", "2.9·10¹⁰"))


if __name__ == "__main__":
    unittest.main()
