#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store training: the statistics of curves, the verdict on planted defects, the text's tokens, and going on."""

import contextlib
import decimal
import json
import math
import pathlib
import random
import string
import sys
import tempfile
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[0:0] = [str(pathlib.Path(__file__).resolve().parent), str(ROOT / "bench"), str(ROOT / "tests/kernel/torch")]
from report import training_page
from report.command_line import Refused
from scratch import Tree
from store import training as command
from support import PACKAGE

sys.path.insert(0, str(PACKAGE))
from training import curves, figure, heads, model, text, train
from training.sampler import Sampler
from training.settings import COMPARED, RUNS, Settings

torch.set_num_threads(1)
TINY = Settings(vocabulary=400, hidden=32, layers=1, heads=2, context=16, rows=8, steps=80, warm_up=4, temperature=0.5,
                learning_rate=1e-2, compiled=False, not_timed=2)
# Student's two-sided quantiles with 4 degrees of freedom, from a printed table of three decimals.
TABLE = {0.5: 0.741, 0.1: 2.132, 0.05: 2.776, 0.01: 4.604, 0.001: 8.610}
# Says its versions, and of a run the losses that a file has; a run that `stop` names writes half a file and fails.
PYTHON = r"""
here=$(dirname "$0")
case $1 in
  -c) cat "$here/versions"; exit "$(cat "$here/lacks")" ;;
esac
echo "$4" >>"$here/calls"
[ "$4" = "$(cat "$here/stop")" ] && { echo half >"$7"; echo "OutOfMemoryError: full" >&2; exit 9; }
[ "$8" ] && echo weights >"$8"
echo "{\"step_ms\": 1.5, \"tokens_per_second\": 9, \"peak_bytes\": null, \"seconds\": 1, \"loss\": $(cat "$here/$4")}" >"$7"
"""


def wandering(drawn, steps, shift=0.0):
    """A falling curve with noise that forgets slowly, as the losses of two runs drift apart."""
    noise, found = 0.0, []
    for step in range(steps):
        noise = 0.95 * noise + drawn.gauss(0, 0.01)
        found.append(10 / (1 + step / 20) + noise + shift)
    return found


