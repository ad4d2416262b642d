#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a capture begins: its variable, its launcher, and a Python process in which it is on or off. Needs no package."""

import inspect
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE

sys.path[:0] = [str(PACKAGE)]

from plumbline.capturing import recognise, settings

SITE = PACKAGE / "plumbline" / "capturing" / "site"


class Start(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def python(self, *words, path=(), **environment):
        """A Python process with these folders as PYTHONPATH."""
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PLUMBLINE_CAPTURE")}
        return subprocess.run([sys.executable, "-B", *map(str, words)], capture_output=True, text=True, check=False, timeout=60,
                              cwd=self.path, env=kept | {"PYTHONPATH": os.pathsep.join(map(str, path)), **environment})

    def launched(self, text, *words):
        return self.python("-m", "plumbline.capture", *words, path=[PACKAGE], PLUMBLINE_CAPTURE=text)

    # Fails if a key, a value or a folder that cannot be met is taken, or is refused without its name and its value.
    def test_settings_that_cannot_be_met_are_named(self):
        for text, words in (("dir=d,stp=1", "'stp=1': no key 'stp'; there are dir, step, rank, rows, calls, graph, function"),
                            ("step=1", "'step=1': says no dir"), ("dir=d,step=-1", "step=-1: takes a number"),
                            ("dir=d,step=1,step=2", "'step=2': step is said twice"), ("dir=", "'dir=': dir has no value"),
                            ("dir=d,rows=0", "rows=0: takes a number of at least 1"), ("dir=d,graph=x", "graph=x: takes needed"),
                            ("dir=d,function=f", "function=f: 'f' is not MODULE:FUNCTION"), ("", "says no dir")):
            with self.assertRaises(settings.SettingsError) as refused:
                settings.parse(text)
            self.assertIn(words, str(refused.exception))
            ended = self.launched(text, "--", sys.executable, "-c", "print('ran')")
            self.assertEqual((ended.returncode, ended.stdout), (2, ""))
            self.assertIn(f"plumbline.capture: PLUMBLINE_CAPTURE: {refused.exception}\n", ended.stderr)
        (self.path / "file").write_text("")
        ended = self.launched(f"dir={self.path}/file/d", "--", "true")
        self.assertEqual(ended.returncode, 2)
        self.assertIn(f"dir={self.path}/file/d: cannot be written: Not a directory", ended.stderr)
        read = settings.parse("dir=/d,step=1+20,rank=all,rows=64,calls=all,graph=any,function=a.b:C.f+d:g")
        self.assertEqual(read, settings.Settings(pathlib.Path("/d"), frozenset((1, 20)), None, 64, None, False,
                                                 ("a.b:C.f", "d:g")))

    # Fails if the launcher ends with another status than the job, does not hand a signal on, or is silent where nothing came.
    def test_the_launcher_ends_as_the_job_does(self):
        ended = self.launched("dir=d", "--", sys.executable, "-c", "print('ran'); raise SystemExit(7)")
        self.assertEqual((ended.returncode, ended.stdout), (7, "ran\n"))
        self.assertIn(f"nothing was captured in {self.path}/d: no chosen call of a function that is recognised", ended.stderr)
        ended = self.launched("dir=d,function=no.such:loss", "--", "true")
        self.assertIn("recognised, nor of no.such:loss, if its module was imported at all\n", ended.stderr)
        self.assertEqual(self.launched("dir=d", "--", "sh", "-c", "kill -TERM $PPID; sleep 20").returncode, 128 + 15)
        self.assertEqual(self.launched("dir=d", "--", self.path / "nothing").returncode, 127)
        self.assertEqual(self.launched("dir=d").returncode, 2)

    # Fails if a process in which the variable is not set imports anything of this package or finds modules another way.
    def test_off_is_as_without(self):
        script = "import sys; print([str(type(f)) for f in sys.meta_path], sorted(m for m in sys.modules if 'plumbline' in m))"
        off = self.python("-c", script, path=[SITE])
        self.assertEqual((off.returncode, off.stderr), (0, ""))
        self.assertEqual(off.stdout, self.python("-c", script).stdout)
        self.assertIn("_plumbline_capture", self.python("-c", script, path=[SITE], PLUMBLINE_CAPTURE="dir=d").stdout)

    # Fails if the variables that the launcher prints do not begin a capture in a process that something else starts, if a
    # sitecustomize that was there is not run, or if another package called plumbline is hidden from the job.
    def test_what_the_job_has_is_kept(self):
        theirs = self.path / "theirs"
        theirs.mkdir()
        for name, text in (("sitecustomize.py", "print('theirs')\n"), ("plumbline.py", "whose = 'theirs'\n")):
            (theirs / name).write_text(text)
        printed = self.python("-m", "plumbline.capture", "--env", path=[PACKAGE], PLUMBLINE_CAPTURE="dir=d,step=1")
        variables = json.loads(printed.stdout)
        self.assertEqual(variables["PLUMBLINE_CAPTURE"], "dir=d,step=1")
        for variables["PLUMBLINE_CAPTURE"] in ("dir=d,step=1", ""):
            folders = variables["PYTHONPATH"].split(os.pathsep)
            folders.remove(str(PACKAGE))
            ended = self.python("-c", "import plumbline, sitecustomize; print(plumbline.whose, sitecustomize.__file__)",
                                path=[*folders, theirs], PLUMBLINE_CAPTURE=variables["PLUMBLINE_CAPTURE"])
            self.assertEqual((ended.stdout, ended.stderr), (f"theirs\ntheirs {theirs}/sitecustomize.py\n", ""))

    # Fails if modules are run twice, or not at all, where they are watched; or if a failing import fails otherwise.
    def test_imports_are_as_before(self):
        (self.path / "one.py").write_text("import two\nprint('one')\n")
        (self.path / "two.py").write_text("print('two')\nraise ValueError('2')\n")
        outcomes = [self.python("-c", "import json\ntry: import one\nexcept ValueError as e: print(e)", path=[SITE, self.path],
                                PLUMBLINE_CAPTURE=text) for text in ("", "dir=d")]
        self.assertEqual([each.stdout for each in outcomes], ["two\n2\n"] * 2)
        self.assertEqual([each.stderr for each in outcomes], ["", ""])

    # Fails if a function is not recognised by the names of its parameters, whichever package it is in, or if one is that has
    # them as options.
    def test_functions_are_recognised_by_their_parameters(self):
        for text, expected in (
            ("e, c, targets, bias=None", ("e", "c", "targets")),
            ("x, target, weight, bias=None", ("x", "weight", "target")),
            ("lin_weight, _input, target", ("_input", "lin_weight", "target")),
            ("last_hidden, lm_head_weight, input_ids, tau=1.0", ("last_hidden", "lm_head_weight", "input_ids")),
            ("input, linear_weight, target, *, linear_bias=None, weight=None", ("input", "linear_weight", "target")),
            ("input, target, weight=None", None), ("input, weight, bias=None", None), ("x, w, y", None),
            ("hidden, weight, other_weight, w, labels", None),
        ):
            found = recognise.roles_of(inspect.signature(eval(f"lambda {text}: None")))
            self.assertEqual(found and tuple(found[role] for role in ("hidden", "weight", "labels")), expected, text)


if __name__ == "__main__":
    unittest.main()
