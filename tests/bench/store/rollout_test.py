#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store rollout: the split of a log-ratio into factors, the verdict on planted defects, and going on."""

import copy
import json
import math
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[0:0] = [str(pathlib.Path(__file__).resolve().parent), str(ROOT / "bench"), str(ROOT / "tests/kernel/torch")]
from scratch import Tree
from store import rollout as command
from support import PACKAGE

sys.path.insert(0, str(PACKAGE))
from training import factors, heads, model, ratios, sampler, text
from training.sampler import Sampler
from training.settings import Settings

torch.set_num_threads(1)
TINY = Settings(vocabulary=400, hidden=32, layers=1, heads=2, context=16, compiled=False)
# A sum of fp64 numbers of at most 2^10 terms below 2^10 errs by 2^10 · 2^10 · 2^-53 at most; a few such sums are compared.
FP64 = 2.0**-30
# What is said of an operator without a fault.
SAME = {"heads": [{"head": "plumbline", "same_bits": True, "beyond_bound": 0, "largest_error": 0, "compared": []}]}
# Says its versions, and of a part what a file has; a part that `stop` names writes half a file and fails.
PYTHON = r"""
here=$(dirname "$0")
case $1 in
  -c) cat "$here/versions"; exit ;;
esac
echo "$4 $8" >>"$here/calls"
[ "$4" = "$(cat "$here/stop")" ] && { echo half >"$7"; echo "OutOfMemoryError: full" >&2; exit 9; }
cat "$here/$4" >"$7"
"""


def problem(rows=64, size=32, vocabulary=400, seed=0):
    """hidden and weight in bf16 whose logits are a few units apart, and labels."""
    drawn = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, size, generator=drawn).to(heads.NARROW)
    weight = (torch.randn(vocabulary, size, generator=drawn) / 4).to(heads.NARROW)
    return hidden, weight, torch.randint(0, vocabulary, (rows,), generator=drawn)


def shaky(hidden, weight, labels, temperature):
    """The operator, but a row's bits depend on its place in the batch."""
    said = heads.operator_logprob(hidden, weight, labels, temperature)
    odd = torch.arange(len(said)) % 2 == 1
    return torch.where(odd, torch.nextafter(said, torch.zeros_like(said)), said)


def shifted(hidden, weight, labels, temperature):
    return heads.operator_logprob(hidden, weight, (labels + 1) % len(weight), temperature)


def undivided(hidden, weight, labels, _):
    return heads.operator_logprob(hidden, weight, labels, 1.0)


class Parts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.decoder = ratios.loaded(TINY, "cpu", None)
        cls.decoder.embedding.weight.mul_(8)  # so that tokens differ in probability as a trained model's do
        drawn = torch.Generator().manual_seed(3)
        cls.text = torch.randint(0, 400, (3000,), generator=drawn)
        cls.tokens = {name: sampler.drawn(cls.decoder, ratios.prompts_of(cls.text, 64, 4), 7, each, 1)
                      for name, each in sampler.SAMPLERS.items()}

    def parts(self, own=heads.operator_logprob):
        """All parts of a rollout; `own` takes the place of the operator."""
        logprobs = {**heads.LOGPROBS, "plumbline": own}
        hidden, weight, labels = problem()
        found = {command.SAME_HIDDEN: ratios.same_hidden(hidden, weight, labels, ratios.TEMPERATURE, logprobs)}
        for name, tokens in self.tokens.items():
            found[name] = ratios.trunk(self.decoder, tokens, sampler.SAMPLERS[name], 4, logprobs)
        return found

    # Fails if the honest operator is refused, a part is left out, or a batch size or pair of heads is.
    def test_honest(self):
        found = self.parts()
        self.assertEqual(command.wrong(found), [])
        self.assertEqual(tuple(found), command.PARTS)
        self.assertEqual(command.PARTS, ratios.PARTS)
        for name in sampler.SAMPLERS:
            self.assertEqual([(each["batch"], each["rollout"], each["training"]) for each in found[name]["ratios"]],
                             [(batch, *pair) for batch in (1, 8, 64) for pair in factors.PAIRS])

    # Fails if bits that depend on a row's place in its batch pass, on given hidden states or behind the trunk.
    def test_an_order_that_changes_bits(self):
        said = command.wrong(self.parts(shaky))
        self.assertIn("same-hidden: ", said[0])
        self.assertTrue(any(each.startswith("t1, batch 1, plumbline") and "moves the head" in each for each in said), said)

    # Fails if labels that are shifted or a temperature that is dropped pass.
    def test_wrong_values(self):
        for head in (shifted, undivided):
            hidden, weight, labels = problem()
            own = ratios.same_hidden(hidden, weight, labels, ratios.TEMPERATURE, {"plumbline": head})
            parts = {command.SAME_HIDDEN: own, **{name: {"ratios": []} for name in command.PARTS[1:]}}
            self.assertIn("beyond their bound", "; ".join(command.wrong(parts)))

    # Fails if rows are never in another order, or the log-probabilities of two rows are compared with each other.
    def test_rows_in_another_order(self):
        seen = []

        def noted(hidden, weight, labels, temperature):
            seen.append(labels)
            return heads.operator_logprob(hidden, weight, labels, temperature)

        hidden, weight, labels = problem(rows=65)
        said = ratios.same_hidden(hidden, weight, labels, 1.0, {"plumbline": noted})["heads"][0]
        whole = [each for each in seen if len(each) == len(labels)]
        self.assertEqual([torch.equal(each, labels) for each in whole], [True, False])
        self.assertEqual(sorted(whole[1].tolist()), sorted(labels.tolist()))
        self.assertTrue(said["same_bits"])

    # Fails if NaN, a split that does not add up, or a head that the batch moves is no fault.
    def test_faults_of_the_split(self):
        ratio = {"batch": 8, "rollout": "plumbline", "training": "fp32", "apart": 0.0, "factors": {"head_batch": {"largest": 0.0}}}
        parts = {command.SAME_HIDDEN: SAME, **{name: {"ratios": [dict(ratio)]} for name in command.PARTS[1:]}}
        self.assertEqual(command.wrong(parts), [])
        for change in ({"apart": math.nan}, {"apart": 1e-3}, {"factors": {"head_batch": {"largest": 1e-7}}},
                       {"factors": {"head_batch": {"largest": math.nan}}}):
            changed = copy.deepcopy(parts)
            changed["t1-k50"]["ratios"][0].update(change)
            self.assertEqual(len(command.wrong(changed)), 1, change)


