#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scripts that show a finding without plumbline: their definition, their layout, their calls, their verdict."""

import dataclasses
import importlib.util
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE, TARGETS

sys.path[:0] = [str(PACKAGE), str(TARGETS)]

for needed in ("numpy", "mpmath"):
    if importlib.util.find_spec(needed) is None:
        raise unittest.SkipTest(f"{needed} is not installed")

import numpy as np
import plumbline
import wrong_numpy
from mpmath import mp, mpf
from plumbline import (
    api,
    findings,
    graph_checks,
    repro_call,
    repro_problem,
    repro_text,
    stored,
)

CORPUS = pathlib.Path(__file__).resolve().parents[3] / "corpus"
OUTPUTS = ("logprob", "entropy", "lse", "loss", "grad_hidden", "grad_weight")
# Its defect overwrites the upstream gradient, and what is stored as required was computed from what it left.
INPUT_WRITTEN = "mutant-grad-in-place"
FORMATS = {"F32": "f", "I64": "q"}
FLOATS = "import functools\nfrom math import inf, nan\nimport numpy as np\n"
FLOATS += "from mpmath import exp, fsum, isinf, isnan, log, mp, mpf\n"


def tensor(values, shape, dtype="F32"):
    return stored.Tensor(dtype, shape, struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values))


