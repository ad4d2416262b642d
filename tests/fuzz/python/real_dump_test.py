#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps as a job writes them: a padded vocabulary, ignored rows that hold anything, outputs in fp64."""

import sys
import unittest

from support import PACKAGE

sys.path[:0] = [str(PACKAGE)]

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed") from None

import plumbline
from real_job import Dumps, job


class PaddedVocabularies(Dumps):
    # Fails if padding takes part in the softmax, if grad_weight with rows of padding is refused, or if text or JSON
    # do not say which rows are padding.
    def test_padding_is_masked(self):
        tensors = job(vocabulary=48)
        tensors.labels %= 40
        path = self.write(tensors.tensors(40), vocabulary_size="40")
        status, out, err = self.check(path)
        self.assertEqual(status, 0, out + err)
        self.assertIn("padding: weight has 48 rows; those from 40 on (vocabulary_size) take no part in the softmax; "
                      "grad_weight is 0 in all 128 elements there\n", out)
        report = self.report(path)
        self.assertEqual((report["v"], report["weight_rows"]), (40, 48))
        self.assertEqual(report["padding"], {"vocabulary_size": 40, "weight_rows": 48, "judged": 128, "wrong": 0})

    # Fails if the option does not do what the metadata do, or does not go before them, or if a target that is run in
    # a process of its own does not get it.
    def test_the_option_goes_before_the_metadata(self):
        tensors = job(vocabulary=48)
        tensors.labels %= 40
        for metadata in ({}, {"vocabulary_size": "47"}):
            path = self.write(tensors.tensors(40), **metadata)
            self.assertEqual(self.check(path)[0], 1)
            self.assertEqual(self.check(path, "--vocabulary", 40)[0], 0)
            status, out, _ = self.check(path, "--vocabulary", 40, "--target", "host", "--run")
            self.assertEqual(status, 0, out)
            self.assertIn("V=40", out)

    # Fails if a gradient in padding is no finding, in a sample as well, or if it is named by a wrong place.
    def test_a_gradient_in_padding_is_a_finding(self):
        tensors = job(vocabulary=48)
        tensors.labels %= 40
        arrays = tensors.tensors(40)
        arrays["grad_weight"][43, 5] = 0.25
        arrays["grad_weight"][44, 1] = -0.0
        path = self.write(arrays, vocabulary_size="40")
        for rows in ("all", 9):
            status, out, _ = self.check(path, rows=rows)
            self.assertEqual(status, 1)
            self.assertTrue(out.startswith("WRONG: grad_weight is not 0 in padding\n"), out)
            self.assertIn("wrong: grad_weight[43, 5] = 0.25 where 0 is required: row 43 is padding (vocabulary_size 40); "
                          "1 of its 128 elements are not 0\n", out)
            self.assertIn("findings=1 status=1", out)
        self.assertEqual(self.report(path)["padding"]["worst"], {"row": 43, "column": 5, "got": 0.25})

    # Fails if a label in padding is valid, or if a kernel that sums over padding gets no diagnosis.
    def test_labels_and_kernels_that_reach_into_padding(self):
        tensors = job(vocabulary=48)
        tensors.labels %= 40
        tensors.labels[3] = 41
        status, out, _ = self.check(self.write(tensors.tensors(), vocabulary_size="40"))
        self.assertEqual(status, 1)
        self.assertIn("WRONG: the 8 rows of padding take part in the softmax", out)
        arrays = tensors.tensors(48)
        self.assertIn("NaN", str(next(o for o in self.report(self.write(arrays, vocabulary_size="41"))["outputs"]
                                     if o["output"] == "logprob")["worst"]["required"]))

    # Fails if what a program asks by the package loses the size, the rollout or the finding on its way.
    def test_the_package_takes_them(self):
        whole = job(vocabulary=48)
        whole.labels %= 40
        arrays = whole.tensors(40)
        arrays["grad_weight"][47, 0] = 2
        outputs = {name: arrays.pop(name) for name in ("logprob", "entropy", "grad_hidden", "grad_weight")}
        arrays |= {"vocabulary_size": 40, "rollout_logprob": outputs["logprob"]}
        said = plumbline.check(arrays, outputs, rows="all")
        self.assertEqual(said.verdict, "findings")
        self.assertIn("wrong: grad_weight[47, 0] = 2 where 0 is required", said.findings[0].what)
        self.assertEqual(said.json["rollout"]["rollout_logprob"]["rms"] < 1e-5, True)
        with self.assertRaisesRegex(ValueError, "inputs\\['vocabulary_size'\\] is 4.5: it must be an integer"):
            plumbline.check(arrays | {"vocabulary_size": 4.5}, outputs)

    # Fails if a value that is no number of rows is read as one, or is not named with its key.
    def test_a_malformed_size_is_refused(self):
        arrays = job().tensors()
        for value in ("0", "41", "-3", "40.0", "", "0x20", "99999999999999999999", "40 "):
            status, _, err = self.check(self.write(arrays, vocabulary_size=value))
            self.assertEqual(status, 2, value)
            self.assertIn(f'metadata "vocabulary_size" is "{value}", not an integer from 1 to 40, the rows of weight', err)
        status, _, err = self.check(self.write(arrays), "--vocabulary", 41)
        self.assertEqual(status, 2)
        self.assertIn("--vocabulary is 41, not an integer from 1 to 40", err)


