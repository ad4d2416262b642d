#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fuzz, gate, replay and check, called from Python."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest
import unittest.mock

from support import PACKAGE, TARGETS

sys.path[:0] = [str(PACKAGE), str(TARGETS)]

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed") from None

import honest_numpy
import plumbline
import wrong_numpy
from plumbline import api, findings, naming, stored

SHORT = {"seed": 1, "jobs": 1, "options": ["--shrink-tries", "60"]}


class Scripts(unittest.TestCase):
    # Fails if a script that hunts its own function without asking for __main__ starts itself again in every worker.
    def test_a_script_that_hunts_when_it_is_imported_is_refused(self):
        script = textwrap.dedent("""
            import sys
            import plumbline

            def f(hidden, weight, labels):
                return hidden[:, 0]

            try:
                plumbline.fuzz(f, "5cases", jobs=1, out="out")
            except plumbline.PlumbError as error:
                sys.exit(str(error))
        """)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "hunts_itself.py"
            path.write_text(script)
            environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "XDG_CACHE_HOME": folder}
            ended = subprocess.run(
                [sys.executable, path], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
            )
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertIn("put it under `if __name__ == \"__main__\":`", ended.stderr)


class Hunts(unittest.TestCase):
    """One campaign on a planted defect, looked at in several ways."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.campaign = api.fuzz(
            wrong_numpy.tail, "100cases", seed=1, jobs=1, out=cls.folder / "out", options=["--shrink-tries", "200"]
        )

    # Fails if the verdict, a finding's place, its numbers or its explanation are not those that plumb prints.
    def test_a_finding_holds_what_plumb_says(self):
        self.assertEqual((self.campaign.verdict, self.campaign.status), ("findings", 1))
        found = next(f for f in (*self.campaign.findings, *self.campaign.parts) if f.signature == "bound:logprob")
        self.assertEqual((found.kind, found.output, found.target), ("bound", "logprob", "python:wrong_numpy:tail@tensor-core-fp32"))
        self.assertAlmostEqual(found.got - found.expected, 0.1, 5)
        self.assertLess(found.bound, 0.01)
        self.assertTrue(any("V mod 8 is 1" in line for line in found.explanation), found.explanation)
        rows, vocab, hidden = found.case().shape
        self.assertEqual((rows, vocab % 8), (1, 1))
        self.assertEqual(found.case().tensors["hidden"].array().shape, (rows, hidden))

    # Fails if the script or the report of a stored finding is missing, or is no Python.
    def test_scripts_and_reports_lie_beside_the_cases(self):
        for found in self.campaign.findings:
            compile(found.case_path.with_suffix(".repro.py").read_text(), "script", "exec")
            self.assertIn("```python", found.case_path.with_suffix(".md").read_text())

    # Fails if a campaign with findings raises nothing, or its text leaves out what is wrong.
    def test_raise_if_wrong_says_what_is_wrong(self):
        with self.assertRaisesRegex(findings.FindingsError, r"bound:logprob: logprob\[") as caught:
            self.campaign.raise_if_wrong()
        self.assertIs(caught.exception.campaign, self.campaign)
        self.assertIsInstance(caught.exception, AssertionError)

    # Fails if a folder is read as something else than what fuzz() returned.
    def test_a_folder_gives_the_same_findings(self):
        again = findings.read_campaign(self.campaign.folder)
        self.assertEqual(again.findings, self.campaign.findings)
        self.assertEqual((again.cases, again.judged, again.verdict), (
            self.campaign.cases, self.campaign.judged, self.campaign.verdict))  # fmt: skip
        alone = findings.read_finding(self.campaign.findings[0].case_path)
        self.assertEqual(alone.what, self.campaign.findings[0].what)
        self.assertEqual(alone.explanation, self.campaign.findings[0].explanation)

    # Fails if a case is replayed on another function than the one given, or its outcome is lost.
    def test_replay_tells_the_wrong_function_from_the_right_one(self):
        paths = [found.case_path for found in self.campaign.findings]
        wrong, right = api.replay(wrong_numpy.tail, paths), api.replay("honest_numpy:linear_cross_entropy", paths)
        self.assertEqual([r.outcome for r in wrong], ["still fails"] * len(paths))
        self.assertEqual([(r.outcome, r.fails) for r in right], [("passes", False)] * len(paths))
        self.assertEqual([r.file for r in wrong], paths)

    # Fails if what known= accepts counts as wrong.
    def test_accepted_findings_are_clean(self):
        known = self.folder / "known.json"
        stated = {"reason": "planted", "link": "https://example.org/1", "date": "2025-01-31"}
        signatures = [s for found in self.campaign.findings for s in (found.signature, *found.also)]
        known.write_text(json.dumps({"known": [{"signature": s} | stated for s in signatures]}))
        campaign = api.fuzz(wrong_numpy.tail, "100cases", out=self.folder / "known", known=known, **SHORT)
        self.assertEqual(campaign.verdict, "clean", campaign.text())
        self.assertEqual(campaign.wrong, ())
        self.assertTrue(all(found.known for found in campaign.findings))
        campaign.raise_if_wrong()


class Undeclared(unittest.TestCase):
    """A function that declares no contract, and rounds its logits."""

    # Fails if nothing is inferred where no option asks for it, or a shortcut does not decide the verdict.
    def test_what_it_rounds_is_inferred_and_counts_until_it_is_declared(self):
        with tempfile.TemporaryDirectory() as folder:
            campaign = api.fuzz(wrong_numpy.logits_fp16, "30cases", out=f"{folder}/out", **SHORT)
            self.assertEqual([each.declares for each in campaign.shortcuts], ["logits=fp16"], campaign.summary)
            self.assertEqual((campaign.verdict, campaign.findings), ("findings", ()), campaign.summary)
            self.assertIn("logits=fp16 declares it", campaign.text())
            allowed = api.fuzz(wrong_numpy.logits_fp16, "30cases", out=f"{folder}/allowed", **(
                SHORT | {"options": [*SHORT["options"], "--allow-shortcuts"]}))
            self.assertEqual(allowed.verdict, "clean", allowed.summary)

    # Fails if a target that never answers is waited for longer than its one case, and for its hunt.
    def test_one_that_hangs_is_not_inferred(self):
        with tempfile.TemporaryDirectory() as folder:
            campaign = api.fuzz("misbehaving:hang", "1cases", out=f"{folder}/out", **(
                SHORT | {"options": [*SHORT["options"], "--case-timeout", "1s", "--palette", "0"]}))
        self.assertIn("nothing was inferred: no answer within 1000 ms", campaign.summary)


class Names(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    # Fails if a function of the script that is run is not found, or what the script guards is run again.
    def test_functions_of_a_script(self):
        for name in ("job.py", "my job.v2"):
            path = self.folder / name
            path.write_text(textwrap.dedent(f"""
                import sys
                sys.path[:0] = [{str(PACKAGE)!r}, {str(TARGETS)!r}]
                import plumbline, wrong_numpy
                from plumbline import api

                def mine(hidden, weight, labels, temperature=1.0):
                    return wrong_numpy.tail(hidden, weight, labels, temperature)

                plumbline.target(mine, framework="numpy", form="forward", **wrong_numpy.CAPABILITIES)
                if __name__ == "__main__":
                    out = sys.argv[1]
                    campaign = api.fuzz(mine, "15cases", out=out, seed=1, jobs=1, options=["--shrink-tries", "1"])
                    print(campaign.verdict, campaign.findings[0].target)
            """))
            out = self.folder / (name + ".out")
            ended = subprocess.run(
                [sys.executable, path, out], capture_output=True, text=True, check=False, cwd=self.folder
            )
            self.assertEqual(ended.stdout.split()[:1], ["findings"], ended.stderr)
            target = "python:job:mine" if name == "job.py" else "python:plumbline.pickled:mine_"
            self.assertIn(target, ended.stdout)

    # Fails if a declaration that another module than the function's makes does not reach the worker.
    def test_a_function_declared_elsewhere(self):
        plain = self.folder / "plain_kernel.py"
        plain.write_text("import numpy as np\ndef f(h, w, y):\n    return np.zeros(len(y), np.float32)\n")
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        import plain_kernel

        capabilities = wrong_numpy.CAPABILITIES | {"temperature": "none"}
        plumbline.target(plain_kernel.f, framework="numpy", form="forward", returns="logprob", **capabilities)
        campaign = api.fuzz(plain_kernel.f, "20cases", out=self.folder / "out", **SHORT)
        self.assertEqual(campaign.verdict, "findings", campaign.text())
        self.assertEqual(naming.place_of(plain_kernel.f), naming.Place("plain_kernel", "f", str(plain)))
        self.assertIn("from plain_kernel import f as kernel", campaign.findings[0].repro())

    # Fails if a function without a name is refused without saying what to do, or is not found by the worker.
    def test_a_function_without_a_name(self):
        offset = 0.1
        local = plumbline.target(
            lambda hidden, weight, labels, temperature=1.0: {
                name: value + np.float32(offset)
                for name, value in wrong_numpy.right(hidden, weight, labels, temperature).items()
            },
            framework="numpy", form="forward", **wrong_numpy.CAPABILITIES,
        )  # fmt: skip
        if importlib.util.find_spec("cloudpickle") is None:
            with self.assertRaisesRegex(TypeError, "<lambda> has no name .* install cloudpickle"):
                api.fuzz(local, "20cases", out=self.folder / "out", **SHORT)
            return
        campaign = api.fuzz(local, "20cases", out=self.folder / "out", **SHORT)
        self.assertEqual(campaign.verdict, "findings", campaign.text())
        self.assertTrue(campaign.findings[0].target.startswith("python:plumbline.pickled:"))
        self.assertIn("put the function into this script", campaign.findings[0].repro())

    # Fails if a name is made for what other processes would find under it as something else.
    def test_places(self):
        self.assertEqual(naming.place_of(wrong_numpy.tail).module, "wrong_numpy")
        self.assertIsNone(naming.place_of(lambda: None))
        pair = (wrong_numpy.tail, wrong_numpy.right)
        self.assertIsNone(naming.place_of(pair))
        wrong_numpy.a_pair = pair
        self.addCleanup(delattr, wrong_numpy, "a_pair")
        self.assertEqual(naming.place_of(pair).qualname, "a_pair")


class Refusals(unittest.TestCase):
    # Fails if a bad argument is accepted, or the error does not name it and its value.
    def test_bad_arguments_are_named_with_their_values(self):
        with tempfile.TemporaryDirectory() as scratch:
            out = pathlib.Path(scratch) / "out"
            for words, error, options in (
                (r"budget is \[\]", ValueError, {"budget": []}),
                ("budget is 0", ValueError, {"budget": 0}),
                (r"--budget: '3x'", findings.PlumbError, {"budget": "3x"}),
                (r"seed is \(\)", ValueError, {"seed": ()}),
                ("jobs is True", ValueError, {"jobs": True}),
                ("there is no regime 'nope'", findings.PlumbError, {"regime": "nope"}),
                ("--contract: 'nope' is unknown", findings.PlumbError, {"contract": "nope"}),
                ("options is '--blind'", ValueError, {"options": "--blind"}),
            ):
                with self.subTest(words), self.assertRaisesRegex(error, words):
                    api.fuzz(wrong_numpy.tail, **({"budget": "1cases", "out": out} | options))
            with self.assertRaisesRegex(TypeError, "function is 7: neither"):
                api.fuzz(7, "1cases", out=out)
            with self.assertRaisesRegex(findings.PlumbError, "No module named 'no_such_module'") as caught:
                api.fuzz("no_such_module:f", "1cases", out=out)
            self.assertEqual(caught.exception.status, 4)
            with self.assertRaisesRegex(ValueError, "path is 'nowhere'"):
                api.replay(wrong_numpy.tail, "nowhere")

    # Fails if a file that is no case is read as one, or a damaged one.
    def test_files_that_are_no_cases(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "x.safetensors"
            for content in (b"", b"12345678", b"\x02" + bytes(7) + b"[]", b"\x02" + bytes(7) + b"{}"):
                path.write_bytes(content)
                with self.subTest(content), self.assertRaisesRegex(stored.FormatError, "x.safetensors"):
                    stored.read_case(path)
            tensor = stored.Tensor("F32", (2,), bytes(8))
            stored.write_safetensors(path, {"a": tensor}, {"k": "v"})
            self.assertEqual(stored.read_safetensors(path), ({"a": tensor}, {"k": "v"}))
            path.write_bytes(path.read_bytes()[:-1])
            with self.assertRaisesRegex(stored.FormatError, "tensor 'a'"):
                stored.read_safetensors(path)




class Checks(unittest.TestCase):
    def setUp(self):
        self.inputs = {
            "hidden": np.ones((2, 3), np.float32), "weight": np.eye(3, dtype=np.float32), "labels": np.array([0, 1])
        }  # fmt: skip
        self.logprob = np.full(2, -np.log(3), np.float32)

    # Fails if right outputs are called wrong, or wrong ones right, or the worst element is another one.
    def test_outputs_are_judged(self):
        self.assertEqual(api.check(self.inputs, {"logprob": self.logprob}).verdict, "clean")
        wrong = api.check(self.inputs, {"logprob": self.logprob + np.float32([0, 0.5])}, "fp32", rows="all")
        self.assertEqual((wrong.verdict, wrong.wrong_rows), ("findings", (1,)))
        self.assertEqual((wrong.findings[0].row, wrong.findings[0].signature), (1, "bound:logprob"))
        with self.assertRaisesRegex(findings.FindingsError, "WRONG: logprob"):
            wrong.raise_if_wrong()
        by_keys = api.check(self.inputs, {"logprob": self.logprob}, {"accumulate": "fp32"})
        self.assertIn("clean", by_keys.verdict)

    # Fails if an option of the call is lost on its way: the ignored row's, the reduction's, the temperature.
    def test_options_reach_the_judge(self):
        ignored = self.inputs | {"ignore_index": np.int64(1), "labels": np.array([0, 1], np.int32)}
        found = api.check(ignored, {"logprob": np.array([-np.log(3), 0], np.float32)}, rows="all")
        self.assertEqual(found.verdict, "clean", found.text)
        mean = self.inputs | {"reduction": "mean", "temperature": 2.0, "grad_logprob": 1.0}
        found = api.check(mean, {"loss": float(np.float32(np.log(3)))}, rows="all")
        self.assertEqual(found.verdict, "clean", found.text)

    # Fails if bf16 or a tensor that is no dense array changes on its way.
    def test_torch_tensors(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("torch is not installed")
        import torch

        hidden = torch.ones(3, 2, dtype=torch.bfloat16, requires_grad=True).T
        inputs = {"hidden": hidden, "weight": torch.eye(3, dtype=torch.bfloat16), "labels": torch.tensor([0, 1])}
        self.assertEqual(api.check(inputs, {"logprob": torch.full((2,), -1.0986123)}).verdict, "clean")

    # Fails if what cannot be judged is passed on, or the error does not name it.
    def test_bad_tensors_are_named(self):
        outputs = {"logprob": self.logprob}
        for words, inputs, judged in (
            (r"inputs\['hidden'\] is float64", {"hidden": np.ones((2, 3))}, outputs),
            (r"inputs\['labels'\] is float32", {"labels": np.ones(2, np.float32)}, outputs),
            (r"inputs\['weight'\] has shape \[3\]", {"weight": np.ones(3, np.float32)}, outputs),
            ("inputs lacks labels", {"labels": None}, outputs),
            ("inputs has 'x'", {"x": 1}, outputs),
            (r"inputs\['reduction'\] is 'avg'", {"reduction": "avg"}, outputs),
            (r"inputs\['ignore_index'\] is 0.5", {"ignore_index": 0.5}, outputs),
            ("outputs has 'logprobs'", {}, {"logprobs": self.logprob}),
            ("outputs is empty", {}, {}),
        ):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                api.check(self.inputs | inputs, judged)


class Declarations(unittest.TestCase):
    # Fails if a word that no capability has is declared, if a value would replace another before it is judged, or if the error
    # does not name the argument and its value.
    def test_bad_words_are_named(self):
        for words, capabilities in (
            ("there is no capability 'dtype'", {"dtype": ("bf16",)}),
            ("weight_layouts is 'vocab-major': none of vocab_major, hidden_major", {"weight_layouts": ("vocab-major",)}),
            ("dtypes is 'fp64'", {"dtypes": ("bf16", "fp64")}),
            ("reductions is 'avg'", {"reductions": "avg"}),
            ("dtypes is 5: it must be", {"dtypes": 5}),
            (r"returns is \('nll', 'nll'\): it names more than one of", {"returns": ("nll", "nll")}),
            (r"returns is \['logprob', 'loss'\]: it names more than one of", {"returns": ["logprob", "loss"]}),
            (r"returns is \('nll', 'lse', 'lse'\): it names lse more than once", {"returns": ("nll", "lse", "lse")}),
            ("returns is 5: it must be", {"returns": 5}),
            ("arguments is 3: it must be", {"arguments": 3}),
            ("outputs is 3: it must be", {"outputs": 3}),
            ("contract is 5: it must be", {"contract": 5}),
        ):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                plumbline.target(lambda hidden: hidden, **capabilities)
        declared = plumbline.target(lambda hidden: hidden, returns=("nll", None, None, "lse")).__plumbline__
        self.assertEqual(declared.returns, ("nll", None, None, "lse"))

    # Fails if an adapter declares such a word; its kernel's package is not there.
    def test_adapters_that_declare(self):
        functions = types.ModuleType("quack.linear_cross_entropy")
        functions.chunked_linear_cross_entropy = functions.scaled_exp_linear_cross_entropy = None
        stubs = {"torch": types.SimpleNamespace(Tensor=object), "quack": types.ModuleType("quack"), functions.__name__: functions}
        with unittest.mock.patch.dict(sys.modules, stubs):
            path = pathlib.Path(__file__).resolve().parents[3] / "bench/store/adapted/quack_functions.py"
            spec = importlib.util.spec_from_file_location("quack_functions", path)
            adapted = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(adapted)
        self.assertTrue(hasattr(adapted.chunked, "__plumbline__") and hasattr(adapted.scaled, "__plumbline__"))


class Gates(unittest.TestCase):
    # Fails if a right function does not pass its gate, or two gates have other cases.
    def test_an_honest_function_passes(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(folder)  # a gate takes the stored cases of the current folder
            campaign = api.assert_linear_cross_entropy(honest_numpy.linear_cross_entropy, 60, out=folder / "a", jobs=1)
            self.assertEqual((campaign.verdict, campaign.cases), ("clean", 60))
            again = api.gate("honest_numpy:linear_cross_entropy", 60, out=folder / "b", jobs=2)
            self.assertEqual((again.cases, again.judged), (campaign.cases, campaign.judged))


if __name__ == "__main__":
    unittest.main()
