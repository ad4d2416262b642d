# SPDX-License-Identifier: Apache-2.0
"""How far a campaign is, as Python shows it."""

import contextlib
import io
import sys
import tempfile
import types
import unittest
from unittest import mock

from support import PACKAGE, TARGETS

sys.path[:0] = [str(PACKAGE), str(TARGETS)]

import plumbline
from plumbline import progress

LINE = "search  30s of 5m  762 cases  25/s  7 findings  shrinking 1 -> 2  error/allowed entropy inf\n"


class Drawn:
    """Stands for a bar of tqdm."""

    made = ()

    def __init__(self, total, unit, desc, leave):
        self.total, self.unit, self.n, self.closed, self.postfix = total, unit, 0, False, ""
        Drawn.made = (*Drawn.made, self)

    def set_postfix_str(self, text, refresh):
        self.postfix = text

    def update(self, by):
        self.n += by

    def close(self):
        self.closed = True


@contextlib.contextmanager
def a_tqdm():
    """An environment with this tqdm."""
    Drawn.made = ()
    auto = types.ModuleType("tqdm.auto")
    auto.tqdm = Drawn
    found = progress.importlib.util.find_spec
    with mock.patch.dict(sys.modules, {"tqdm": types.ModuleType("tqdm"), "tqdm.auto": auto}), \
            mock.patch.object(progress.importlib.util, "find_spec", lambda name: name == "tqdm" or found(name)):
        yield


class Progress(unittest.TestCase):
    # Fails if a status line is read as another number, or a bar goes on beyond its end.
    def test_bar(self):
        with a_tqdm():
            bar = progress.Bar()
            for line in ("finding 1: wrong\n", LINE, "search  290s of 5m  9000 cases  31/s  8 findings\n",
                         "pursuit  310s of 5m  9000 cases  31/s  8 findings\n"):  # fmt: skip
                bar.line(line)
            bar.close()
        (drawn,) = Drawn.made
        self.assertEqual((drawn.total, drawn.unit, drawn.n, drawn.closed), (300, " s", 300, True))
        self.assertEqual(drawn.postfix, "9000 cases, 31/s, 8 findings")
        self.assertEqual(progress.total_of("5000cases"), (5000, True))
        self.assertEqual(progress.total_of("1h30m"), (5400, False))

    # Fails if somebody who does not look on gets lines, or one who asks gets none where there is no tqdm.
    def test_who_is_shown_what(self):
        with a_tqdm():
            self.assertIsInstance(progress.shown(True), progress.Bar)
            self.assertIsInstance(progress.shown(False), progress.Silent)
            with mock.patch.object(sys, "stderr", io.StringIO()):
                self.assertIsInstance(progress.shown(None), progress.Silent)
                with mock.patch.dict(sys.modules, {"ipykernel": types.ModuleType("ipykernel")}):
                    self.assertIsInstance(progress.shown(None), progress.Bar)
        with mock.patch.object(progress.importlib.util, "find_spec", lambda name: None):
            self.assertIsInstance(progress.shown(True), progress.Lines)
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed):
            for line in (LINE, "finding 1: wrong\n"):
                progress.Lines().line(line)
        self.assertEqual(printed.getvalue(), LINE)

    # Fails if a campaign's lines are no longer what a bar reads, or a bar that faults ends the campaign.
    def test_of_a_campaign(self):
        import honest_numpy

        class Faulty(progress.Silent):
            def line(self, text):
                raise ValueError("no terminal")

        with tempfile.TemporaryDirectory() as folder, a_tqdm():
            campaign = plumbline.fuzz(honest_numpy.linear_cross_entropy, "12s", jobs=1, seed=1, out=f"{folder}/a", progress=True)
            self.assertEqual(campaign.verdict, "clean")
            (drawn,) = Drawn.made
            self.assertEqual((drawn.total, drawn.closed), (12, True))
            self.assertGreaterEqual(drawn.n, 10)
            with mock.patch.object(progress, "shown", lambda asked: Faulty()), self.assertWarnsRegex(UserWarning, "no terminal"):
                campaign = plumbline.fuzz(honest_numpy.linear_cross_entropy, "20cases", jobs=1, seed=1, out=f"{folder}/b")
            self.assertEqual(campaign.verdict, "clean")


if __name__ == "__main__":
    unittest.main()
