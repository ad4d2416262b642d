# SPDX-License-Identifier: Apache-2.0
"""Python targets in a campaign: an honest one, a planted defect, and one misdeed each."""

import linecache
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE, PLUMB, TARGETS, fuzz, plumb

sys.path[:0] = [str(PACKAGE)]

from plumbline import errors, findings

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

    # Fails if what a function rounds that declares no contract is inferred only where that is asked for, or where it is not.
    def test_a_function_without_a_contract_is_inferred(self):
        for name, options, inferred in (("tail", (), 1), ("tail", ("--no-infer",), 0)):
            _, text, report = fuzz(f"wrong_numpy:{name}", self.out / str(inferred), 1, *options)
            self.assertEqual(len(report.get("inference", [])), inferred, text)

    # Fails if a defect is not found, not shrunk, or its rule not told.
    def test_a_defect_is_found_shrunk_explained_and_replayed(self):
        status, text, _ = plumb(
            "fuzz", "--target", "python:honest_numpy:one_column_short", "--budget", "1000cases", "--seed", 1,
            "--jobs", 1, "--out", self.out,
        )  # fmt: skip
        self.assertEqual(status, 1, text)
        self.assertIn("V mod 8 is 1", text)
        case = next(path for path in (self.out / "findings").glob("*.safetensors") if "suspect" not in path.name)
        status, text, _ = plumb("replay", case)
        self.assertEqual(status, 1, text)
        status, text, _ = plumb("replay", case, "--target", "python:honest_numpy:linear_cross_entropy")
        self.assertEqual(status, 0, text)

    # Fails if a misdeed is no finding, has other words, or if what is no misdeed is one.
    def test_each_misdeed_has_its_words(self):
        for name, words in FINDINGS.items():
            with self.subTest(name):
                status, text, _ = fuzz(f"misbehaving:{name}", self.out.with_name(name), 40, "--stop-after", 1, "--no-infer")
                self.assertEqual(status, 0 if words is None else 1, text)
                if words is not None:
                    self.assertIn(words, text)

    # Fails if the first exception hides another one, if a shrunk case shows the other's, or if replay takes one for the other.
    def test_exceptions_of_two_causes_are_two_findings(self):
        status, text, report = fuzz("misbehaving:fails_in_two_ways", self.out, 60)
        self.assertEqual(status, 1, text)
        found = {each["signature"]: each["kept"] for each in report["sightings"]}
        self.assertEqual(len(found), 2, found)
        for place, words in (("_first_entry", "'first'"), ("fails_in_two_ways", "KeyError: ")):
            signature = next(each for each in found if f"KeyError@{place}." in each)
            self.assertRegex(signature, f"^status:KeyError@{place}[.][0-9a-f]{{6}}$")
            self.assertIn(words, found[signature]["finding"]["what"])
            self.assertEqual(findings.read_finding(self.out / found[signature]["file"]).signature, signature)
            status, text, _ = plumb("replay", self.out / found[signature]["file"])
            self.assertEqual(status, 1, text)
            self.assertNotIn("fails differently", text)
        status, text, again = plumb("fuzz", "--resume", self.out, "--budget", "80cases")
        self.assertEqual({each["signature"] for each in again["sightings"]}, set(found), text)

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
        status, text, _ = fuzz("misbehaving:leak", self.out, 60, "--worker-memory", "512MiB", "--stop-after", 1, "--no-infer")
        self.assertEqual(status, 1, text)


class Failures(unittest.TestCase):
    """The word of an exception in its finding's signature."""

    SOURCE = """
def loss(rows):
    return rows["a"] / len(rows)

def other(rows):
    total = rows["a"]
    return total / rows["b"]

def wraps(rows):
    try:
        return loss(rows)
    except KeyError as error:
        raise CompilationError("at 7:12") from error

class CompilationError(Exception):
    pass
"""

    def word_of(self, source, name, rows, folder):
        """The word of what the function raises, in a module of this text in a folder of this name."""
        with tempfile.TemporaryDirectory() as root:
            file = pathlib.Path(root, folder, "mine.py")
            file.parent.mkdir()
            file.write_text(source)
            linecache.checkcache()
            module = {}
            exec(compile(source, str(file), "exec"), module)  # noqa: S102
            try:
                module[name](rows)
            except Exception as error:  # noqa: BLE001
                return errors.failure(error, str(file))
        self.fail("it did not raise")

    # Fails if the word depends on where the line stands or the file lies, or on the values of a case.
    def test_it_is_the_same_wherever_the_cause_is(self):
        first = self.word_of(self.SOURCE, "loss", {}, "one")
        self.assertRegex(first, r"^KeyError@loss[.][0-9a-f]{6}$")
        moved = "# A comment.\nimport os\n" + self.SOURCE.replace("def other", "def another")
        self.assertEqual(self.word_of(moved, "loss", {}, "two"), first)
        values = [self.word_of(self.SOURCE, "other", {"a": 1, "b": 0, key: key}, "one") for key in (3, 4)]
        self.assertEqual(values[0], values[1])

    # Fails if two causes have one word: another type, line or function, or another error of a compiler.
    def test_it_tells_causes_apart(self):
        causes = (("loss", {}), ("loss", {"a": "text"}), ("other", {}), ("other", {"a": 1}), ("other", {"a": 1, "b": 0}))
        words = [self.word_of(self.SOURCE, name, rows, "one") for name, rows in causes]
        self.assertEqual(len(set(words)), len(words), words)
        self.assertRegex(self.word_of(self.SOURCE, "wraps", {}, "one"), "^CompilationError.KeyError@loss[.]")

    # Fails if a text of this package keeps a number, a shape or a dtype of a case.
    def test_texts_have_no_values(self):
        for words, expected in (
            ("lse has shape [3] where [] is required", "misfit@lse-has-shape-where-is-required"),
            ("entropy is bf16 where fp32 is required", "misfit@entropy-is-where-is-required"),
            ("grad_hidden: element (0, 1) is -1.5e-05, and nan before", "misfit@grad_hidden-element-is-and-before"),
        ):
            self.assertEqual(errors.failure_in_words("misfit", words), expected)


