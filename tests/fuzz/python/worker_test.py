# SPDX-License-Identifier: Apache-2.0
"""Python targets in a campaign: an honest one, a planted defect, and one misdeed each."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE, PLUMB, TARGETS, fuzz, plumb

# What the first finding of each misdeed says. None: there is none.
FINDINGS = {
    "raise": "KeyError: 'no such block size' (in _raise, misbehaving.py:",
    "exit": "SystemExit: 0",
    "exit_at_once": "exited with status 0",
    "abort": "Fatal Python error: Aborted at File",
    "fork_and_return": None,
    "keep": "kept: an input is still referred to",
    "write": "hidden: byte +",
    "view": "grad_hidden is a view of the input hidden",
    "shape": "entropy has shape [",
    "dtype": "entropy is float64 where fp32 is required",
    "not_an_array": "entropy is a builtins.list, not a NumPy array",
    "missing": "entropy was asked for and did not come back",
    "unwritten": "unwritten:entropy",
    "mode": "a global mode was left changed: numpy.geterr()",
    "say": None,
    "thread": None,
    "garbage": "entropy[0] = 0 where",
    "declares_and_refuses": "refused what it does not declare to lack: NotImplementedError: no fp16",
}


class Campaigns(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.out = pathlib.Path(self._folder.name) / "out"

    # Fails if a view has wrong strides, a result is copied wrongly, or an honest function gets a finding.
    def test_an_honest_function_has_no_finding(self):
        status, text, report = fuzz("honest_numpy:linear_cross_entropy", self.out, 600)
        self.assertEqual(status, 0, text)
        self.assertGreaterEqual(report["judged"], 500, text)

    # Fails if a defect is not found, not shrunk, or its rule not told.
    def test_a_defect_is_found_shrunk_explained_and_replayed(self):
        status, text, _ = plumb(
            "fuzz", "--target", "python:honest_numpy:one_column_short", "--budget", "1000cases", "--seed", 1,
            "--jobs", 1, "--out", self.out,
        )  # fmt: skip
        self.assertEqual(status, 1, text)
        self.assertIn("V mod 8 is 1", text)
        case = next((self.out / "findings").glob("*.safetensors"))
        status, text, _ = plumb("replay", case)
        self.assertEqual(status, 1, text)
        status, text, _ = plumb("replay", case, "--target", "python:honest_numpy:linear_cross_entropy")
        self.assertEqual(status, 0, text)

    # Fails if a misdeed is no finding, has other words, or if what is no misdeed is one.
    def test_each_misdeed_has_its_words(self):
        for name, words in FINDINGS.items():
            with self.subTest(name):
                status, text, _ = fuzz(f"misbehaving:{name}", self.out.with_name(name), 40, "--stop-after", 1)
                self.assertEqual(status, 0 if words is None else 1, text)
                if words is not None:
                    self.assertIn(words, text)

    # Fails if a function that does not come back, with or without the interpreter's lock, stops the hunt.
    def test_a_hang_is_a_finding(self):
        for name in ("hang", "hold_the_lock"):
            with self.subTest(name):
                status, text, _ = fuzz(
                    f"misbehaving:{name}", self.out.with_name(name), 1, "--case-timeout", "1s", "--palette", 0
                )
                self.assertEqual(status, 1, text)
                self.assertIn("did not answer before its deadline", text)

    # Fails if memory that a function keeps is not limited.
    def test_growing_memory_is_a_finding(self):
        status, text, _ = fuzz("misbehaving:leak", self.out, 60, "--worker-memory", "512MiB", "--stop-after", 1)
        self.assertEqual(status, 1, text)


class Unwritten(unittest.TestCase):
    """Elements that are taken for unwritten, without a campaign."""

    SCRIPT = """
import numpy as np
from plumbline import frameworks
from plumbline.call import Call, Kernel
from plumbline.declaration import Declaration
from plumbline.views import View
from plumbline.worker.serve import Target

WRITTEN = np.array([0x7F7F7F7F, 0xFEFEFEFE, 0], np.uint32).view(np.float32)

def function(hidden, weight, labels):
    return WRITTEN.copy()

def seen(array, dtype):
    return View(array.ctypes.data, array.shape, (1,) * array.ndim, dtype)