class Split(unittest.TestCase):
    def setUp(self):
        hidden, self.weight, labels = problem(rows=48)
        # [batches, sequences, places, size]: four batches of three sequences with four places.
        self.hidden, self.labels = hidden.view(4, 3, 4, 32), labels.view(4, 3, 4)
        self.plain = Sampler(0.7, 0, 1.0)

    def split(self, rollout, pair, chosen, **own):
        return factors.split(rollout, self.hidden, self.weight, self.labels, chosen, pair, {**heads.LOGPROBS, **own})

    # Fails if a token's value is another token's, or the sum of the factors is not the ratio by its definition.
    def test_the_factors_add_up(self):
        moved = self.hidden.clone()
        moved[1, 2, 3] *= 2
        chosen = Sampler(0.7, 0, 0.9999)
        bound = max(factors.any_order(each.flatten(0, 2), self.weight, self.labels.flatten(), 0.7).max().item()
                    for each in (moved, self.hidden))
        for pair in factors.PAIRS:
            parts = self.split(moved, pair, chosen)
            inside = ~parts["truncation"].isnan()
            apart = sum(parts[name] for name in factors.FACTORS) - parts["total"]
            self.assertLess(apart[inside].abs().max(), FP64)
            engine, trainer = (heads.LOGPROBS[name] for name in pair)
            for at, (b, s, p) in enumerate(torch.cartesian_prod(*map(torch.arange, (4, 3, 4))).tolist()):
                label = self.labels[b, s, p][None]
                here = engine(moved[b, s, p][None], self.weight, label, 0.7)
                there = trainer(self.hidden[b, s, p][None], self.weight, label, 0.7)
                said = parts["total"][at] - parts["truncation"][at]
                # Rows alone and in batches: both within the bound. A bf16 logit below 16 may be the next one: 2^-4, and lse's.
                most = 4 * bound + ("bf16" in pair) * 4 * 2.0**-4 / 0.7
                if inside[at]:
                    self.assertLess(abs(said - (here.double() - there.double()).item()), most)

    # Fails if a change of the trunk alone shows in another factor, or on other tokens.
    def test_the_trunk_alone(self):
        moved = self.hidden.clone()
        moved[1, 2, 3] *= 2
        parts, before = (self.split(each, ("plumbline", "plumbline"), self.plain) for each in (moved, self.hidden))
        wide = torch.log_softmax(moved[1, 2, 3].double() @ self.weight.double().T / 0.7, -1)
        still = torch.log_softmax(self.hidden[1, 2, 3].double() @ self.weight.double().T / 0.7, -1)
        label, at = self.labels[1, 2, 3], (1 * 3 + 2) * 4 + 3
        self.assertLess(abs(parts["trunk"][at] - (wide[label] - still[label])), FP64)
        self.assertEqual(parts["trunk"].count_nonzero(), 1)
        for name in ("rounding", "head_batch", "truncation"):
            self.assertEqual(parts[name].count_nonzero(), 0, name)
        self.assertTrue(torch.equal(parts["training_head"], before["training_head"]))

    # Fails if what the batch does to a head is blamed on its arithmetic, or the other way round.
    def test_the_batch_alone(self):
        def moved(hidden, weight, labels, temperature):
            return heads.operator_logprob(hidden, weight, labels, temperature) + (len(labels) == 3) * 0.25

        parts = self.split(self.hidden, ("moved", "plumbline"), self.plain, moved=moved)
        # fp32 adds 1/4 to a number below 32: half an ulp is 2^-20.
        self.assertLess((parts["head_batch"] - 0.25).abs().max(), 2.0**-20 + FP64)
        still = self.split(self.hidden, ("plumbline", "plumbline"), self.plain)
        self.assertTrue(torch.equal(parts["head_arithmetic"], still["head_arithmetic"]))

    # Fails if rounding logits to bf16 is not what the factor has, or a head with fp32 logits has some.
    def test_rounding(self):
        parts = self.split(self.hidden, ("bf16", "plumbline"), self.plain)
        logits = self.hidden.flatten(0, 2).double() @ self.weight.double().T
        labels = self.labels.flatten()[:, None]
        both = [torch.log_softmax(each / 0.7, -1).gather(-1, labels)[:, 0] for each in (logits.bfloat16().double(), logits)]
        self.assertLess((parts["rounding"] - (both[0] - both[1])).abs().max(), FP64)
        self.assertGreater(parts["rounding"].abs().max(), 2.0**-10)

    # Fails if truncation is not minus the log of the probability that is kept, or a token that is not kept has one.
    def test_truncation(self):
        hidden, weight, labels = self.hidden.flatten(0, 2), self.weight, self.labels.flatten()
        labels[0::2] = (hidden.double() @ weight.double().T).argmax(-1)[0::2]
        _, truncation = factors.of_sampler(hidden, weight, labels, Sampler(0.7, 5, 1.0), False)
        probabilities = torch.softmax(hidden.double() @ weight.double().T / 0.7, -1)
        largest = probabilities.topk(5).values
        for at in range(len(labels)):
            if probabilities[at, labels[at]] >= largest[at, -1]:
                self.assertLess(abs(truncation[at] + largest[at].sum().log()), FP64)
            else:
                self.assertTrue(truncation[at].isnan())
        self.assertTrue(truncation[0::2].isfinite().all())

    # Fails if top-k keeps another number, top-p stops before p is reached or after, or p is taken of the whole.
    def test_what_is_kept(self):
        logits = torch.log(torch.tensor([[0.1, 0.4, 0.3, 0.2]], dtype=torch.float64))
        for chosen, expected in ((Sampler(1, 0, 1), "1111"), (Sampler(1, 2, 1), "0110"), (Sampler(1, 0, 0.65), "0110"),
                                 (Sampler(1, 0, 0.75), "0111"), (Sampler(1, 2, 0.55), "0100"), (Sampler(1, 1, 0.99), "0100")):
            got = "".join(str(int(each)) for each in sampler.kept(logits, chosen)[0])
            self.assertEqual(got, expected, chosen)

    # Fails if a figure is another: the mean of squares, the rank of the percentile, either end of the share outside.
    def test_figures(self):
        values = torch.zeros(200, dtype=torch.float64)
        values[:4] = torch.tensor([math.log(1.11), math.log(0.89), math.log(1.09), math.log(0.91)])
        said = factors.figures(values)
        self.assertEqual((said["outside"], said["p99"]), (0.01, values[3].abs().item()))
        self.assertLess(abs(said["rms"] ** 2 - sum(each.item() ** 2 for each in values[:4]) / 200), FP64)

    # Fails if the head's share has trunk or truncation in it, or tokens that are not kept count.
    def test_the_share_of_the_head(self):
        parts = {name: torch.zeros(4, dtype=torch.float64) for name in factors.FACTORS}
        parts |= {"trunk": torch.full((4,), 0.3).double(), "rounding": torch.full((4,), 0.4).double()}
        parts["truncation"] = torch.tensor([0.1, 0.1, 0.1, math.nan]).double()
        parts["total"] = sum(parts[name] for name in factors.FACTORS)
        said = factors.summary(parts)
        self.assertEqual(said["not_kept"], 1)
        self.assertLess(abs(said["share_of_head"]["without_truncation"] - (0.4 / 0.7) ** 2), 2.0**-20)
        self.assertLess(abs(said["share_of_head"]["total"] - (0.4 / 0.8) ** 2), 2.0**-20)

    # Fails if a part's file lacks what is stored, or the checkpoint's weights are not used.
    def test_parts_in_files(self):
        with tempfile.TemporaryDirectory() as name, mock.patch.multiple(ratios, LENGTH=7, PROMPT=4):
            folder = pathlib.Path(name)
            tokens = torch.randint(0, 400, (3000,), generator=torch.Generator().manual_seed(3))
            (folder / text.TOKENS).write_bytes(tokens.to(torch.uint16).numpy().tobytes())
            weights = {key: each.bfloat16() * 4 for key, each in model.made(TINY, "cpu").state_dict().items()}
            torch.save(weights, folder / "weights")
            said = {}
            for part, more in (("same-hidden", ()), ("same-hidden", (str(folder / "weights"),)), ("t1-k50", ())):
                ratios.main([part, TINY.text(), str(folder), str(folder / "out"), *more])
                said[part, more != ()] = json.loads((folder / "out").read_text(encoding="utf-8"))
        errors = [said["same-hidden", which]["bound"] for which in (False, True)]
        self.assertNotEqual(*errors)
        self.assertEqual(said["t1-k50", False]["tokens"], 64 * 3)