class Curves(unittest.TestCase):
    # Fails if the distribution has other degrees of freedom, or is one-sided.
    def test_the_table(self):
        for level, quantile in TABLE.items():
            self.assertLessEqual(curves.probability(quantile + 0.0005), level)
            self.assertGreaterEqual(curves.probability(-quantile + 0.0005), level)
        self.assertEqual(curves.probability(0.0), 1.0)

    # Fails if the deviation is that of a mean, or leaves out what the mean of the five varies by.
    def test_the_distance(self):
        five = [[float(level)] * 8 for level in (1, 2, 3, 4, 5)]
        for level, quantile in TABLE.items():
            own = 3 + quantile * math.sqrt(2.5) * math.sqrt(6 / 5)
            said = curves.test([own] * 8, five, range(8))
            self.assertLess(abs(said["probability"] / level - 1), 1e-2)  # the table's third decimal

    # Fails if a small probability is what a cancellation leaves, or infinity and NaN are likely.
    def test_far_out(self):
        with decimal.localcontext(prec=60):
            for student in (20.0, 41.5, 63.2, 63.3, 1e3):
                far = 4 / (4 + decimal.Decimal(student) ** 2)
                exact = 1 - (1 - far).sqrt() * (1 + far / 2)
                # The next term of the series is far^3 / 8, less than far / 3 of the first.
                self.assertLess(abs(decimal.Decimal(curves.probability(student)) / exact - 1), far, student)
        self.assertEqual((curves.probability(float("inf")), curves.probability(float("nan"))), (0.0, 0.0))

    # Fails if an end of the band is outside, the share is of other steps, or the first step outside is another.
    def test_shares(self):
        others = [[0, 1, 2, 3], [1, 2, 3, 4], [0.5, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]]
        self.assertEqual(curves.share_within([1, 2.5, 3, 2.5], others), 0.5)
        self.assertEqual(curves.first_outside([1, 2.5, 3, 2.5], others), 1)
        self.assertIsNone(curves.first_outside([0, 1, 2, 3], others))
        said = curves.compared([1, 2.5, 3, 2.5], others)
        self.assertEqual([part["share_within"] for part in said["parts"]], [1, 0, 1, 0])
        self.assertEqual(said["at_first_step"], {"difference": 0.7, "spread": 1})

    # Fails if a sixth run of the same kind is refused more often than LEVEL says. Among 300 such runs 0.3 are
    # expected, and five or more have a probability below 10^-4. Their share of steps has a mean of 2/3.
    def test_a_run_of_the_same_kind(self):
        drawn = random.Random(5)
        refused, shares = 0, []
        for _ in range(300):
            six = [wandering(drawn, 80) for _ in range(6)]
            said = curves.compared(six[0], six[1:])
            refused += not said["within"]
            shares.append(said["share_within"])
        self.assertLess(refused, 5)
        # The deviation of one share is at most 1/2: five deviations of the mean of 300.
        self.assertLess(abs(sum(shares) / 300 - curves.EXPECTED_SHARE), 5 * 0.5 / 300**0.5)

    # Fails if a curve that is off in one part alone, is no number, or is beside five without spread is taken for one of them.
    def test_a_run_that_is_off(self):
        drawn = random.Random(7)
        five = [wandering(drawn, 80) for _ in range(5)]
        own = wandering(drawn, 80)
        self.assertTrue(curves.compared(own, five)["within"])
        for part in curves.parts_of(80):
            off = [here + 2 * (step in part) for step, here in enumerate(own)]
            self.assertFalse(curves.compared(off, five)["within"])
        self.assertFalse(curves.compared([*own[:-1], float("nan")], five)["within"])
        self.assertFalse(curves.compared([each + 1e-6 for each in own], [own] * 5)["within"])
        self.assertTrue(curves.compared(own, [own] * 5)["within"])

    # Fails if other numbers of curves or steps are compared as if they were five of one length.
    def test_what_cannot_be_compared(self):
        curve = [1.0] * 8
        for own, others in ((curve, [curve] * 4), (curve, [curve[:-1]] * 5), (curve[:-1], [curve] * 5),
                            (curve[:3], [curve[:3]] * 5)):
            with self.assertRaises(ValueError):
                curves.compared(own, others)


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        drawn = torch.Generator().manual_seed(3)
        # Products of two draws: some tokens are frequent, so that there is something to learn.
        cls.tokens = torch.randint(1, 20, (2, 5000), generator=drawn).prod(0)
        cls.runs = {name: cls.trained(heads.LOSSES[kind], order) for name, (kind, order) in RUNS.items()}

    @classmethod
    def trained(cls, head, order):
        return train.train(model.made(TINY, "cpu"), head, order, cls.tokens, TINY)

    def verdict(self, head):
        return command.is_like_the_five(command.judged({**self.runs, "plumbline": self.trained(head, 0)}))

    # Fails if the operator's run, or a sixth of the yardstick's own kind, is taken for another; or the losses never fall. By
    # chance each fails on one kind of CPU in a thousand (curves.LEVEL), and then always.
    def test_honest_runs(self):
        said = command.judged(self.runs)
        self.assertTrue(command.is_like_the_five(said))
        self.assertTrue(next(each["within"] for each in said["compared"] if each["run"] == "fp32-logits"))
        self.assertEqual([each["run"] for each in said["compared"]], list(COMPARED))
        self.assertLess(self.runs["plumbline"]["loss"][-1], self.runs["plumbline"]["loss"][0])

    # Fails if labels that are shifted by one row pass.
    def test_shifted_labels(self):
        self.assertFalse(self.verdict(lambda hidden, weight, labels, t: heads.operator_loss(hidden, weight, labels.roll(1), t)))

    # Fails if a temperature that is dropped passes.
    def test_a_dropped_temperature(self):
        self.assertFalse(self.verdict(lambda hidden, weight, labels, _: heads.operator_loss(hidden, weight, labels, 1.0)))

    # Fails if a gradient of hidden that is lost passes: the loss of each single step is right.
    def test_a_lost_gradient(self):
        self.assertFalse(self.verdict(lambda hidden, *rest: heads.operator_loss(hidden.detach(), *rest)))

    # Fails if an order changes which rows a step has, or leaves them where they were, or labels are not the next tokens.
    def test_orders(self):
        drawn = list(train.batches(self.tokens, TINY, 0))
        for order in (1, 2):
            placed = list(train.batches(self.tokens, TINY, order))
            for (one, labels), (other, _) in zip(drawn, placed, strict=True):
                self.assertEqual(sorted(one.tolist()), sorted(other.tolist()))
                self.assertTrue(torch.equal(one[:, 1:], labels[:, :-1]))
            self.assertTrue(any(not torch.equal(one, other) for (one, _), (other, _) in zip(drawn, placed, strict=True)))

    # Fails if the fp32 head's logits are not those of bf16 operands, or its gradient of the weight is rounded to bf16.
    def test_the_yardstick(self):
        drawn = torch.Generator().manual_seed(0)
        hidden = torch.randn(8, 32, generator=drawn).to(torch.bfloat16)
        weight = torch.randn(40, 32, generator=drawn).requires_grad_()
        labels = torch.randint(0, 40, (8,), generator=drawn)
        heads.fp32_loss(hidden, weight, labels, 1.0).backward()
        narrow = weight.detach().to(torch.bfloat16).double().requires_grad_()
        loss = torch.nn.functional.cross_entropy(hidden.double() @ narrow.T, labels)
        loss.backward()
        bf16 = weight.grad.to(torch.bfloat16).float()
        self.assertFalse(torch.equal(weight.grad, bf16))
        self.assertLess((weight.grad - narrow.grad).abs().max(), (bf16 - narrow.grad).abs().max())

    # Fails if the run that explains a bf16 gradient rounds logits as well, or no gradient.
    def test_a_narrow_gradient(self):
        drawn = torch.Generator().manual_seed(0)
        hidden = torch.eye(8, dtype=torch.bfloat16)
        weight = torch.randn(40, 8, generator=drawn).requires_grad_()
        labels = torch.randint(0, 40, (8,), generator=drawn)
        losses, gradients = [], []
        for head in (heads.fp32_loss, heads.narrow_gradient_loss):
            losses.append(head(hidden, weight, labels, 1.0))
            gradients.append(torch.autograd.grad(losses[-1], weight)[0])
        self.assertEqual(losses[0].item(), losses[1].item())
        # Each row is a unit vector, so that the weight's gradient is the logits'.
        self.assertTrue(torch.equal(gradients[1], gradients[0].bfloat16().float()))
        self.assertFalse(torch.equal(*gradients))

    # Fails if a run's file lacks what is stored of it, or the checkpoint is not of the trained weights.
    def test_a_run_in_a_file(self):
        with self.folder() as folder:
            (folder / text.TOKENS).write_bytes(self.tokens.to(torch.uint16).numpy().tobytes())
            train.main(["order-1", TINY.text(), str(folder), str(folder / "out"), str(folder / "weights")])
            found = json.loads((folder / "out").read_text(encoding="utf-8"))
            kept = torch.load(folder / "weights", weights_only=True)
        self.assertEqual(found["loss"], self.runs["order-1"]["loss"])
        self.assertLessEqual({"step_ms", "tokens_per_second", "peak_bytes", "seconds"}, set(found))
        fresh = model.made(TINY, "cpu").state_dict()
        self.assertFalse(torch.equal(kept["embedding.weight"], fresh["embedding.weight"].to(torch.bfloat16)))

    @staticmethod
    @contextlib.contextmanager
    def folder():
        with tempfile.TemporaryDirectory() as name:
            yield pathlib.Path(name)