kernel = Kernel(function, Declaration(form="forward", returns=("logprob",)), frameworks.load("numpy"))
target = Target(kernel)
column, labels, out = np.ones((3, 1), np.float32), np.zeros(3, np.int64), np.empty(3, np.float32)
inputs = {"hidden": seen(column, "fp32"), "weight": seen(column, "fp32"), "labels": seen(labels, "int64")}
for _ in range(2):
    out.fill(1)
    assert target._run_once(Call(inputs, {"logprob": seen(out, "fp32")}, -100, "none")) == (0, "")
    assert out.tobytes() == WRITTEN.tobytes(), out
"""

    # Fails if a value whose bytes are the pattern of fresh memory is taken for an element that nobody wrote.
    def test_a_value_that_looks_unwritten_is_copied(self):
        ended = subprocess.run(
            [sys.executable, "-c", self.SCRIPT], env={**os.environ, "PYTHONPATH": str(PACKAGE)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(ended.returncode, 0, ended.stderr)


class Trying(unittest.TestCase):
    # Fails if a refusal is taken for a defect, or is not printed as a capability to paste.
    def test_refusals_become_capabilities(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = {"XDG_CACHE_HOME": folder}
            status, text, report = plumb("targets", "python:misbehaving:refuses_in_words", environment=environment)
            self.assertEqual(status, 0, text)
            found = report["description"]["capabilities"]
            self.assertEqual((found["hidden_multiple"], found["dtypes"]), (4, ["fp32"]))
            self.assertIn("@plumbline.target(", text)
            self.assertIn("ValueError: H is 1: no multiple of 4", text)
            status, text, report = fuzz(
                "misbehaving:refuses_in_words", pathlib.Path(folder) / "out", 200, environment=environment
            )
            self.assertEqual(status, 0, text)

    # Fails if an honest function is wrong, or cannot be loaded, for what it declares, is given or returns; or if a value
    # that is not judged is not named.
    def test_unusual_functions_are_judged(self):
        not_judged = {
            "brings_metrics": "returned 'accuracy', of shape [16]: it is no log-probability",
            "entropy_in_bits": "returned value 2 of 2, of shape [16]: it is no log-probability",
        }
        names = ("declares_its_value_alone", "declares_an_argument_alone", "has_an_option", "returns_a_dataclass", "partial")
        with tempfile.TemporaryDirectory() as folder:
            environment = {"XDG_CACHE_HOME": folder}
            for name in (*names, *not_judged):
                with self.subTest(name):
                    out = pathlib.Path(folder) / name
                    status, text, report = fuzz(f"unusual_numpy:{name}", out, 60, environment=environment)
                    self.assertEqual(status, 0, text)
                    self.assertGreaterEqual(report["judged"], 50, text)
                    self.assertEqual("not judged" in text, name in not_judged, text)
                    self.assertIn(not_judged.get(name, ""), text)
            self.assertEqual(len(list(pathlib.Path(folder, "plumbline/found").glob("*.jsonl"))), len(names) + len(not_judged))
            out = pathlib.Path(folder) / "again"
            fuzz("unusual_numpy:partial", out, 1, environment=environment)
            self.assertEqual(len(list(pathlib.Path(folder, "plumbline/found").glob("*.jsonl"))), len(names) + len(not_judged))
            status, text, _ = fuzz("unusual_numpy:names_nothing_known", out.with_name("x"), 1, environment=environment)
            self.assertEqual(status, 4, text)
            self.assertIn("it returned values named log_probs: none is logprob, nll or loss", text)

    # Fails if a function cannot be tried where the user's cache cannot be written.
    def test_without_a_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a_file"
            path.touch()
            environment = {"XDG_CACHE_HOME": str(path), "TMPDIR": folder}
            status, text, _ = plumb("targets", "python:misbehaving:refuses_in_words", environment=environment)
            self.assertEqual(status, 0, text)

    # Fails if a campaign that is resumed asks for its interpreter again.
    def test_a_resumed_campaign_keeps_its_interpreter(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out"
            status, text, _ = fuzz("honest_numpy:linear_cross_entropy", out, 5)
            self.assertEqual(status, 0, text)
            environment = {name: value for name, value in os.environ.items() if name != "PLUMBLINE_PYTHON"}
            environment["VIRTUAL_ENV"] = folder  # without an interpreter
            ended = subprocess.run(
                [PLUMB, "fuzz", "--resume", out, "--budget", "20cases"], cwd=TARGETS, env=environment | {"PATH": "/nowhere"},
                capture_output=True, text=True, check=False,
            )
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    # Fails if the answers of a function are kept although a module that it imports has changed.
    def test_answers_are_forgotten_with_what_they_depend_on(self):
        with tempfile.TemporaryDirectory() as folder:
            helper = pathlib.Path(folder) / "helper.py"
            target = "import helper, honest_numpy\ndef f(hidden, weight, labels):\n    helper.check(hidden)\n"
            target += "    return honest_numpy.linear_cross_entropy(hidden, weight, labels)\n"
            (pathlib.Path(folder) / "kernel.py").write_text(target)
            environment = {"XDG_CACHE_HOME": folder, "PYTHONPATH": f"{folder}:{TARGETS}"}
            refusal = "    if hidden.dtype == 'float16':\n        raise NotImplementedError('no fp16')\n"
            for check, taken in ((refusal, False), ("    pass\n", True)):
                helper.write_text(f"def check(hidden):\n{check}")
                status, text, report = plumb("targets", "python:kernel:f", folder=folder, environment=environment)
                self.assertEqual(status, 0, text)
                dtypes = report["description"]["capabilities"].get("dtypes", ["fp16"])
                self.assertEqual("fp16" in dtypes, taken, text)

    # Fails if a signature with two readings is bound to one of them, or an unknown name loads.
    def test_what_cannot_be_loaded_says_why(self):
        for name, words in {
            "misbehaving:ambiguous": "hidden=input or hidden=x?",
            "misbehaving:nothing": "misbehaving has no 'nothing'",
            "no_module:f": "ModuleNotFoundError: No module named 'no_module'",
            "misbehaving": "names no Python function",
        }.items():
            with self.subTest(name):
                status, text, _ = plumb("fuzz", "--target", f"python:{name}", "--budget", "1cases")
                self.assertEqual(status, 4, text)
                self.assertIn(words, text)

    # Fails if a file of the user's in the place of a module of the standard library is told by the error alone that its
    # import leads to, which names the module of another package; or if a file that nobody took is blamed.
    def test_a_file_that_shadows_the_standard_library_is_named(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name).resolve()
            shutil.copy(TARGETS / "honest_numpy.py", folder)
            (folder / "test.py").write_text("")  # of a module's name, too
            for module, text, path in (
                ("random", "", ""), ("json", "", ""), ("json", "(", ""), ("random", "raise KeyError(1)", ""), ("types", "", name)
            ):
                with self.subTest(module, text=text):
                    shadow = folder / f"{module}.py"
                    shadow.write_text(text)
                    status, said, _ = plumb(
                        "targets", "python:honest_numpy:linear_cross_entropy", folder=folder, environment={"PYTHONPATH": path}
                    )
                    shadow.unlink()
                    self.assertEqual(status, 4, said)
                    self.assertIn(f"{shadow} stands in the place of the standard library's module {module}", said)
                    self.assertNotIn("test.py", said)
            (folder / "honest_numpy.py").rename(folder / "types.py")
            status, said, _ = plumb("targets", "python:types:linear_cross_entropy", folder=folder)
            self.assertEqual(status, 4, said)
            self.assertIn("types is the standard library's module", said)

    # Fails if an interpreter that is not there is silently replaced by another.
    def test_an_interpreter_that_is_not_there(self):
        status, text, _ = plumb("targets", "python:misbehaving:raise", python="/no/python")
        self.assertEqual(status, 4, text)
        self.assertIn("/no/python", text)

    # Fails if a program that is no Python interpreter is told as a worker that died, without its name.
    def test_a_program_that_is_no_interpreter(self):
        for program in ("/bin/true", "/bin/sh"):
            status, text, _ = plumb("targets", "python:misbehaving:raise", python=program)
            self.assertEqual(status, 4, text)
            self.assertIn(f"its program is {program} (--python, or PLUMBLINE_PYTHON): is it a Python interpreter?", text)


if __name__ == "__main__":
    unittest.main()