class IgnoredRows(Dumps):
    # Fails if NaN or infinities in rows that are ignored reach any other row, grad_weight, the baselines' errors, or
    # the choice of rows.
    def test_they_may_hold_anything(self):
        whole = job(rows=200, temperature=0.5)
        whole.labels[::3] = -100
        for reduction in ("none", "mean"):
            arrays = whole.tensors()
            ignored = ~whole.kept
            arrays["temperature"] = np.full(200, 0.5, np.float32)
            if reduction == "mean":
                arrays["grad_logprob"] = np.float32(1)
                arrays["loss"] = np.float32(-whole.tensors()["logprob"][whole.kept].astype(np.float64).mean())
                for name in ("grad_hidden", "grad_weight"):
                    del arrays[name]
            arrays["hidden"][ignored] = np.nan
            arrays["hidden"][6] = np.inf
            arrays["temperature"][ignored] = -1
            for name in ("logprob", "entropy", "grad_logprob"):
                if arrays[name].shape:
                    arrays[name][ignored] = np.nan
            path = self.write(arrays, reduction=reduction)
            status, out, err = self.check(path)
            self.assertEqual(status, 0, out + err)
            self.assertIn("convention: logprob, entropy and lse of an ignored row: other values", out)
            report = self.report(path, rows=40)
            judged = next(o for o in report["outputs"] if o["output"] == "entropy")
            self.assertEqual(judged["pass"], 40)
            self.assertEqual(report["honest_errors"]["rows"], 36)  # row 0, three ignored ones, and no more

    # Fails if a gradient that an ignored row's NaN has reached passes.
    def test_their_gradient_is_zero(self):
        whole = job()
        whole.labels[5] = -100
        arrays = whole.tensors()
        arrays["hidden"][5] = np.nan
        arrays["grad_hidden"][5] = np.nan
        status, out, _ = self.check(self.write(arrays))
        self.assertEqual(status, 1)
        self.assertIn("wrong: grad_hidden[5, 0] = nan where exactly +0 is required", out)


class Doubles(Dumps):
    # Fails if fp64 is refused where it may be rounded, if it is not said, or if a value is read wrongly.
    def test_outputs_and_temperature_may_be_fp64(self):
        whole = job(temperature=0.7)
        arrays = whole.tensors()
        whole.temperature = float(np.float32(0.7))
        exact = whole.tensors()
        for name in ("logprob", "entropy", "temperature", "grad_logprob"):
            arrays[name] = exact[name].astype(np.float64)
        arrays["temperature"] = np.float64(0.7)
        arrays["lse"] = np.log(np.exp(whole.logits / whole.temperature).sum(-1))
        path = self.write(arrays)
        status, out, err = self.check(path)
        self.assertEqual(status, 0, out + err)
        self.assertIn("rounded from fp64 to fp32: entropy, grad_logprob, logprob, lse, temperature\n", out)
        self.assertEqual(self.report(path)["rounded"], ["entropy", "grad_logprob", "logprob", "lse", "temperature"])
        arrays["lse"][4] += 1
        status, out, _ = self.check(self.write(arrays))
        self.assertEqual(status, 1)
        self.assertIn("wrong: lse[4] = ", out)

    # Fails if a loss in fp64 is refused, or if a number that fp32 does not hold becomes infinity or 0 in silence.
    def test_what_fp32_does_not_hold(self):
        whole = job()
        arrays = whole.tensors()
        loss = -arrays["logprob"].astype(np.float64).mean()
        few = {name: arrays[name] for name in ("hidden", "weight", "labels")}
        self.assertEqual(self.check(self.write(few | {"loss": np.float64(loss)}, reduction="mean"))[0], 0)
        for value in (1e-60, 1e60):
            status, _, err = self.check(self.write(few | {"temperature": np.float64(value)}))
            self.assertEqual(status, 2)
            self.assertIn(f"temperature: {value:.9g} at 0 is beyond fp32", err)
        arrays["logprob"] = arrays["logprob"].astype(np.float64)
        arrays["logprob"][2] = -1e60
        status, out, _ = self.check(self.write(arrays))
        self.assertEqual(status, 1)
        self.assertIn("wrong: logprob[2] = -inf", out)

    # Fails if what the kernel read is rounded, or if another tensor's dtype keeps a dump from being judged.
    def test_inputs_are_never_rounded(self):
        for name in ("hidden", "weight", "labels", "grad_hidden", "grad_weight"):
            arrays = job().tensors()
            arrays[name] = arrays[name].astype(np.float64)
            status, _, err = self.check(self.write(arrays))
            self.assertEqual(status, 2)
            self.assertIn(f"{name}: dtype F64, must be ", err)
        status, out, _ = self.check(self.write(job().tensors() | {"advantages": np.ones(24)}))
        self.assertEqual(status, 0)
        self.assertIn('not looked at: tensor "advantages": means nothing here', out)


if __name__ == "__main__":
    unittest.main()
