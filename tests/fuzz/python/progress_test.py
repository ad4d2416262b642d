# SPDX-License-Identifier: Apache-2.0
"""How far a campaign is, as Python shows it."""

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import types
import unittest
from unittest import mock

from support import PACKAGE, TARGETS

sys.path[:0] = [str(PACKAGE), str(TARGETS)]

import plumbline
from plumbline import library, progress

AT = {"phase": "search", "seconds": 30.0, "budget": "5m", "budget_seconds": 300.0, "left_seconds": 270.0, "cases": 762,
      "judged": 755, "skipped": 7, "a_second": 25.4, "wrong": 6, "suspect": 1, "cells": 9, "since_new_cell": 1.0,
      "activity": ["shrinking bound:lse: 1 -> 2 values"]}  # fmt: skip
LATER = AT | {"seconds": 310.0, "cases": 9000, "judged": 9000, "a_second": 31.0, "wrong": 8, "activity": []}


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
    # Fails if a number is shown for another, if a bar goes on beyond its end, or if cases are taken for seconds.
    def test_bar(self):
        with a_tqdm():
            bar = progress.Bar()
            bar.at(AT)
            self.assertEqual((Drawn.made[0].n, Drawn.made[0].postfix),
                             (30, "762 cases, 99% judged, 25/s, 6 wrong, 1 suspect, shrinking bound:lse: 1 -> 2 values"))
            bar.at(LATER)
            bar.close()
            of_cases = progress.Bar()
            of_cases.at({key: value for key, value in AT.items() if key != "budget_seconds"} | {"budget_cases": 5000})
            progress.Bar().at({"phase": "recipe"} | {key: AT[key] for key in ("seconds", "cases")})
        drawn, other = Drawn.made
        self.assertEqual((drawn.total, drawn.unit, drawn.n, drawn.closed), (300, " s", 300, True))
        self.assertEqual(drawn.postfix, "9000 cases, 100% judged, 31/s, 8 wrong, 1 suspect")
        self.assertEqual((other.total, other.unit, other.n), (5000, " cases", 762))

    # Fails if what a worker prints is taken for progress, or a broken line ends the reading.
    def test_of_a_line(self):
        self.assertEqual(progress.of_line(json.dumps({"progress": AT}, separators=(",", ":"))), AT)
        for line in ("finding 1: wrong\n", '{"verdict":"clean"}\n', '{"progress":{"cases":\n'):
            self.assertIsNone(progress.of_line(line))

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
            lines = progress.Lines()
            for at in (AT, AT | {"seconds": 31.0}, LATER):
                lines.at(at)
        self.assertEqual(printed.getvalue().splitlines(), [
            "search: 30s of 5m, 4m30s left: 762 cases, 99% judged, 25/s, 6 wrong, 1 suspect, shrinking bound:lse: 1 -> 2 values",
            "search: 5m10s of 5m, 4m30s left: 9000 cases, 100% judged, 31/s, 8 wrong, 1 suspect"])
        self.assertEqual([progress.spoken(s) for s in (41.6, 3599, 7500)], ["42s", "59m59s", "2h05m"])

    # Fails if a campaign's lines are no longer what a bar reads, or a bar that faults ends the campaign.
    def test_of_a_campaign(self):
        import honest_numpy

        class Faulty(progress.Silent):
            def at(self, progress):
                raise ValueError("no terminal")

        with tempfile.TemporaryDirectory() as folder, a_tqdm():
            campaign = plumbline.fuzz(honest_numpy.linear_cross_entropy, "12s", jobs=1, seed=1, out=f"{folder}/a", progress=True)
            self.assertEqual(campaign.verdict, "clean")
            self.assertNotIn('{"progress"', campaign.summary)
            (drawn,) = Drawn.made
            self.assertEqual((drawn.total, drawn.closed), (12, True))
            self.assertGreaterEqual(drawn.n, 10)
            with mock.patch.object(progress, "shown", lambda asked: Faulty()), self.assertWarnsRegex(UserWarning, "no terminal"):
                campaign = plumbline.fuzz(honest_numpy.linear_cross_entropy, "3s", jobs=1, seed=1, out=f"{folder}/b")
            self.assertEqual(campaign.verdict, "clean")

    # Fails if a command but `fuzz` prints line after line on a terminal, if a line wraps, or cuts off what is asked first.
    def test_on_a_terminal(self):
        own, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        with tempfile.TemporaryDirectory() as folder:
            command = [library.program(), "gate", "host", "--cases", "200", "--jobs", "1", "--out", f"{folder}/a"]
            with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, cwd=folder) as process:
                os.close(its)
                said = b""
                with contextlib.suppress(OSError):  # its end, as Linux says it
                    while part := os.read(own, 1 << 16):
                        said += part
            os.close(own)
        self.assertEqual(process.returncode, 0, said)
        lines = [line for line in re.split(r"[\r\n]+", said.decode()) if re.match(r"\x1b\[K[a-z ]+  ", line)]
        self.assertTrue(lines, said)
        for line in lines:
            self.assertLessEqual(len(line), len("\x1b[K") + 79)
            self.assertRegex(line, r"K[a-z ]+  \d+s of 200cases(  \d+s left)?  \d+ cases(  \d+% judged)?  0 wrong  0 suspect")


if __name__ == "__main__":
    unittest.main()