class Scripts(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        # No script may import plumbline: whoever tries finds this.
        (self.folder / "plumbline.py").write_text('raise ImportError("plumbline is not for scripts")\n')

    def finding(self, function, output, required, *, kind="bound", reduction="none", layout=(), wanted=(), more=(), what=""):
        """A stored case of 2 rows, 3 columns and a hidden size of 2, and its finding."""
        tensors = {
            "hidden": tensor([1.0, 0.5, -1.0, 0.25], (2, 2)),
            "weight": tensor([1.0, 0.0, 0.0, 1.0, 2.0, -1.0], (3, 2)),
            "labels": tensor([0, 2], (2,), "I64"),
        } | dict(more)
        wanted = {name: name in wanted for name in ("entropy", "lse", "grad_hidden", "grad_weight", "fp32_grads")}
        case = {
            "finding": {"kind": kind, "output": output, "row": 0, "column": 0, "got": 0.0, "expected": required,
                        "bound": 1e-5, "tightness": 9.0, "what": what or f"{output} is wrong"},
            "problem": {"ignore_index": -100, "reduction": reduction, "layout": dict(layout), "wanted": wanted},
            "target": f"python:{function.__module__}:{function.__qualname__}",
            "extra": {"explain": ["V: any"]},
        }  # fmt: skip
        path = self.folder / "case.safetensors"
        stored.write_safetensors(path, tensors, {"case": json.dumps(case)})
        return findings.read_finding(path, function)

    def run_alone(self, text):
        """Runs a script where nobody can import plumbline; its status and what it printed."""
        path = self.folder / "script.py"
        path.write_text(text)
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"PYTHONPATH": str(self.folder)}
        ended = subprocess.run(
            [sys.executable, path], capture_output=True, text=True, check=False, cwd="/", env=environment, timeout=100
        )
        return ended.returncode, ended.stdout + ended.stderr

    # Fails if a backward on a GPU begins with a kernel of the target, whose launch by the driver finds no context in its thread.
    def test_the_thread_of_backward_has_a_context(self):
        for device, needed in (("cuda", 1), ("cpu", 0)):
            lines = repro_call._autograd("hidden, weight", ["grad_weight"], "loss", "", device)
            launches = [i for i, line in enumerate(lines) if "requires_grad=True" in line]
            self.assertEqual(len(launches), needed, lines)
            self.assertTrue(all("autograd.grad" not in line for line in lines[: max(launches, default=0)]))

    # Fails if a script without a case, which runs nothing, ends as one that shows its finding: `bench/store public-kernels`
    # counted two of them.
    def test_a_case_that_is_too_large_shows_nothing(self):
        path = self.folder / "large.safetensors"
        case = {"finding": {"kind": "bound", "output": "logprob", "what": "logprob is wrong"}, "recipe": "v1 n=2",
                "problem": {"ignore_index": -100, "reduction": "none"}, "target": "python:wrong_numpy:right"}  # fmt: skip
        stored.write_safetensors(path, {}, {"case": json.dumps(case)})
        status, text = self.run_alone(findings.read_finding(path).repro())
        self.assertEqual(status, 2, text)
        self.assertIn("nothing was run", text)

    # Fails if a finding on a target of the program's own ends in the import of a module of its name.
    def test_targets_without_scripts(self):
        found = self.finding(wrong_numpy.positive, "logprob", 0.0)
        found = dataclasses.replace(found, target="mutant:plain-logprob", function=None)
        words = "mutant:plain-logprob: only Python targets have scripts; `plumb replay /.*case"
        for write in (found.repro, found.report):
            with self.assertRaisesRegex(ValueError, words):
                write()

    # Fails if the script of a real finding needs plumbline, shows nothing, or fails on a function that is right.
    def test_a_real_finding(self):
        campaign = api.fuzz(
            wrong_numpy.hidden_major, "250cases", seed=1, jobs=1, out=self.folder / "out",
            options=["--shrink-tries", "100"],
        )  # fmt: skip
        found = next(f for f in (*campaign.findings, *campaign.parts) if f.kind == "bound")
        text = found.case_path.with_suffix(".repro.py").read_text()
        self.assertNotIn("plumbline", text)
        self.assertIn("as_strided", text)
        status, printed = self.run_alone(text)
        self.assertEqual(status, 1, printed)
        self.assertIn("exact (mpmath)", printed)
        self.assertIn("<-- wrong", printed)
        self.assertIn("NumPy float64", printed)
        mended = text.replace("import hidden_major as kernel", "import right as kernel")
        self.assertNotEqual(mended, text)
        status, printed = self.run_alone(mended)
        self.assertEqual(status, 0, printed)
        self.assertIn("within the bound", printed)
        # Without the layout of the case the defect does not show: the script has it for a reason.
        dense = text.replace("    if strides is None or 0 in shape:", "    if True:")
        self.assertNotEqual(dense, text)
        self.assertEqual(self.run_alone(dense)[0], 0)

    # Fails if a form is called otherwise than the worker calls it, or a sign is turned once too often.
    def test_forms_of_numpy_functions(self):
        weight = np.float32([[1, 0], [0, 1], [2, -1]])
        expected = float(wrong_numpy.positive(np.float32([[1, 0.5]]), weight, [0])[0])
        for function, returns in ((wrong_numpy.negative, ("nll",)), (wrong_numpy.positive, ("logprob",)),
                                  (wrong_numpy.positive, ("logprob_or_loss",))):  # fmt: skip
            declare(function, "forward", returns)
            status, printed = self.run_alone(self.finding(function, "logprob", expected).repro())
            self.assertEqual(status, 0, printed)
        for required, reduction in ((-0.5, "none"), (0.5, "sum")):
            more = {"grad_logprob": tensor([1.0, 1.0], (2,)) if reduction == "none" else tensor([1.0], ())}
            declare(wrong_numpy.both, "returned", None)
            found = self.finding(
                wrong_numpy.both, "grad_hidden", required, reduction=reduction, wanted=["grad_hidden"], more=more
            )
            status, printed = self.run_alone(found.repro())
            self.assertEqual(status, 0, printed)
            self.assertIn("grad_hidden[0, 1]", printed)
        declare(wrong_numpy.a_pair, "pair", ("logprob",))
        more = {"grad_logprob": tensor([1.0, 2.0], (2,))}
        found = self.finding(wrong_numpy.a_pair, "grad_weight", 0.0, wanted=["grad_weight"], more=more)
        status, printed = self.run_alone(found.repro())
        self.assertEqual(status, 0, printed)

    # Fails if a class is called as if it were the function that its instances are.
    def test_a_class_is_made(self):
        found = self.finding(wrong_numpy.Module, "logprob", 0.0)
        found = dataclasses.replace(found, function=None)
        status, printed = self.run_alone(found.repro())
        self.assertEqual(status, 1, printed)
        self.assertIn("<-- wrong", printed)

    # Fails if a script passes where a function raises, returns another shape or dtype, writes an input or wavers.
    def test_findings_that_are_no_values(self):
        for function, kind, words in (
            (wrong_numpy.raises, "status", "no such block"),
            (wrong_numpy.narrow, "status", "is required"),
            (wrong_numpy.writes, "input-written", "['hidden']"),
            (wrong_numpy.wavers, "nondeterministic", "values of 200 calls"),
        ):
            with self.subTest(kind=kind, function=function.__name__):
                declare(function, "forward", ("logprob",))
                output = "logprob" if kind == "nondeterministic" else ""
                status, printed = self.run_alone(self.finding(function, output, 0.0, kind=kind).repro())
                self.assertEqual(status, 1, printed)
                self.assertIn(words, printed)

    # Fails if the script of a failure asks for an output that the function does not have.
    def test_a_script_asks_for_what_the_function_has(self):
        declare(wrong_numpy.positive, "forward", ("logprob",))
        found = self.finding(wrong_numpy.positive, "", 0.0, kind="status", wanted=("entropy", "lse"))
        status, printed = self.run_alone(found.repro())
        self.assertEqual(status, 0, printed)
        self.assertIn("the call returned what was asked for", printed)

    # Fails if a script claims to show what it cannot.
    def test_what_a_script_cannot_show_is_said(self):
        declare(wrong_numpy.positive, "forward", ("logprob",))
        text = self.finding(wrong_numpy.positive, "logprob", 0.0, kind="relation").repro()
        self.assertIn("plumb replay", text.split('"""')[1])
        status, printed = self.run_alone(text)
        self.assertEqual(status, 2, printed)
        self.assertNotIn("<--", printed)
        self.assertNotIn("0 if not", text)
        wide = self.finding(wrong_numpy.positive, "logprob", 0.0, layout={"hidden_padding": 1 << 35}).repro()
        self.assertIn("hidden has strides", wide.split('"""')[1])
        case = findings.Finding("bound:lse", "what", "python:a:b")
        with self.assertRaises(FileNotFoundError):
            case.repro()

    # Fails if a row that lies gigabytes behind the one before is left out of a script, or written to as a whole.
    def test_a_wide_stride_is_in_the_script(self):
        declare(wrong_numpy.positive, "forward", ("logprob",))
        text = self.finding(wrong_numpy.positive, "logprob", 0.0, layout={"hidden_padding": 1 << 30}).repro()
        self.assertNotIn("Not expressed", text)
        self.assertIn(str((1 << 30) + 2), text)
        status, printed = self.run_alone(text)
        self.assertEqual(status, 0, printed)
        self.assertIn("within the bound", printed)

    # Fails if torch's autograd is fed otherwise than by the worker.
    def test_torch_autograd(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("torch is not installed")
        module = self.folder / "torch_kernel.py"
        module.write_text(TORCH_KERNEL)
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        sys.modules["plumbline"] = plumbline
        import torch_kernel

        declared = plumbline.target(torch_kernel.loss, framework="torch", form="autograd", returns=("nll", "entropy"))
        more = {"grad_logprob": tensor([1.0, 3.0], (2,)), "grad_entropy": tensor([0.5, 0.5], (2,))}
        found = self.finding(
            declared, "grad_weight", 0.0, wanted=["entropy", "grad_hidden", "grad_weight"], more=more,
            layout={"grad_stride": 0, "weight_hidden_major": True, "weight_padding": 3},
        )  # fmt: skip
        status, printed = self.run_alone(found.repro())
        self.assertEqual(status, 0, printed)
        self.assertIn("within the bound", printed)
        wrong = found.repro().replace("[b.to(a.dtype) for a, b in pairs]", "[2 * b.to(a.dtype) for a, b in pairs]")
        self.assertEqual(self.run_alone(wrong)[0], 1)

    # Fails if a script does not make the further calls on a graph that showed the finding, or fails where they agree.
    def test_checks_of_a_graph(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("torch is not installed")
        (self.folder / "torch_graphs.py").write_text(TORCH_GRAPHS)
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        import torch_graphs

        more = {"grad_logprob": tensor([1.0, 3.0], (2,))}
        for check, output, *functions in (
            ("after", "grad_weight", torch_graphs.scales_in_place, torch_graphs.right),
            ("again", "grad_hidden", torch_graphs.scales_in_place),
            ("alone", "grad_hidden", torch_graphs.other_alone, torch_graphs.right),
            ("no_grad", "logprob", torch_graphs.other_without_a_graph),
        ):
            words = graph_checks.WORDS[check]
            for status, function in zip((1, 0), functions):
                with self.subTest(words=words, function=function.__name__):
                    declared = plumbline.target(function, framework="torch", form="autograd", returns=("logprob",))
                    found = self.finding(declared, "", 0.0, kind="status", wanted=["grad_hidden", "grad_weight"], more=more,
                                         what=f"the target failed: {words}: element 0 of {output} is 1.0, and 2.0 before")  # fmt: skip
                    ended, printed = self.run_alone(found.repro())
                    self.assertEqual(ended, status, printed)
                    if status:
                        self.assertIn(f"{words}: element", printed)


class Definition(unittest.TestCase):
    # Fails if the definition of the scripts gives another value than the arbiter's 40 digits, on any stored case.
    def test_the_corpus(self):
        compared = 0
        for path in sorted(CORPUS.glob("*.safetensors")):
            found = findings.read_finding(path)
            case = found.case()
            if found.output not in OUTPUTS or not found.arbiter or path.name.startswith(INPUT_WRITTEN):
                continue
            if not case.tensors or math.prod(case.shape) > 5000:
                continue
            value, other = evaluated(found)
            digits = mpf(found.arbiter.replace("infinity", "inf"))
            same = value == digits or (mp.isnan(value) and mp.isnan(digits))
            self.assertTrue(same or abs(value - digits) <= abs(digits) * mpf(10) ** -38, f"{path.name}: {value}")
            if mp.isfinite(value):
                self.assertLessEqual(abs(other - value), max(found.bound, 1e-12), path.name)
            compared += 1
        self.assertGreater(compared, 50)

    # Fails if a literal reads back as other bits, or a run of equal values as another number of them.
    def test_literals(self):
        values = [0.1, -0.0, 1e-45, 3.4028234663852886e38, math.inf, *[2.0] * 9, 0.0, *[-0.0] * 7]
        values = list(struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values)))
        back = eval(repro_problem.literals(values), {"inf": math.inf})
        self.assertEqual(struct.pack(f"<{len(back)}f", *back), struct.pack(f"<{len(values)}f", *values))
        self.assertEqual(repro_problem.literals([]), "[]")
        bf16 = stored.Tensor("BF16", (2,), bytes([0x80, 0x3F, 0x01, 0x00]))
        self.assertEqual(bf16.values(), [1.0, 2.0**-133])
        self.assertEqual(bf16.array().tolist(), bf16.values())


