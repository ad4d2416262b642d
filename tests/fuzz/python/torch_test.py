# SPDX-License-Identifier: Apache-2.0
"""PyTorch targets in a campaign: honest ones in each form, the checks of the graph, and one misdeed each."""

import pathlib
import sys
import tempfile
import unittest

from support import PACKAGE, fuzz, plumb

sys.path.insert(0, str(PACKAGE))

from plumbline import graph_checks, loading
from plumbline.call import Misfit

# Forms of the honest function, and how many cases each has.
HONEST = {"eager": 1000, "fused": 300, "Fused.apply": 300, "once": 100, "returned": 300, "pair": 300}

# What the first finding of each misdeed says.
FINDINGS = {
    "keep": "kept: an input is still referred to",
    "keep_a_view": "kept: an input is still referred to",
    "write": "hidden: byte +",
    "view": "grad_hidden is a view of the input hidden",
    "wide": "entropy is torch.float64 where fp32 is required",
    "meta": "entropy is on meta where the inputs are on cpu",
    "default_dtype": "torch.get_default_dtype() was torch.float32 and is torch.float64",
    "deterministic_mode": "torch.are_deterministic_algorithms_enabled() was False and is True",
    "grad_mode": "torch.is_grad_enabled() was True and is False",
    "inference_mode": "a global mode was left changed",
    "unwritten": "unwritten:entropy",
    "numpy": "entropy is a numpy.ndarray, not a torch.Tensor",
    "no_graph": "no output carries a graph",
    "no_weight": "no gradient reaches weight",
    "sums_whatever_is_asked": "logprob has shape [] where [",
    "spoils_what_it_saved": "a second backward on the same graph returns another gradient: element ",
    "spoils_what_it_gave": "after a second backward has run, what the first one returned is another: element ",
    "wrong_where_hidden_is_frozen": "a gradient is another where one input alone needs one: element ",
    "another_path_without_grad": "forward under no_grad returns another value than with a graph: element ",
    "half_a_pair": "backward of a pair returns (grad_hidden, grad_weight)",
}