class Command(Tree):
    def setUp(self):
        super().setUp()
        self.copy(*(f"bench/training/{path.name}" for path in (ROOT / "bench/training").glob("*.py")))
        self.program("build/release/fuzz/plumb", """echo '{"machine": {"cpu": "x"}}'\n""")
        self.python = self.program("fake/python", PYTHON)
        self.write(".gitignore", "build/\nfake/\nout/\n")
        self.commit()
        for name, content in (("versions", '{"device": "NVIDIA X1 80GB", "torch": "2"}'), ("stop", ""), ("calls", ""),
                              ("same-hidden", json.dumps(SAME)), *((part, '{"ratios": []}') for part in command.PARTS[1:])):
            self.write(f"fake/{name}", content)
        raw = self.write("out/text", "".join(f"word{chr(97 + k % 26)} {k}\n" for k in range(9000)))
        self.sizes = ("--settings", '{"vocabulary": 1024}')
        status, out, error = self.run_store("training", "--prepare", "--text", raw, "--data", self.root / "out/data", *self.sizes)
        self.assertEqual(status, 0, out + error)

    def measure(self, *words):
        status, out, error = self.run_store("rollout", "--python", self.python, "--data", self.root / "out/data", *self.sizes,
                                            "--out", self.root / "out/result.json", *words)
        return status, out + error

    def calls(self):
        return (self.root / "fake/calls").read_text(encoding="utf-8").splitlines()

    # Fails if what an interruption at any part leaves behind is taken for a part, or a part that is through is made again.
    def test_it_goes_on_after_an_interruption_at_any_part(self):
        for stop in command.PARTS:
            keep = ("--random", "--keep", self.root / "out" / stop)
            self.write("fake/stop", stop)
            self.write("fake/calls", "")
            status, said = self.measure(*keep)
            self.assertEqual(status, 3, said)
            self.write("fake/stop", "")
            status, said = self.measure(*keep)
            self.assertEqual(status, 0, said)
            self.assertEqual(self.calls(), [f"{each} " for name in command.PARTS for each in [name] * (1 + (name == stop))])

    # Fails if a fault is stored as a success, or the result does not say of which weights it is.
    def test_what_is_stored(self):
        same = copy.deepcopy(SAME)
        same["heads"][0]["beyond_bound"] = 2
        self.write("fake/same-hidden", json.dumps(same))
        status, said = self.measure("--random")
        self.assertEqual(status, 1, said)
        found = json.loads((self.root / "out/result.json").read_text(encoding="utf-8"))
        self.assertEqual((found["weights"], len(found["wrong"]), found["device"]), ("random", 1, "NVIDIA X1 80GB"))
        self.assertEqual(len(found["trunk"]), 3)

    # Fails if parts of two checkpoints are joined, or the checkpoint does not reach a part.
    def test_checkpoints(self):
        one, other = self.write("out/one.pt", "1"), self.write("out/other.pt", "2")
        self.assertEqual(self.measure("--checkpoint", one)[0], 0)
        self.assertEqual(self.calls()[0], f"same-hidden {one.resolve()}")
        status, said = self.measure("--checkpoint", other)
        self.assertEqual(status, 2)
        self.assertIn("begun with other files", said)

    # Fails if the weights are left to chance, or words that mean nothing here are taken.
    def test_usage(self):
        for words, named in ((("--keep", "x"), "--checkpoint"), (("--random", "--checkpoint", "x"), "not allowed"),
                             (("--checkpoint", "/nowhere"), "nowhere"), (("--random", "--rows", "3"), "unrecognized")):
            status, said = self.measure(*words)
            self.assertEqual(status, 2, said)
            self.assertIn(named, said)


if __name__ == "__main__":
    unittest.main()