class Unwritten(unittest.TestCase):
    """Elements that are taken for unwritten, without a campaign."""

    SCRIPT = """
import numpy as np
from plumbline import frameworks
from plumbline.call import Call, Kernel
from plumbline.declaration import Declaration
from plumbline.views import View
from plumbline.worker.serve import Outcome, Target

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
    assert target._run_once(Call(inputs, {"logprob": seen(out, "fp32")}, -100, "none")) == Outcome()
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

    # Fails if a refusal of one reduction is said to be why nothing works, and not what the others fail of.
    def test_a_failure_is_said_before_a_refusal(self):
        with tempfile.TemporaryDirectory() as folder:
            status, text, _ = plumb("targets", "python:misbehaving:has_no_device", environment={"XDG_CACHE_HOME": folder})
        self.assertEqual(status, 4, text)
        self.assertIn("it takes none of the problems tried; failed on N=16 V=128 H=64 fp32 mean: KeyError: 'device'", text)

    # Fails if an honest function is wrong, or cannot be loaded, for what it declares, is given or returns; or if a value
    # that is not judged is not named.
    def test_unusual_functions_are_judged(self):
        not_judged = {
            "brings_metrics": "returned 'accuracy', of shape [16]: it is no log-probability",
            "entropy_in_bits": "returned value 2 of 2, of shape [16]: it is no log-probability",
        }
        names = ("declares_its_value_alone", "declares_an_argument_alone", "has_an_option", "returns_a_dataclass", "partial",
                 "reduces_to_the_loss")  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            environment = {"XDG_CACHE_HOME": folder}
            for name in (*names, *not_judged):
                with self.subTest(name):
                    out = pathlib.Path(folder) / name
                    status, text, report = fuzz(f"unusual_numpy:{name}", out, 60, "--no-infer", environment=environment)
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

    # Fails if a value that a defect makes wrong on the first problem tried has no name, and its defect no finding.
    def test_a_value_that_is_right_on_a_larger_problem_alone_is_judged(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out"
            status, text, _ = fuzz(
                "wrong_numpy:entropy_of_whole_tiles", out, 60, "--stop-after", 1, environment={"XDG_CACHE_HOME": folder}
            )
            self.assertEqual(status, 1, text)
            self.assertIn("entropy[0] = ", text)

    # Fails if the process that tries a function imports another release of its package than the worker: the one in a
    # folder that a .pth file puts behind site-packages.
    def test_a_path_file_hides_no_package_from_the_process_that_tries(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name).resolve()
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", folder / "own"], check=True)
            python = folder / "own/bin/python"
            ask = [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
            site = pathlib.Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip())
            (folder / "behind").mkdir()
            (site / "behind.pth").write_text(f"{folder / 'behind'}\n")
            taken = "import honest_numpy\ndef f(hidden, weight, labels):\n    {}return honest_numpy.linear_cross_entropy"
            taken += "(hidden, weight, labels)\n"
            (site / "released.py").write_text(taken.format(""))
            (folder / "behind/released.py").write_text(taken.format("raise NotImplementedError\n    "))
            status, text, _ = plumb("targets", "python:released:f", python=str(python), environment={"XDG_CACHE_HOME": name})
            self.assertEqual(status, 0, text)

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
                    # Where a package's .pth file imports the module, no interpreter starts beside the file.
                    starts = subprocess.run([sys.executable, "-c", ""], env={**os.environ, "PYTHONPATH": path}, check=False,
                                            capture_output=True).returncode == 0  # fmt: skip
                    shadow.unlink()
                    self.assertEqual(status, 4, said)
                    words = f"{shadow} stands in the place of the standard library's module {module}"
                    self.assertIn(words if starts else "Failed to import the site module", said)
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