class Torch(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.out = pathlib.Path(self._folder.name) / "out"

    # Fails if a form is called or differentiated wrongly, or an honest function gets a finding.
    def test_honest_functions_have_no_finding(self):
        for name, cases in HONEST.items():
            with self.subTest(name):
                status, text, report = fuzz(f"honest_torch:{name}", self.out.with_name(name), cases)
                self.assertEqual(status, 0, text)
                self.assertGreaterEqual(report["judged"], cases * 9 // 10, text)

    # Fails if the contract of PyTorch's eager functions forgets that columns fewer than the lanes of a vector are added
    # one after another: 14 additions of 15 columns with AVX-512, each of them rounded the same way here.
    def test_sums_of_few_columns_are_within_the_contract(self):
        name = "honest_torch:eager"
        recipe = (
            "v1 regime=temperatures seed=720787bd6014e08c dtype=fp32 n=114 v=15 h=7 values=confident exp=8 labels=random "
            "label_dtype=int32 grads=random entropy_grads=none reduction=none temperature=0x1.000002p+0 "
            "temperature_per_row=0 layout=vocab-major pad=0 grad_stride=1 fp32_grads=0"
        )
        status, text, report = plumb("fuzz", "--target", f"python:{name}", "--recipe", recipe, "--out", self.out)
        self.assertEqual((status, report["judged"]), (0, 1), text)

    # Fails if a misdeed, or a defect that only a further check of the graph sees, is no finding or has other words.
    def test_each_misdeed_has_its_words(self):
        for name, words in FINDINGS.items():
            with self.subTest(name):
                status, text, _ = fuzz(f"misbehaving_torch:{name}", self.out.with_name(name), 40, "--stop-after", 1, "--no-infer")
                self.assertEqual(status, 1, text)
                self.assertIn(words, text)

    # Fails if bits that differ as they do from call to call are a misfit, also beside a NaN of both; if a larger difference is
    # none, or many small elements that are lost beside a large one that varies; if another sign of 0 is excused by nothing; if the
    # words name another element than the one that differs most; or if another shape or dtype is no misfit.
    def test_what_differs_from_call_to_call(self):
        import torch

        nan = torch.nan
        first, next_to_it, far = (torch.tensor([1.0, value, 0.0, nan]) for value in (2.0, 2.25, 3.5))
        calls = []

        def repeat():
            calls.append(len(calls))
            return next_to_it if len(calls) % 3 == 0 else first

        graph_checks.require_same("again", "grad_hidden", first, torch.tensor([1.0, 1.5, 0.0, nan]), repeat)
        self.assertEqual(len(calls), 3)
        many = torch.cat([torch.tensor([4.0]), torch.full((99,), 0.5)])
        lost, varies = many.clone(), many.clone()
        lost[1:], varies[0] = 0, 4.25
        for before, other, again, element in (
            (first, far, repeat, 1), (first, next_to_it, lambda: first, 1), (first, next_to_it, None, 1),
            (first, torch.tensor([1.0, 2.0, -0.0, nan]), lambda: first, 2),
            (first, torch.tensor([1.0000001, nan, 0.0, nan]), repeat, 1), (many, lost, lambda: varies, 1),
        ):  # fmt: skip
            with self.assertRaises(Misfit) as caught:
                graph_checks.require_same("again", "grad_hidden", before, other, again)
            self.assertEqual(graph_checks.said(str(caught.exception)), ("again", "grad_hidden"))
            self.assertIn(f"element {element} of", str(caught.exception))
        graph_checks.require_same("again", "grad_hidden", first, first.clone(), None)
        for other, words in ((first[:2], "shape of lse is [2], and [4] before"), (first.half(), "dtype of lse is torch.float16")):
            with self.assertRaises(Misfit) as caught:
                graph_checks.require_same("no_grad", "lse", first, other)
            self.assertIn(words, str(caught.exception))
            self.assertEqual(graph_checks.said(str(caught.exception)), ("no_grad", "lse"))

    # Fails if a function that calls the operator of this package, and imports nothing else, is given NumPy's arrays.
    def test_a_wrapper_of_the_operator_has_tensors(self):
        known = {}
        exec("from plumbline.torch import linear_cross_entropy as lce\ndef wrapper(*given): return lce(*given)[0]", known)  # noqa: S102
        self.assertEqual(loading.framework_of(known["wrapper"]), "torch")

    # Fails if a negative stride reaches PyTorch, whose importer ends the process, because a function declares it.
    def test_negative_strides_never_reach_torch(self):
        name = "misbehaving_torch:declares_negative_strides"
        status, text, report = plumb("targets", f"python:{name}")
        self.assertEqual(status, 0, text)
        self.assertIs(report["description"]["capabilities"]["negative_strides"], False)
        status, text, _ = fuzz(name, self.out, 300)
        self.assertEqual(status, 0, text)

    # Fails if a loss is taken for a log-probability, or a refusal of int32 labels for a defect.
    def test_an_undeclared_function_is_tried(self):
        environment = {"XDG_CACHE_HOME": self._folder.name}
        status, text, report = plumb("targets", "python:misbehaving_torch:cross_entropy", environment=environment)
        self.assertEqual(status, 0, text)
        self.assertIn("returns=('nll',)", text)
        self.assertEqual(report["description"]["capabilities"]["label_dtypes"], ["int64"])

    # Fails if a function that fails where nothing needs a gradient cannot be tried, which would hide that it fails.
    def test_a_function_that_fails_without_a_graph_is_tried_with_one(self):
        environment = {"XDG_CACHE_HOME": self._folder.name}
        name = "misbehaving_torch:fails_without_a_graph"
        status, text, _ = fuzz(name, self.out, 60, "--stop-after", 1, environment=environment)
        self.assertEqual(status, 1, text)
        self.assertIn("UnboundLocalError", text)

    # Fails if a wrapper is given arrays of NumPy because its own module does not import PyTorch.
    def test_a_wrapper_need_not_import_the_library(self):
        environment = {"XDG_CACHE_HOME": self._folder.name}
        status, text, report = plumb("targets", "python:thin:of_torch", environment=environment)
        self.assertEqual(status, 0, text)
        self.assertIn("framework='torch'", text)
        self.assertNotIn("grad_hidden", report["description"]["capabilities"])

    # Fails if a graph that reaches one input alone is no finding of a function that declares nothing; if it is one of a
    # function that declares its head frozen, or that declaration leaves the rest untried; or if outputs without any graph,
    # which a function that scores has, are a finding.
    def test_a_gradient_that_is_dropped_is_a_finding_unless_declared(self):
        environment = {"XDG_CACHE_HOME": self._folder.name}
        dropped = "no gradient reaches weight; where none is meant to, declare grad_weight=False"
        _, text, _ = plumb("targets", "python:misbehaving_torch:detaches_the_head", environment=environment)
        self.assertIn(f"# grad_weight=True: wrong, and cases of it are drawn: {dropped}", text)
        for name, status, words, given in (
            ("detaches_the_head", 1, f"the target failed: {dropped}", True),
            ("frozen_head", 0, "", True),
            ("without_a_graph", 0, "grad_weight, which is not judged: grad_weight asked for, and no output", False),
        ):
            with self.subTest(name):
                out = self.out.with_name(name)
                ended, text, report = fuzz(f"misbehaving_torch:{name}", out, 60, "--stop-after", 1, environment=environment)
                self.assertEqual(ended, status, text)
                self.assertIn(words, text)
                self.assertEqual("grad_hidden=" in text, given and status == 0, text)
                if status == 0:
                    self.assertGreaterEqual(report["judged"], 50, text)


if __name__ == "__main__":
    unittest.main()
