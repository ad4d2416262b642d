#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a training job saved, made a dump that plumb check judges."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE

sys.path[:0] = [str(PACKAGE)]

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed") from None

from plumbline import dump, library, stored


def job(batch: int = 2, length: int = 6, vocabulary: int = 40, size: int = 16) -> dict[str, np.ndarray]:
    """The arrays of one step, by names and in shapes of a trainer."""
    random = np.random.default_rng(1)
    hidden = random.standard_normal((batch, length, size)).astype(np.float32)
    weight = random.standard_normal((vocabulary, size)).astype(np.float32)
    target = random.integers(0, vocabulary, (batch, length))
    logits = hidden.astype(np.float64) @ weight.astype(np.float64).T
    shifted = logits - logits.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    loss = -np.take_along_axis(logs, target[..., None], -1)[..., 0]
    entropy = -(np.exp(logs) * logs).sum(-1)
    return {
        "hidden_states": hidden,
        "model.lm_head.weight": weight,
        "target": target,
        "loss": loss,
        "entropy": entropy,
        "step": np.int64(7),
    }


class Jobs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def command(self, *words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = dump.main([str(word) for word in words])
        return status, out.getvalue(), err.getvalue()

    def check(self, path: pathlib.Path) -> subprocess.CompletedProcess:
        words = [library.program(), "check", "--rows", "all", path]
        return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=dict(os.environ))

    # Fails if a batch is not flattened, if a name of a framework or a loss of each row is not taken, if fp64 is
    # refused or converted wrongly, or if what was left out is not named.
    def test_an_npz_of_a_trainer_is_judged(self):
        file = self.path / "step.npz"
        np.savez(file, **job())
        status, out, err = self.command(file, "--out", self.path / "d.safetensors")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("hidden       [12, 16] fp32 from hidden_states\n", out)
        self.assertIn("weight       [40, 16] fp32 from model.lm_head.weight\n", out)
        self.assertIn("labels       [12] int64 from target\n", out)
        self.assertIn("logprob      is -loss of each row", out)
        self.assertIn("left out: step: --name NAME=ROLE takes them in\n", out)
        ended = self.check(self.path / "d.safetensors")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("nothing wrong in 24 elements of logprob, entropy\n", ended.stdout)

    # Fails if rows of one array are judged by those of another: flattening must keep their order.
    def test_a_row_that_is_wrong_is_the_one_that_is_named(self):
        arrays = job()
        arrays["entropy"][1, 2] += 0.5
        np.savez(self.path / "step.npz", **arrays)
        self.command(self.path / "step.npz", "--out", self.path / "d.safetensors")
        ended = self.check(self.path / "d.safetensors")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("wrong: entropy[8] = ", ended.stdout)

    # Fails if rows of a padded vocabulary take part in the softmax, or if a number beyond it is taken.
    def test_a_padded_vocabulary_is_masked(self):
        arrays = job()
        padding = np.full((8, 16), 3, np.float32)
        arrays["model.lm_head.weight"] = np.concatenate([arrays["model.lm_head.weight"], padding])
        np.savez(self.path / "step.npz", **arrays)
        words = (self.path / "step.npz", "--out", self.path / "d.safetensors", "--vocabulary")
        status, out, _ = self.command(*words, "40")
        self.assertEqual(status, 0)
        self.assertIn("weight       rows from 40 on are padding (vocabulary_size)\n", out)
        self.assertEqual(self.check(self.path / "d.safetensors").returncode, 0)
        # The job's own name of it, as a number or as an array of one.
        for size in (np.int64(40), np.array([40])):
            np.savez(self.path / "step.npz", **arrays, vocab_size=size)
            self.assertEqual(self.command(*words[:3])[0], 0)
            self.assertEqual(stored.read_safetensors(self.path / "d.safetensors")[1], {"reduction": "none", "vocabulary_size": "40"})
        np.savez(self.path / "step.npz", **arrays, vocab_size=np.array([40, 41]))
        self.assertIn("vocab_size is array([40, 41]), not an integer", self.command(*words[:3])[2])
        np.savez(self.path / "step.npz", **arrays)
        status, _, err = self.command(*words, "49")
        self.assertEqual((status, err), (2, "plumbline.dump: --vocabulary 49: weight has 48 rows\n"))

    # Fails if a name that nothing tells, or that two arrays may have, is guessed.
    def test_what_cannot_be_told_is_asked(self):
        arrays = job()
        arrays["weird"] = arrays.pop("target")
        np.savez(self.path / "step.npz", **arrays)
        status, _, err = self.command(self.path / "step.npz")
        self.assertEqual(status, 2)
        self.assertIn("no array is labels; there are entropy, hidden_states, loss, ", err)
        self.assertIn("say which by --name NAME=labels", err)
        words = (self.path / "step.npz", "--out", self.path / "d.safetensors")
        self.assertEqual(self.command(*words, "--name", "weird=labels")[0], 0)
        self.assertIn("no tensor of a dump", self.command(*words, "--name", "weird=label")[2])
        arrays["labels"] = arrays["weird"]
        arrays["targets"] = arrays.pop("weird")
        np.savez(self.path / "step.npz", **arrays)
        status, _, err = self.command(*words)
        self.assertEqual(status, 2)
        self.assertIn("may both be labels", err)
        self.assertEqual(self.command(*words, "--name", "targets=labels")[0], 0)

    # Fails if a number that fp32 does not hold ends in a traceback, or if the file may be its own dump.
    def test_what_fp32_does_not_hold_is_infinite(self):
        arrays = job()
        arrays["entropy"][0, 0] = 1e300
        np.savez(self.path / "step.npz", **arrays)
        self.assertEqual(self.command(self.path / "step.npz", "--out", self.path / "d.safetensors")[0], 0)
        self.assertEqual(stored.read_safetensors(self.path / "d.safetensors")[0]["entropy"].values()[0], float("inf"))
        before = (self.path / "d.safetensors").read_bytes()
        status, _, err = self.command(self.path / "d.safetensors", "--out", self.path / "d.safetensors")
        self.assertEqual(status, 2)
        self.assertIn("d.safetensors: that is the file itself", err)
        self.assertEqual((self.path / "d.safetensors").read_bytes(), before)

    # Fails if a framework's name of another engine's logprobs is not told, or is taken for the kernel's own.
    def test_logprobs_of_other_engines(self):
        for names in (("rollout_log_probs", "old_log_probs"), ("sampling_per_token_logps", "old_per_token_logps"),
                      ("generation_logprobs", "prev_logprobs")):
            arrays = job()
            for name in names:
                arrays[name] = -arrays["loss"]
            np.savez(self.path / "step.npz", **arrays)
            status, out, err = self.command(self.path / "step.npz", "--out", self.path / "d.safetensors")
            self.assertEqual(status, 0, err)
            self.assertIn(f"rollout_logprob [12] fp32 from {names[0]}\n", out)
            self.assertIn(f"old_logprob  [12] fp32 from {names[1]}\n", out)
            self.assertIn("rollout: old_logprob: log-ratio", self.check(self.path / "d.safetensors").stdout)

    # Fails if inputs are rounded that the kernel read in another dtype.
    def test_inputs_are_never_converted(self):
        arrays = job()
        arrays["hidden_states"] = arrays["hidden_states"].astype(np.float64)
        np.savez(self.path / "step.npz", **arrays)
        status, _, err = self.command(self.path / "step.npz")
        self.assertEqual(status, 2)
        self.assertIn("hidden_states is float64, where hidden takes bf16, fp16, fp32", err)

    # Fails if a file that is none of these ends in a traceback.
    def test_a_file_of_another_kind_is_refused(self):
        for name, content in (("a.npz", b"PK\3\4nothing"), ("b.safetensors", b"text"), ("c.npz", b"")):
            (self.path / name).write_bytes(content)
            status, out, err = self.command(self.path / name)
            self.assertEqual((status, out), (2, ""), err)
            self.assertTrue(err.startswith(f"plumbline.dump: {self.path / name}: "), err)

    # Fails if bf16 loses bits on its way through torch.save.
    def test_a_file_of_torch_keeps_its_bits(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        arrays = {name: torch.as_tensor(value) for name, value in job().items()}
        for name in ("hidden_states", "model.lm_head.weight"):
            arrays[name] = arrays[name].bfloat16()
        del arrays["loss"], arrays["entropy"]
        torch.save({**arrays, "ignore_index": -1}, self.path / "step.pt")
        status, _, err = self.command(self.path / "step.pt", "--out", self.path / "d.safetensors")
        self.assertEqual((status, err), (0, ""))
        tensors, metadata = stored.read_safetensors(self.path / "d.safetensors")
        self.assertEqual(tensors["hidden"].dtype, "BF16")
        expected = arrays["hidden_states"].view(torch.int16).numpy().tobytes()
        self.assertEqual(tensors["hidden"].data, expected)
        self.assertEqual(metadata, {"ignore_index": "-1"})


if __name__ == "__main__":
    unittest.main()
