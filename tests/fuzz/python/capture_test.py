#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plumbline.capture in PyTorch programs: what is recorded, what plumb check says of it, and that a job computes as before."""

import contextlib
import io
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

from support import HERE, PACKAGE, PLUMB

JOBS = HERE / "jobs"
sys.path[:0] = [str(PACKAGE), str(JOBS)]

import plumbline
import torch
import vendored_kernel
from plumbline import dump, stored
from plumbline.capturing import recognise
from plumbline.capturing.settings import SettingsError


class Captures(unittest.TestCase):
    """A folder, jobs that are captured into it, and plumb check of what is there."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.dump = self.path / "d.safetensors"
        torch.manual_seed(1)
        self.hidden, self.weight = (torch.randn(*shape, requires_grad=True) for shape in ((2, 8, 16), (40, 16)))
        self.labels = torch.randint(0, 40, (2, 8))
        self.flat = self.hidden.reshape(16, 16)

    @contextlib.contextmanager
    def capture(self, *functions, **options):
        """The block captured into self.dump; `self.said` is what standard error was told."""
        told = io.StringIO()
        with contextlib.redirect_stderr(told), plumbline.capture(self.dump, *functions, **options) as captured:
            yield captured
        self.said = told.getvalue()

    def check(self, path=None, rows="all", status=0):
        """What plumb check prints of a dump; fails where it ends with another status."""
        ended = subprocess.run([PLUMB, "check", path or self.dump, "--rows", rows, "--arbiter", "1ms"], capture_output=True,
                               text=True, check=False, timeout=120)
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr + getattr(self, "said", ""))
        return ended.stdout

    def run_job(self, *words, settings=None, direct=False, **environment):
        """Standard output and error of a job, captured by the launcher or, `direct`, by variables alone; settings None: off."""
        command = [sys.executable, "-B", *map(str, words)]
        given = {"PYTHONPATH": str(PACKAGE), **environment}
        if settings is not None:
            given["PLUMBLINE_CAPTURE"] = f"dir={self.path},{settings}" if "dir=" not in settings else settings
        if direct:
            given["PYTHONPATH"] = str(PACKAGE / "plumbline" / "capturing" / "site")
        elif settings is not None:
            command = [sys.executable, "-B", "-m", "plumbline.capture", "--", *command]
        ended = subprocess.run(command, cwd=JOBS, env={**os.environ, "OMP_NUM_THREADS": "1", **given}, capture_output=True,
                               text=True, check=False, timeout=300)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout, ended.stderr

    def files(self):
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*.safetensors"))

    def about(self, path=None):
        return json.loads(stored.read_safetensors(path or self.dump)[1]["captured"])


class Block(Captures):
    # Fails if an output, its sign, a reduction, the upstream gradient or a gradient of an honest call is taken for another,
    # or one of them is left out; or if a gradient of another use of hidden gets into that of the call.
    def test_an_honest_call_is_clean_in_every_form(self):
        loss = vendored_kernel.Loss
        forms = {
            "nll": (lambda: vendored_kernel.fused(self.flat, self.weight, self.labels.view(-1), 0.75), "logprob"),
            "apply of the class": (lambda: vendored_kernel.Fused.apply(self.flat, self.weight, self.labels.view(-1)), "logprob"),
            "logprob and entropy": (lambda: vendored_kernel.in_chunks(self.hidden, self.weight, self.labels, 0.5)[0], "entropy"),
            "a loss by its name": (lambda: vendored_kernel.named(self.flat, self.weight, self.labels.view(-1))["nll"], "entropy"),
            "a module's mean": (lambda: loss()(self.weight, self.flat, self.labels.view(-1)), "loss"),
            "a module's sum": (lambda: loss("sum")(self.weight, self.flat, self.labels.view(-1)), "loss"),
        }
        for name, (call, output) in forms.items():
            with self.subTest(name):
                self.dump.unlink(missing_ok=True)
                with self.capture() as captured:
                    (3 * call().sum() + self.hidden.square().sum()).backward()
                self.assertEqual(captured.files, [self.dump], self.said)
                tensors, _ = stored.read_safetensors(self.dump)
                self.assertLess({output, "grad_logprob", "grad_hidden", "grad_weight"}, set(tensors))
                self.check()

    # Fails if both outputs' upstream gradients are not taken, or those that differ from row to row.
    def test_gradients_of_both_outputs_are_of_the_objective(self):
        with self.capture():
            logprob, entropy = vendored_kernel.in_chunks(self.hidden, self.weight, self.labels)
            ramp = torch.arange(16.0).view(2, 8)
            (ramp * logprob - ramp.square() * entropy).sum().backward()
        tensors, _ = stored.read_safetensors(self.dump)
        self.assertEqual(tensors["grad_logprob"].values(), list(range(16)))
        self.assertEqual(tensors["grad_entropy"].values(), [-float(row * row) for row in range(16)])
        self.check()

    # Fails if what a call computes is not what is in the dump, so that a defect of its backward stays unseen.
    def test_a_planted_defect_is_found(self):
        vendored_kernel.DEFECT = "scale"
        try:
            with self.capture():
                vendored_kernel.fused(self.flat, self.weight, self.labels.view(-1)).sum().backward()
        finally:
            vendored_kernel.DEFECT = ""
        self.assertIn("grad_hidden", self.check(status=1).splitlines()[0])

    # Fails if a weight [H, V] is stored as it lies, if autograd's gradient of it is not turned with it, or if a function that
    # nothing recognises is not taken where it is given.
    def test_a_function_that_is_given_is_taken(self):
        def mine(h, w, y):
            return torch.nn.functional.cross_entropy(h @ w, y, reduction="none")

        turned = torch.randn(16, 40, requires_grad=True)
        with self.capture() as captured:
            captured.call(mine, self.flat, turned, self.labels.view(-1)).sum().backward()
        self.assertEqual(stored.read_safetensors(self.dump)[0]["weight"].shape, (40, 16))
        self.check()
        unread = self.assertRaisesRegex(SettingsError, "its parameters are not read as hidden, weight and labels")
        with unread, plumbline.capture(self.dump, lambda a, b: a):
            pass

    # Fails if a call with an option that a dump has no place for is written as one without it, or is refused without
    # its name and its value.
    def test_what_a_dump_cannot_say_is_refused_by_name(self):
        bias = torch.zeros(40)
        for options, given, words in (({"softcap": 30.0}, (), "softcap is 30.0"), ({"label_smoothing": 0.1}, (),
                                       "label_smoothing is 0.1"), ({}, (bias,), r"bias is a tensor \[40\]")):
            with self.capture():
                vendored_kernel.Loss(**options)(self.weight, self.flat, self.labels.view(-1), *given).backward()
            self.assertRegex(self.said, f"Loss.forward is not captured: {words}, and a dump has no place for it")
            self.assertEqual(self.files(), [])

    # Fails if the gradients of an objective with an output that no dump has are taken for those of its logprob.
    def test_gradients_of_another_objective_are_left_out(self):
        for weight, kept in ((0, True), (1, False)):
            with self.capture():
                nll, mean = vendored_kernel.with_more(self.flat, self.weight, self.labels.view(-1))
                (nll.sum() + weight * mean.sum() if weight else nll.sum()).backward()
            self.assertEqual("grad_hidden" in stored.read_safetensors(self.dump)[0], kept)
            self.assertEqual("output 1, which is not known, has one too" in self.said, not kept)
            self.check()

    # Fails if an eager head is not read from the graph of its logits, or one that a dump has no place for is.
    def test_an_eager_head_is_taken_where_it_is_asked_for(self):
        functional = torch.nn.functional
        labels = self.labels.view(-1)
        for call in (lambda: functional.cross_entropy((self.hidden @ self.weight.t()).view(-1, 40), labels),
                     lambda: torch.nn.CrossEntropyLoss(reduction="sum")(self.flat @ self.weight.t() / 0.5, labels)):
            with self.capture(functional.cross_entropy):
                (2 * call() + self.hidden.square().sum()).backward()
            self.assertLess({"loss", "grad_logprob", "grad_hidden", "grad_weight"}, set(stored.read_safetensors(self.dump)[0]))
            self.check()
            self.dump.unlink()
        head = torch.nn.Linear(16, 40)
        with self.capture(functional.cross_entropy):
            functional.cross_entropy(head(self.flat), labels).backward()
        self.assertIn("the head has a bias", self.said)
        with self.capture(functional.cross_entropy):
            functional.cross_entropy(torch.relu(self.flat @ self.weight.t()), labels).backward()
        self.assertEqual(self.files(), [])

    # Fails if labels that a function shifts itself are taken as they were given.
    def test_labels_that_a_function_shifts_are_shifted(self):
        with self.capture():
            vendored_kernel.shifting(self.hidden, self.weight, self.labels).backward()
        self.assertEqual(stored.read_safetensors(self.dump)[0]["labels"].values(), self.labels[:, 1:].reshape(-1).tolist())
        self.check()

    # Fails if what autocast rounds before it multiplies is stored as it was before.
    def test_autocast_reads_what_it_rounds(self):
        with self.capture(), torch.autocast("cpu", torch.bfloat16):
            vendored_kernel.Loss()(self.weight, self.flat, self.labels.view(-1)).backward()
        self.assertEqual(stored.read_safetensors(self.dump)[0]["hidden"].dtype, "BF16")
        self.assertIn("under autocast", self.said)

    # Fails if the second forward of a checkpoint is another call, or the call loses its gradients with it.
    def test_a_checkpointed_call_is_one(self):
        for reentrant in (False, True):
            self.dump.unlink(missing_ok=True)
            with self.capture(calls=None) as captured:
                torch.utils.checkpoint.checkpoint(vendored_kernel.fused, self.flat, self.weight, self.labels.view(-1),
                                                  use_reentrant=reentrant).sum().backward()
            self.assertEqual(captured.files, [self.dump], self.said)
            # A reentrant one records nothing in its first forward: what is there is judged.
            self.assertEqual("grad_hidden" in stored.read_safetensors(self.dump)[0], not reentrant)
            self.check()

    # Fails if a function that takes the same and computes no loss is taken for the call, or takes the place of one.
    def test_a_function_without_a_loss_is_no_call(self):
        labels = self.labels.view(-1)
        with self.capture() as captured:
            self.assertTrue(vendored_kernel.fits(self.flat, self.weight, labels))
            vendored_kernel.fused(self.flat, self.weight, labels).sum().backward()
        self.assertEqual(captured.files, [self.dump])
        self.assertNotIn("is not captured", self.said)

    # Fails if a function stays replaced behind the block, or a block without a call ends in silence.
    def test_the_block_leaves_nothing_behind(self):
        before = vendored_kernel.fused, vendored_kernel.Fused.apply, vendored_kernel.Loss.forward, vendored_kernel.in_chunks
        with self.capture():
            self.assertIsNot(vendored_kernel.in_chunks, before[3])
        after = vendored_kernel.fused, vendored_kernel.Fused.apply, vendored_kernel.Loss.forward, vendored_kernel.in_chunks
        self.assertEqual(before, after)
        self.assertIn(f"{self.dump} was not written: no call of a linear cross-entropy was captured", self.said)

    # Fails if F.cross_entropy or another function of PyTorch, or a function of x, w, y, is taken for a fused kernel.
    def test_other_functions_are_not_recognised(self):
        found = {place.name for place in recognise.places(torch.nn.functional)}
        self.assertLessEqual(found, {"linear_cross_entropy"})


class Job(Captures):
    # Fails if a number of the job has other bits where it is captured, at the chosen step or at another.
    def test_bits_are_the_same_on_and_off(self):
        expected, told = self.run_job("train.py", 3)
        self.assertEqual(told, "")
        for settings in ("step=2", "step=all,calls=all", "step=1+3,rows=16", "step=99", "graph=any,rank=all"):
            self.assertEqual(self.run_job("train.py", 3, settings=settings)[0], expected, settings)

    # Fails if another step, another rank or other rows are taken than asked.
    def test_step_rank_and_rows_are_those_asked(self):
        self.run_job("train.py", settings="step=4,rows=16")
        self.assertEqual(self.files(), ["step4-rank0-call0.safetensors"])
        few = self.path / self.files()[0]
        self.run_job("train.py", settings="step=4")
        whole, chosen = stored.read_safetensors(few)[0], self.about(few)["chosen"]
        self.assertIsNone(chosen)
        self.run_job("train.py", settings="step=4,rows=16")
        part, chosen = stored.read_safetensors(few)[0], self.about(few)["chosen"]
        self.assertEqual((len(chosen), chosen[0], chosen[-1]), (16, 0, 63))
        for name in ("labels", "logprob", "grad_logprob"):
            values = whole[name].values()
            self.assertEqual(part[name].values(), [values[row] for row in chosen], name)
        self.assertNotIn("grad_weight", part)
        self.check(few)
        few.unlink()
        self.run_job("train.py", settings="step=4,rank=1")
        self.assertEqual(self.files(), [])
        self.run_job("train.py", settings="step=4,rank=1", RANK="1")
        self.assertEqual(self.files(), ["step4-rank1-call0.safetensors"])
        (self.path / self.files()[0]).unlink()
        self.run_job("train.py", 2, settings="step=all")
        self.assertEqual(self.files(), [f"step{step}-rank0-call0.safetensors" for step in range(6)])

    # Fails if a weight that is the same is written again, if a call is put together with another weight than its own, or
    # if a weight that changed is taken for the same.
    def test_a_weight_is_written_when_it_changed(self):
        self.run_job("train.py", 3, settings="step=1+2,calls=all")
        self.assertEqual(len(self.files()), 6)
        with_weight = [name for name in self.files() if "weight" in stored.read_safetensors(self.path / name)[0]]
        self.assertEqual(with_weight, ["step1-rank0-call0.safetensors", "step2-rank0-call0.safetensors"])
        for name in self.files():
            joined = self.path / "joined"
            ended = subprocess.run([sys.executable, "-B", "-m", "plumbline.dump", self.path / name, "--out", joined],
                                   env={**os.environ, "PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, check=False)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""))
            self.check(joined)
        first, second = self.path / with_weight[0], self.path / with_weight[1]
        first.write_bytes(second.read_bytes())
        with self.assertRaisesRegex(dump.DumpError, "holds another weight now"):
            dump.load(self.path / "step1-rank0-call1.safetensors")

    # Fails if a step that never came, or a call that autograd does not record, passes in silence.
    def test_what_never_came_is_said(self):
        told = self.run_job("train.py", settings="step=9")[1]
        self.assertIn("plumbline.capture: step 9 never came: 6 calls in 6 steps of an optimizer\n", told)
        self.assertIn(f"nothing was captured in {self.path}", told)
        told = self.run_job("-c", "import torch, vendored_kernel as v; v.fused(torch.ones(2, 3), torch.ones(4, 3), "
                            "torch.tensor([1, 2]))", settings="step=0")[1]
        self.assertIn("nothing was captured: 1 calls, none that autograd records; graph=any takes others", told)

    # Fails if a setting that a process cannot meet, or a failure inside the capture, ends the job, changes its numbers or is
    # said more than once.
    def test_a_failure_of_the_capture_is_one_line(self):
        expected, _ = self.run_job("train.py", 3)
        file = self.path / "file"
        file.write_text("")
        for settings, words in ((f"dir={file}/x", "cannot be written: Not a directory"), ("dir=x,stp=1", "no key 'stp'"),
                                ("step=0,function=vendored_kernel:nothing", "vendored_kernel:nothing: there is none")):
            out, told = self.run_job("train.py", 3, settings=settings, direct=True)
            self.assertEqual(out, expected)
            self.assertEqual(told.count(words), 1, told)
        broken = self.path / "sitecustomize.py"
        broken.write_text("import sys, importlib\n"
                          "def broken(*_): raise RuntimeError('planted')\n"
                          "from _plumbline_capture.capturing import arguments\n"
                          "arguments.copied = broken\n")
        out, told = self.run_job("train.py", 3, settings="step=all,calls=all",
                                 PYTHONPATH=f"{PACKAGE}{os.pathsep}{self.path}")
        self.assertEqual(out, expected)
        self.assertEqual(told.count("planted"), 1, told)

    # Fails if a compiled call is broken out of its graph, or ends with an error, because functions are replaced.
    def test_compiled_calls_are_as_they_were(self):
        script = ("import torch, vendored_kernel as v\n"
                  "w, y = torch.ones(4, 3, requires_grad=True), torch.tensor([1, 2])\n"
                  "for f in (v.fused, v.Fused.apply, v.in_chunks):\n"
                  "    g = lambda h: f(h * 2, w, y)\n"
                  "    h = torch.ones(2, 3, requires_grad=True)\n"
                  "    out = torch.compile(g, fullgraph=True, backend='aot_eager')(h)\n"
                  "    (out if f is not v.in_chunks else out[0]).sum().backward()\n"
                  "    print(h.grad.tolist())\n")
        self.assertEqual(self.run_job("-c", script, settings="graph=any")[0], self.run_job("-c", script)[0])

    # Fails if a head that is whole where the kernel reads it is not taken whole, if a shard lands in another's place, or if a
    # rank's rows are joined with another's outputs.
    def test_sharded_heads(self):
        for how, settings, files in (
            ("fsdp", "step=1", ["step1-rank0-call0.safetensors"]),
            ("gathered", "step=0", ["step0-call0/rank0.safetensors", "step0-call0/rank1.safetensors"]),
            ("parallel", "step=0", ["step0-call0/rank0.safetensors", "step0-call0/rank1.safetensors"]),
        ):
            with self.subTest(how):
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    port = free.getsockname()[1]
                self.run_job("-m", "torch.distributed.run", "--nproc-per-node", 2, "--master-port", port, "sharded.py", how,
                             settings=settings)
                self.assertEqual(self.files(), files)
                path = self.path / files[0]
                for rank in (0, 1) if how == "gathered" else (None,) if how == "parallel" else ():
                    path = self.path / "joined"
                    which = [] if rank is None else ["--rank", str(rank)]
                    ended = subprocess.run([sys.executable, "-B", "-m", "plumbline.dump", self.path / "step0-call0", "--out",
                                            path, *which], env={**os.environ, "PYTHONPATH": str(PACKAGE)},
                                           capture_output=True, text=True, check=False)
                    self.assertEqual((ended.returncode, ended.stderr), (0, ""))
                    self.assertEqual(stored.read_safetensors(path)[0]["weight"].shape, (20, 8))
                    self.check(path)
                self.check(path)
                self.assertEqual("grad_weight" in stored.read_safetensors(path)[0], how != "gathered")
                for name in self.files():
                    (self.path / name).unlink()


if __name__ == "__main__":
    unittest.main()
