# SPDX-License-Identifier: Apache-2.0
"""Public kernels as targets: the shapes that they come in, what their refusals say, and Triton's interpreter."""

import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE, TARGETS, fuzz, plumb

sys.path[:0] = [str(PACKAGE), str(TARGETS)]

import adapted_torch
import other_kernel
from plumbline import compiled, errors, loading, pickled, signature

# Runs with Triton's interpreter, which must be chosen before Triton is imported.
INTERPRETED = """
import numpy as np, torch, triton, triton.language as tl
from triton.language.extra import libdevice
from plumbline import interpreter
assert interpreter.complete()

@triton.jit
def kernel(a, b, product, summed, rounded, logs):
    i = tl.arange(0, 16)
    x = tl.load(a + i[:, None] * 16 + i[None, :])
    y = tl.load(b + i[:, None] * 16 + i[None, :])
    at = i[:, None] * 16 + i[None, :]
    tl.store(product + at, tl.dot(x, y, out_dtype=tl.float32))
    tl.store(summed + at, x + y)
    wide = x.to(tl.float32) * 1.001953125
    tl.store(rounded + at, wide.to(tl.bfloat16))
    tl.store(logs + at, libdevice.log1p(wide * 1e-6))

torch.manual_seed(1)
a, b = torch.randn(2, 16, 16).bfloat16()
product, logs = torch.empty(2, 16, 16)
summed, rounded = torch.empty(2, 16, 16, dtype=torch.bfloat16)
kernel[(1,)](a, b, product, summed, rounded, logs)
wide = a.float() * 1.001953125
assert torch.allclose(product, a.float() @ b.float(), rtol=1e-6, atol=1e-5), "product"
assert torch.equal(summed, a + b), "sum"
assert torch.equal(rounded, wide.bfloat16()), "rounding"
assert torch.allclose(logs, torch.log1p(wide * 1e-6), rtol=1e-6, atol=0), "log1p"
"""


