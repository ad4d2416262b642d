#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another engine's logprobs beside a dump: the size of the log-ratio, and what explains it."""

import sys
import unittest

from support import PACKAGE

sys.path[:0] = [str(PACKAGE)]

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed") from None

from real_job import Dumps, Job, bf16, job, log_softmax


def kept_alone(logits: np.ndarray, labels: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Logprobs renormalised over the columns of a mask; the label's is one of them."""
    kept[np.arange(len(labels)), labels] = True
    return log_softmax(np.where(kept, logits, -np.inf))[np.arange(len(labels)), labels]


class Rollouts(Dumps):
    def setUp(self) -> None:
        super().setUp()
        self.job = job(rows=64, vocabulary=200, size=32, scale=0.5, temperature=0.5)

    def section(self, given: np.ndarray, *, name: str = "rollout_logprob", whole: Job | None = None) -> dict:
        """What the report says of `given`; the exit status is that of the dump without it."""
        path = self.write((whole or self.job).tensors() | {name: given})
        self.assertEqual(self.check(path)[0], 0)
        return self.report(path)["rollout"][name]

    @property
    def scaled(self) -> np.ndarray:
        return self.job.logits / self.job.temperature

    # Fails if a figure is not that of its definition, if it has an effect on the verdict, or if the two tensors are
    # mixed up. Both halves of the rows have the same noise, which nothing explains.
    def test_the_figures_are_those_of_their_definitions(self):
        exact = self.job.logprob(self.scaled)
        noise = np.random.default_rng(5).normal(0.02, 0.08, 64)
        given = (exact - noise).astype(np.float32)
        path = self.write(self.job.tensors() | {"rollout_logprob": given, "old_logprob": exact})
        status, out, err = self.check(path)
        self.assertEqual(status, 0, out + err)
        ratio = exact - given.astype(np.float64)
        worst = int(np.abs(ratio).argmax())
        said = self.report(path)["rollout"]
        rollout = said["rollout_logprob"]
        self.assertEqual((rollout["rows"], rollout["largest_row"]), (64, worst))
        for key, value in {"mean": ratio.mean(), "rms": np.sqrt((ratio**2).mean()), "largest": ratio[worst],
                           "p99": np.sort(np.abs(ratio))[63],
                           "outside": np.mean((np.exp(ratio) < 0.9) | (np.exp(ratio) > 1.1))}.items():
            self.assertAlmostEqual(rollout[key], value, delta=1e-9 + 1e-7 * abs(value))
        self.assertEqual(rollout["explained_by"], [])
        self.assertIn("rollout: rollout_logprob: none of these explains 90 % of the log-ratio's energy: ", out)
        # fp64 that is rounded to fp32: half a unit of values up to 16.
        self.assertLess(abs(said["old_logprob"]["largest"]), 2.0**-20)

    # Fails if the engine's mistake is not named with the number that it had, or if another is named that does not
    # explain the rows that it was not fitted on.
    def test_each_mistake_is_named(self):
        logits, labels, scaled = self.job.logits, self.job.labels, self.scaled
        order = np.argsort(-scaled, -1)
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(200)[None], -1)
        # Some labels lie outside of the columns that are kept: what was sampled counts all the same.
        self.job.labels = labels = order[np.arange(64), np.random.default_rng(2).integers(0, 9, 64)]
        mass = np.cumsum(-np.sort(-np.exp(log_softmax(scaled)), -1), -1)
        within = np.take_along_axis(mass, rank, -1) - np.exp(log_softmax(scaled)) < 0.8
        at = np.arange(64)
        mistakes = {
            "the temperature was not applied": log_softmax(logits)[at, labels],
            "another temperature: T = 0.8 (fitted)": log_softmax(logits / 0.8)[at, labels],
            "only the top k = 6 columns count (fitted), renormalised": kept_alone(scaled, labels, rank < 6),
            "only the top p = 0.8 of the mass counts (fitted), renormalised": kept_alone(scaled, labels, within),
            "logits rounded to bf16": log_softmax(bf16(logits) / 0.5)[at, labels],
            "logits rounded to fp16": log_softmax(logits.astype(np.float16).astype(np.float64) / 0.5)[at, labels],
            "values stored in bf16": bf16(self.job.logprob(scaled)),
            "each row has the logprob of the next row's label": log_softmax(scaled)[at, np.roll(labels, -1)],
            "each row has the logprob of the previous row's label": log_softmax(scaled)[at, np.roll(labels, 1)],
            "each row has the previous row's value": np.roll(self.job.logprob(scaled), 1),
            "each row has the next row's value": np.roll(self.job.logprob(scaled), -1),
            "the opposite sign (a loss of each row)": -self.job.logprob(scaled),
        }
        for what, given in mistakes.items():
            section = self.section(given.astype(np.float32))
            named = [each for each in section["explained_by"] if each != "another temperature: T = 1 (fitted)"]
            self.assertEqual(named, [what])
            self.assertGreater(section["hypotheses"][0]["share"], 0.99)

    # Fails if other weights, or one row alone, are explained by anything.
    def test_what_has_no_name_gets_none(self):
        other = self.job.weight + 0.01 * np.random.default_rng(3).standard_normal((200, 32)).astype(np.float32)
        changed = self.job.hidden.astype(np.float64) @ other.astype(np.float64).T / 0.5
        self.assertEqual(self.section(self.job.logprob(changed))["explained_by"], [])
        # The temperature explains nearly all of the energy, which is one row's.
        self.job.hidden[31] *= 20
        self.job.labels[31] = self.job.logits[31].argmin()
        given = self.job.logprob(self.scaled)
        given[31] = self.job.logprob(self.job.logits)[31]
        self.assertEqual(self.section(given)["explained_by"], [])

    # Fails if a parameter is tested on the rows that it was fitted on, which are every second one: only these have
    # another temperature.
    def test_parameters_are_tested_on_other_rows(self):
        given = self.job.logprob(self.scaled) + np.random.default_rng(4).normal(0, 1, 64)
        given[::2] = self.job.logprob(self.job.logits / 0.8)[::2]
        self.assertEqual(self.section(given)["explained_by"], [])

    # Fails if ignored rows or those without a number take part, or are not counted, or if few rows get a cause.
    def test_rows_that_are_left_out(self):
        self.job.labels[::2] = -100
        self.job.hidden[0] = np.nan
        given = self.job.logprob(self.scaled)
        given[::2] = np.nan
        given[1] = np.inf
        section = self.section(given)
        self.assertEqual((section["rows"], section["not_finite"]), (31, 1))
        self.assertLess(section["rms"], 1e-6)
        few = job(rows=15)
        path = self.write(few.tensors() | {"old_logprob": few.logprob() + 1})
        self.assertIn("old_logprob: no cause is looked for in fewer than 16 rows\n", self.check(path)[1])

    # Fails if a tensor of another shape or dtype is read.
    def test_malformed_tensors_are_refused(self):
        for given, words in ((np.zeros(63, np.float32), "shape [63], must be [64], one value a row of hidden"),
                             (np.zeros((8, 8), np.float32), "flatten batch and sequence: [64]"),
                             (np.zeros(64, np.int64), "dtype int64, must be fp64, fp32, bf16 or fp16")):
            status, _, err = self.check(self.write(self.job.tensors() | {"old_logprob": given}))
            self.assertEqual(status, 2)
            self.assertIn("old_logprob: ", err)
            self.assertIn(words, err)


if __name__ == "__main__":
    unittest.main()