class Text(unittest.TestCase):
    WORDS = b"The cat saw the cat, and the dog saw  a b\x92rd.\n   " * 20

    # Fails if a word is lost, is another word's number, or a number is beyond the vocabulary.
    def test_tokens_are_the_text(self):
        size = text.BYTES + 5
        known = {number: word for word, number in text.vocabulary_of(text.WORD.findall(self.WORDS), size).items()}
        tokens = text.tokens_of(self.WORDS, size)
        self.assertEqual(b"".join(known.get(each, bytes([each % 256])) for each in tokens), self.WORDS)
        self.assertEqual((len(known), max(tokens)), (5, size - 1))
        self.assertIn(b" the", known.values())

    # Fails if tokens of another vocabulary, damaged ones, or none are taken, or too short a text.
    def test_what_is_refused(self):
        with Training.folder() as folder:
            with self.assertRaisesRegex(Refused, "too few"):
                text.prepare(folder, 1024, self.WORDS, "x")
            text.prepare(folder, 300, self.WORDS * 10, "x")
            self.assertEqual(text.prepared(folder, 300)["source"], "x")
            with self.assertRaisesRegex(Refused, "vocabulary of 300"):
                text.prepared(folder, 301)
            (folder / text.TOKENS).write_bytes(b"xx")
            with self.assertRaises(Refused):
                text.prepared(folder, 300)

    # Fails if a long text is cut inside of a line, or a short one is cut.
    def test_the_cut(self):
        self.assertEqual(text.cut(b"ab\ncd"), b"ab\ncd")
        cut = text.cut(b"abcdefg\n" * (text.MOST // 8) + b"tail")
        self.assertEqual((len(cut) <= text.MOST, cut[-8:]), (True, b"abcdefg\n"))


class Page(unittest.TestCase):
    def setUp(self):
        drawn = random.Random(3)
        runs = {name: {"loss": wandering(drawn, 200, name == "bf16-logits"), "step_ms": 5.0, "tokens_per_second": 123456,
                       "peak_bytes": 3 << 29, "seconds": 9} for name in RUNS}
        self.training = {"device": "X1", "date": "2026-01-02", "machine": {"gpu": "driver 580.1.2", "torch": "2", "triton": "3"},
                         "settings": vars(Settings()), "data": {"source": "a text", "tokens": 7}, "every": command.EVERY,
                         "comparison": command.judged(runs), "runs": command.records(runs), "command": "first"}
        figures = {"rms": 0.25, "p99": 0.5, "outside": 0.125}
        ratio = {"batch": 8, "rollout": "bf16", "training": "plumbline", "factors": dict.fromkeys(training_page.FACTORS, figures),
                 "share_of_head": {"without_truncation": 0.375}}
        head = {"head": "plumbline", "largest_error": 1e-6,
                "compared": [{"batch": 8, "other_order": True, "share_equal": 1.0, "largest": 0.0}]}
        self.rollout = {"device": "X1", "date": "2026-01-03", "weights": "random", "wrong": [], "command": "second",
                        "same_hidden": {"rows": 64, "temperature": 0.7, "bound": 1e-3, "heads": [head]},
                        "trunk": [{"part": "t1", "tokens": 99, "sampler": vars(Sampler(1.0, 0, 1.0)), "ratios": [ratio]}]}

    # Fails if the template leaves a value out or asks for another, or a run's verdict or a factor's figure is another's.
    def test_the_page(self):
        values = {"generated": "g", **training_page.values(self.training, self.rollout)}
        template = string.Template((ROOT / "bench/report/templates/training.txt").read_text(encoding="utf-8"))
        self.assertEqual(set(values), set(template.get_identifiers()))
        text = template.substitute(values)
        rows = {line.split(" | ")[0]: line for line in values["comparison"].splitlines()}
        self.assertTrue(rows["| plumbline"].endswith("| yes |"), rows)
        self.assertTrue(rows["| bf16-logits"].endswith("| no |"), rows)
        self.assertIn("| plumbline | 5.00 | 123 456 | 1.50 |", text)
        self.assertIn("| 8 | bf16 | plumbline | " + "2.5e-01 | " * 8 + "5.0e-01 | 12.5 % | 12.5 % | 37.5 % |", text)

    # Fails if a run is missing in the figure, or its ink is a colour of its own.
    def test_the_figure(self):
        try:
            drawn = figure.svg(self.training)
        except ImportError as why:
            self.skipTest(str(why))
        for name in ("five orders of rows", *COMPARED):
            self.assertIn(f">{name}<", drawn)
        self.assertIn("currentColor", drawn)
        self.assertNotIn("#010203", drawn)
        self.assertTrue(drawn.startswith("<!-- SPDX"))


class Command(Tree):
    def setUp(self):
        super().setUp()
        self.copy(*(f"bench/training/{path.name}" for path in (ROOT / "bench/training").glob("*.py")))
        self.program("build/release/fuzz/plumb", """echo '{"machine": {"cpu": "x"}}'\n""")
        python = self.program("fake/python", PYTHON)
        self.write(".gitignore", "build/\nfake/\nout/\n")
        self.commit()
        for name, content in (("versions", '{"device": "NVIDIA X1 80GB", "torch": "2"}'), ("lacks", "0"), ("stop", ""),
                              ("calls", "")):
            self.write(f"fake/{name}", content)
        drawn = random.Random(1)
        for name in RUNS:
            self.write(f"fake/{name}", json.dumps(wandering(drawn, 40)))
        self.words = ("training", "--python", python, "--data", self.root / "out/data")
        raw = self.write("out/text", "".join(f"word{chr(97 + k % 26)} {k}\n" for k in range(9000)))
        self.sizes = ("--settings", '{"vocabulary": 1024}', "--out", self.root / "out/result.json")
        status, out, error = self.run_store("training", "--prepare", "--text", raw, "--data", self.root / "out/data",
                                            "--settings", '{"vocabulary": 1024}')
        self.assertEqual(status, 0, out + error)

    def measure(self, *words):
        status, out, error = self.run_store(*self.words, *self.sizes, *words)
        return status, out + error

    def calls(self):
        return (self.root / "fake/calls").read_text(encoding="utf-8").splitlines()

    def result(self):
        return json.loads((self.root / "out/result.json").read_text(encoding="utf-8"))

    # Fails if what an interruption at any run leaves behind is taken for a run, or a run that is through is made again.
    def test_it_goes_on_after_an_interruption_at_any_run(self):
        for stop in RUNS:
            keep = ("--keep", self.root / "out" / stop)
            self.write("fake/stop", stop)
            self.write("fake/calls", "")
            status, said = self.measure(*keep)
            self.assertEqual(status, 3, said)
            self.assertIn(f"{stop}: OutOfMemoryError: full", said)
            self.write("fake/stop", "")
            status, said = self.measure(*keep)
            self.assertEqual(status, 0, said)
            self.assertEqual(self.calls(), [each for name in RUNS for each in [name] * (1 + (name == stop))])
            self.assertEqual([each["run"] for each in self.result()["runs"]], list(RUNS))

    # Fails if a call without time measures, or does not say what is left.
    def test_no_time(self):
        status, said = self.measure("--minutes", "0")
        self.assertEqual((status, self.calls()), (5, []), said)
        self.assertIn("9 of 9 pieces are left: plumbline, ", said)

    # Fails if a run that is off passes, or the result lacks device, keys, the text's source or thinned losses.
    def test_what_is_stored(self):
        losses = json.loads((self.root / "fake/plumbline").read_text(encoding="utf-8"))
        self.write("fake/plumbline", json.dumps([each + 1 for each in losses]))
        status, said = self.measure()
        self.assertEqual(status, 1, said)
        self.assertIn("plumbline: not like the five", said)
        found = self.result()
        self.assertEqual((found["device"], found["data"]["source"], found["every"]), ("NVIDIA X1 80GB", "text", 10))
        self.assertEqual(set(found["trees"]), {"kernel", "oracle", "fuzz"})
        self.assertEqual(found["runs"][0]["loss"], [round(each + 1, 6) for each in losses[::10]])
        self.assertEqual((self.root / "build/training/checkpoint.pt").read_text(encoding="utf-8"), "weights\n")

    # Fails if runs of two devices, sizes or texts are compared with each other.
    def test_what_does_not_belong_together(self):
        self.assertEqual(self.measure()[0], 0)
        status, said = self.measure("--settings", '{"vocabulary": 1024, "rows": 4}')
        self.assertEqual(status, 2)
        self.assertIn("begun with other files", said)
        self.write("fake/versions", '{"device": "NVIDIA Y2", "torch": "2"}')
        self.assertEqual(self.measure()[0], 2)

    # Fails if words that mean nothing here are taken, an interpreter without PyTorch is, or a result of other sizes is stored
    # under the name of the full one.
    def test_usage(self):
        for words, status, named in [(["--python", "x", "--rows", "3"], 2, "unrecognized"), ([], 2, "--python"),
                                     (["--prepare", "--python", "x"], 2, "unrecognized"),
                                     (["--prepare", "--text", "/nowhere"], 2, "nowhere"),
                                     ([*self.words[1:], "--settings", '{"rows": 4}'], 2, "--out"),
                                     ([*self.words[1:], "--settings", '{"row": 4}', "--out", "x"], 2, "--settings"),
                                     ([*self.words[1:3], "--data", "/nowhere"], 2, "--prepare makes them")]:
            got, out, error = self.run_store("training", *words)
            self.assertEqual(got, status, out + error)
            self.assertIn(named, error)
        self.write("fake/lacks", "1")
        self.assertEqual(self.measure()[0], 4)


if __name__ == "__main__":
    unittest.main()