def evaluated(found):
    """One element by the scripts' definition, and by their reference in float64."""
    case = found.case()
    names = {}
    exec(FLOATS, names)  # noqa: S102
    mp.prec = 1280
    exec("\n".join(repro_problem.constants(case, repro_problem.arrays(case)[0])), names)  # noqa: S102
    exec(repro_text.ROWS, names)  # noqa: S102
    gradient = found.output.startswith("grad_")
    exec(repro_text.BACKWARD if gradient else repro_text.FORWARD, names)  # noqa: S102
    exec(repro_text.NUMPY_REFERENCE, names)  # noqa: S102
    row, column = max(found.row, 0), max(found.column, 0)
    other = names["reference"]()[found.output]
    other = other[row, column] if gradient else other if found.output == "loss" else other[row]
    return names["exact"](found.output, row, column), float(other)


def declare(function, form, returns):
    plumbline.target(function, framework="numpy", form=form, returns=returns)


TORCH_GRAPHS = """
import torch

def right(hidden, weight, labels):
    return torch.log_softmax(hidden @ weight.T, -1).gather(1, labels[:, None])[:, 0]

class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, labels):
        with torch.enable_grad():
            h, w = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
            logprob = right(h, w, labels)
            gradients = torch.autograd.grad(logprob.sum(), (h, w))
        ctx.save_for_backward(*gradients)
        return logprob.detach()

    @staticmethod
    def backward(ctx, upstream):
        return *(each.data.mul_(upstream.sum()) for each in ctx.saved_tensors), None

def scales_in_place(hidden, weight, labels):
    return InPlace.apply(hidden, weight, labels)

def other_alone(hidden, weight, labels):
    return right(hidden, weight, labels) * (1 if weight.requires_grad else 2)

def other_without_a_graph(hidden, weight, labels):
    return right(hidden, weight, labels) * (1 if torch.is_grad_enabled() else 2)
"""

TORCH_KERNEL = '''\
import torch


def loss(hidden, weight, labels, temperature=1.0, reduction="none"):
    lp = torch.log_softmax(hidden.double() @ weight.double().T, -1)
    return -lp.gather(1, labels[:, None])[:, 0].float(), -(lp.exp() * lp).sum(-1).float()
'''

if __name__ == "__main__":
    unittest.main()
