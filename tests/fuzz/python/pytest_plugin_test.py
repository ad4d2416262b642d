#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pytest plug-in, in runs of pytest on small test files."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

from support import PACKAGE, TARGETS

for needed in ("numpy", "pytest"):
    if importlib.util.find_spec(needed) is None:
        raise unittest.SkipTest(f"{needed} is not installed")

OPTIONS = 'jobs=1, options=["--shrink-tries", "10"]'
GATE = """
    import wrong_numpy

    def test_gate(assert_linear_cross_entropy):
        assert_linear_cross_entropy(wrong_numpy.tail, cases=40, jobs=1)
"""
HUNT = f"""
    import pytest, wrong_numpy

    @pytest.mark.plumbline(budget="40cases", regimes=["small-vocabulary", "lse-zero"], seed=1, {OPTIONS})
    def test_hunt(plumbline_campaign):
        plumbline_campaign(wrong_numpy.tail)
"""


class Plugin(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "pytest.ini").write_text("[pytest]\n")
        (self.folder / "wrong_numpy.py").write_text((TARGETS / "wrong_numpy.py").read_text())

    def pytest(self, text, *options):
        """Runs pytest on one file of tests; its exit status and what it printed."""
        (self.folder / "test_it.py").write_text(textwrap.dedent(text))
        environment = os.environ | {"PYTHONPATH": f"{PACKAGE}:{self.folder}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "plumbline.pytest_plugin", "-p", "no:cacheprovider", *options],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        return ended.returncode, ended.stdout + ended.stderr

    def kept(self):
        return sorted((self.folder / ".plumbline/failures").rglob("*.safetensors"))

    # Fails if a wrong function passes its gate, if what fails is not kept or not replayed first, or if what has
    # been mended stays.
    def test_a_gate_keeps_what_fails_until_it_is_mended(self):
        status, printed = self.pytest(GATE)
        self.assertEqual(status, 1, printed)
        self.assertIn("bound:logprob: logprob[", printed)
        kept = self.kept()
        self.assertTrue(kept)
        self.assertTrue(kept[0].with_suffix(".repro.py").exists())
        runs = len(list((self.folder / ".plumbline/runs").iterdir()))
        status, printed = self.pytest(GATE)
        self.assertEqual(status, 1, printed)
        self.assertIn("that failed before still fail", printed)
        self.assertEqual(len(list((self.folder / ".plumbline/runs").iterdir())), runs, "a gate ran before the replay")
        module = self.folder / "wrong_numpy.py"
        module.write_text(module.read_text().replace("np.float32(0.1)", "np.float32(0)"))
        status, printed = self.pytest(GATE)
        self.assertEqual(status, 0, printed)
        self.assertEqual(self.kept(), [])

    # Fails if the marker's regimes, seed or budget do not reach the campaign, or its findings do not fail the test.
    def test_a_marked_test_hunts(self):
        status, printed = self.pytest(HUNT)
        self.assertEqual(status, 1, printed)
        self.assertIn("40 of 40 cases were judged", printed)
        self.assertIn("bound:logprob", printed)
        self.assertTrue(self.kept())

    # Fails if a marker that nothing reads, or that is misspelt, passes.
    def test_a_marker_that_does_nothing_is_refused(self):
        status, printed = self.pytest("""
            import pytest
            @pytest.mark.plumbline(budget="1s")
            def test_without_the_fixture(): pass
            @pytest.mark.plumbline(bugdet="1s")
            def test_misspelt(plumbline_campaign): pass
            def test_keyword(plumbline_campaign):
                with pytest.raises(TypeError, match="no 'bugdet'"):
                    plumbline_campaign(print, bugdet="1s")
        """, "--strict-markers")  # fmt: skip
        self.assertEqual(status, 1, printed)
        self.assertIn("nothing would run", printed)
        self.assertIn("has no 'bugdet'; it has budget", printed)
        self.assertIn("1 passed, 2 errors", printed)

    # Fails if loading the plug-in imports an array library: every run of pytest would pay for it.
    def test_it_is_light(self):
        code = "import sys, plumbline.pytest_plugin; print([m for m in ('numpy', 'torch', 'jax') if m in sys.modules])"
        environment = os.environ | {"PYTHONPATH": str(PACKAGE)}
        ended = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        self.assertEqual(ended.stdout.strip(), "[]", ended.stderr)

    # Fails if two workers of xdist share a folder, or one removes what the other has kept.
    def test_workers_of_xdist(self):
        if importlib.util.find_spec("xdist") is None:
            self.skipTest("pytest-xdist is not installed")
        status, printed = self.pytest(f"""
            import pytest, wrong_numpy
            @pytest.mark.parametrize("seed", range(2))
            def test_hunt(plumbline_campaign, seed):
                plumbline_campaign(wrong_numpy.tail, budget="20cases", regimes="small-vocabulary", seed=seed, {OPTIONS})
        """, "-p", "xdist", "-n", "2")  # fmt: skip
        self.assertEqual(status, 1, printed)
        self.assertIn("2 failed", printed)
        self.assertEqual(len({path.parent for path in self.kept()}), 2)


if __name__ == "__main__":
    unittest.main()