class Adapters(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.out = pathlib.Path(self._folder.name) / "out"
        self.environment = {"XDG_CACHE_HOME": self._folder.name}

    def targets(self, name):
        """(status, text, capabilities) of what `plumb targets` says."""
        status, text, report = plumb("targets", f"python:adapted_torch:{name}", environment=self.environment)
        return status, text, report.get("description", {}).get("capabilities", {})

    # Fails if an entropy in the dtype of hidden is taken for a fp32 output: each 16-bit case is then a finding.
    def test_an_output_in_the_dtype_of_hidden_is_found(self):
        status, text, _ = self.targets("rounded_entropy")
        self.assertEqual(status, 0, text)
        self.assertIn("outputs={'entropy': 'hidden'}", text)
        self.assertNotIn("is bf16 where fp32 is required", text)

    # Fails if a rounding of d_logits is taken for one of a product's operands, which are bf16 already; if a case is judged
    # by an upstream gradient of an entropy that there is not; or if it is not said that oneDNN flushes.
    def test_what_eager_pytorch_rounds_is_inferred(self):
        folder = TARGETS.parents[3] / "bench/store/adapted"
        for seed in (2, 5):
            _, text, report = fuzz("pytorch_functions:eager_of_numbers", self.out / str(seed), 1, "--infer", seed=seed,
                                   folder=folder, environment=self.environment)
            inference, = report["inference"]
            self.assertEqual(inference["contract"], "tensor-core-fp32,logits=input,d_logits=input,flush=operands", text)
            self.assertEqual(inference["unexplained"], 0, text)

    # Fails if a dtype that backward alone refuses makes every question a refusal.
    def test_a_dtype_that_backward_refuses_is_a_limit_of_dtypes_alone(self):
        status, text, can = self.targets("Narrow")
        self.assertEqual(status, 0, text)
        self.assertEqual(sorted(can["dtypes"]), ["bf16", "fp16"])
        self.assertNotIn("label_dtypes", can)
        self.assertNotIn("weight_layouts", can)

    # Fails if a module or an autograd function is no target by its name, or its parameters are read from __call__.
    def test_modules_and_autograd_functions_are_targets(self):
        module = loading.load("adapted_torch:Module")
        self.assertEqual(module.signature.names, {"weight": "lin_weight", "hidden": "_input", "labels": "target"})
        self.assertEqual(module.file, adapted_torch.__file__)
        function = loading.load("adapted_torch:Narrow")
        self.assertEqual(function.signature.by_position, ("hidden", "weight", "labels"))
        self.assertEqual(function.file, adapted_torch.__file__)
        with self.assertRaisesRegex(loading.LoadError, "needs size to be made"):
            loading.load("adapted_torch:NeedsAnArgument")
        with self.assertRaises(signature.SignatureError):
            signature.read(adapted_torch.NeedsAnArgument)

    # Fails if an option whose name is an argument's is taken for it, or makes the signature ambiguous.
    def test_an_option_is_no_argument(self):
        def options(input, linear_weight, target, *, weight=None, reduction="mean"):
            return input

        def two(input, weight, linear_weight, target):
            return input

        self.assertEqual(signature.read(options).names["weight"], "linear_weight")
        with self.assertRaisesRegex(signature.SignatureError, "weight=weight or weight=linear_weight"):
            signature.read(two)

    # Fails if a refusal by the kernel behind a wrapper is a failure, has no words, or says nothing of the missing GPU.
    def test_a_refusal_of_what_is_wrapped_is_one(self):
        try:
            adapted_torch.wrapper(*[adapted_torch.torch.zeros(2)] * 3)
        except AssertionError as refusal:
            self.assertTrue(errors.is_refusal(refusal, adapted_torch.__file__))
            said = errors.words(refusal, adapted_torch.__file__)
        self.assertIn("assert hidden.is_cuda and weight.is_cuda (in on_a_gpu, other_kernel.py:", said)
        for words in ("expected target dtype to be Long or Byte", "gather(): Expected dtype int64 for index"):
            try:
                raise RuntimeError(words)
            except RuntimeError as lack:
                self.assertTrue(errors.is_refusal(lack, ""), words)
        try:
            adapted_torch.torch.zeros(2).reshape(3)
        except RuntimeError as failure:
            self.assertFalse(errors.is_refusal(failure, other_kernel.__file__))

    # Fails if a failure in code that torch.compile writes, in a file of another name each time, has another word each time.
    def test_a_failure_in_compiled_code_has_one_word(self):
        found = set()
        with tempfile.TemporaryDirectory(prefix="torchinductor_") as folder:
            for name in ("cab", "cde"):
                written = pathlib.Path(folder) / f"{name}.py"
                written.write_text(f"def call():\n    assert False, '{name}'  # {name}\n")
                there = runpy.run_path(str(written))
                try:
                    adapted_torch.calls(there["call"])
                except AssertionError as failure:
                    found.add(errors.failure(failure, adapted_torch.__file__))
        self.assertEqual(len(found), 1, found)
        self.assertTrue(next(iter(found)).startswith("AssertionError@calls."), found)

    # Fails if a name that pickle asks of every module is answered otherwise than by AttributeError.
    def test_a_module_that_pickle_looks_through_has_no_such_name(self):
        self.assertFalse(hasattr(pickled, "torch"))
        with self.assertRaisesRegex(ImportError, "was written by plumbline.fuzz"):
            pickled.mine_0123abcd  # noqa: B018

    # Fails if compiled code is called in a way that it refuses. Each of its variants is compiled for seconds: on a machine
    # with other work a case takes longer than 20 s, and an inference has 192 cases.
    def test_a_compiled_function_is_judged(self):
        status, text, report = fuzz("adapted_torch:compiled", self.out, 3, "--no-infer", "--case-timeout", "5m",
                                    environment=self.environment, timeout=800)
        self.assertEqual(status, 0, text)
        self.assertEqual(report["judged"], 3, text)
        for log in self.out.rglob("*.log"):
            text = log.read_text(errors="replace")
            for words in ("BackendCompilerFailed", "donated buffers", "recompile_limit"):
                self.assertNotIn(words, text)

    # Fails if a function runs uncompiled from the ninth variant on.
    def test_every_variant_is_compiled(self):
        torch, graphs = adapted_torch.torch, []

        def noted(graph, _):
            graphs.append(graph)
            return graph.forward

        function = torch.compile(lambda values: values + 1, backend=noted, dynamic=False)
        compiled.allow()
        for size in range(2, 14):
            function(torch.zeros(size))
        self.assertEqual(len(graphs), 12)

    # Fails if bf16 is multiplied, added or rounded by its bits, or a function of libdevice does nothing.
    def test_the_interpreter_is_complete(self):
        environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(PACKAGE)}
        script = self.out.with_suffix(".py")
        script.write_text(INTERPRETED, encoding="utf-8")
        ran = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)


if __name__ == "__main__":
    unittest.main()
