# SPDX-License-Identifier: Apache-2.0
"""The head, the heads that it refuses, and trainers' signatures."""

import math
import re
import sys
import unittest
from functools import partial

from support import PACKAGE, ROOT, bits_are_equal, leaf, problem

sys.path.insert(0, str(PACKAGE))

import torch
from plumbline.torch import (
    LinearCrossEntropy,
    causal_lm_loss,
    linear_cross_entropy,
    trl_chunked_logprob,
    verl_linear_cross_entropy,
)
from plumbline.torch.heads import check_head
from plumbline.torch.memory import bytes_of
from torch.nn.utils import parametrizations


class Adapter(torch.nn.Linear):
    """As an adapter wraps a head: its product is not that of its weight."""


class Quantised(torch.Tensor):
    """As a quantised weight is one."""


class Head(unittest.TestCase):
    # Fails if a checkpoint of nn.Linear does not fit, or sampling has other logits.
    def test_is_a_linear(self):
        head, linear = LinearCrossEntropy(16, 130), torch.nn.Linear(16, 130, bias=False)
        head.load_state_dict(linear.state_dict())
        hidden, _, labels, _ = problem()
        self.assertTrue(torch.equal(head(hidden), linear(hidden)))
        expected = linear_cross_entropy(hidden, linear.weight, labels, 0.5)
        self.assertTrue(all(map(bits_are_equal, head(hidden, labels, temperature=0.5), expected)))
        cold = LinearCrossEntropy(2, 3, temperature=0.5)
        self.assertIn("temperature=0.5", repr(cold))
        self.assertEqual(LinearCrossEntropy.from_linear(cold, reduction="mean").options, {"temperature": 0.5, "reduction": "mean"})

    # Fails if a tied weight is copied, or one of its two gradients is lost.
    def test_tied(self):
        embedding = torch.nn.Embedding(130, 16)
        linear = torch.nn.Linear(16, 130, bias=False)
        linear.weight = embedding.weight
        head = LinearCrossEntropy.from_linear(linear)
        self.assertIs(head.weight, embedding.weight)
        _, _, labels, _ = problem()
        head(embedding(labels.clamp(min=0)), labels)[0].sum().backward()
        both = embedding.weight.grad.clone()
        other = [leaf(embedding.weight), leaf(embedding.weight)]
        hidden = torch.nn.functional.embedding(labels.clamp(min=0), other[0])
        linear_cross_entropy(hidden, other[1], labels)[0].sum().backward()
        torch.testing.assert_close(both, other[0].grad + other[1].grad)

    # Fails if the weight of a head that multiplies by something else is read past what makes it so.
    def test_refused(self):
        def plain():
            return torch.nn.Linear(4, 5, bias=False)

        hooked = plain()
        hooked.register_forward_hook(lambda *_: None)
        quantised = plain()
        quantised.weight = torch.nn.Parameter(quantised.weight.detach().as_subclass(Quantised))
        partitioned = plain()
        partitioned.weight = torch.nn.Parameter(torch.empty(0))
        partitioned.weight.ds_id = 0
        replaced = plain()
        replaced.forward = lambda hidden: 2 * torch.nn.functional.linear(hidden, replaced.weight)
        for said, head in (("head.forward has been replaced", replaced), ("Adapter: nn.Linear is needed", Adapter(4, 5, bias=False)), ("head.bias has shape", torch.nn.Linear(4, 5)),
                           ("head has forward_hooks", hooked), ("parametrizations of weight", parametrizations.weight_norm(plain())),
                           ("Quantised", quantised), ("partitioned", partitioned)):  # fmt: skip
            with self.subTest(said), self.assertRaisesRegex(TypeError, said):
                LinearCrossEntropy.from_linear(head)
        with self.assertRaisesRegex(TypeError, "Quantised"):
            linear_cross_entropy(torch.randn(3, 4), quantised.weight, torch.tensor([0, 1, 2]))
        with self.assertRaisesRegex(TypeError, "bias = True"):
            LinearCrossEntropy(4, 5, bias=True)

    # Fails if a head passes that adds to what its weight makes, or one is refused that FSDP2 or a parametrization, whose weight
    # is what it multiplies by, has made a subclass of nn.Linear.
    def test_checked(self):
        class Added(torch.nn.Linear):
            def forward(self, hidden):
                return super().forward(hidden) + 1

        for plain in (torch.nn.Linear(4, 5), Adapter(4, 5), parametrizations.weight_norm(torch.nn.Linear(4, 5))):
            check_head(plain)
        for other in (Added(4, 5), torch.nn.Sequential(torch.nn.Linear(4, 5))):
            with self.assertRaisesRegex(TypeError, rf"{type(other).__name__}: nn.Linear is needed"):
                check_head(other)


class Scoring(torch.nn.Module):
    """Log-probabilities by verl's signature."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(130, 16))

    def forward(self, hidden, labels):
        return verl_linear_cross_entropy(hidden, self.weight, labels)[0]


class Trainers(unittest.TestCase):
    # Fails if a signature's outputs have another sign, shape or scale, or an argument is dropped in silence.
    def test_signatures(self):
        hidden, weight, labels, _ = problem()
        labels = labels.clamp(min=0)
        logprob, entropy = linear_cross_entropy(hidden, weight, labels, 0.7)
        nested = hidden.unflatten(0, (4, 6)), weight, labels.unflatten(0, (4, 6)), 0.7
        self.assertTrue(all(map(bits_are_equal, verl_linear_cross_entropy(*nested), (logprob, entropy))))
        torch.testing.assert_close(verl_linear_cross_entropy(*nested, "mean")[0], logprob.mean())
        scaled = trl_chunked_logprob(hidden, weight, None, labels, 1.4, 8, None, 2.0)
        self.assertTrue(all(map(bits_are_equal, scaled, (logprob, entropy))))
        for outputs, expected in ((("log_probs", "entropy"), entropy), (("log_probs",), None)):
            found = trl_chunked_logprob(hidden, weight, None, labels, 1.4, 8, None, 2.0, outputs)
            self.assertEqual(found[2:], (None, None, None))
            self.assertTrue(bits_are_equal(found[0], logprob))
            self.assertTrue(found[1] is expected is None or bits_are_equal(found[1], expected))
        for call in (lambda: verl_linear_cross_entropy(*nested, "none", "a group"),
                     lambda: trl_chunked_logprob(hidden, weight, weight[:, 0], labels, 1.0, 8),
                     lambda: causal_lm_loss(hidden, weight, labels, final_logit_softcapping=30.0)):  # fmt: skip
            with self.assertRaisesRegex(TypeError, r"(dist_process_group|bias|final_logit_softcapping) = .*does not support"):
                call()

    # Fails if what a trainer hands over is refused in words of PyTorch's, of another argument, or taken for what it is not.
    def test_refusals_of_trainers(self):
        hidden, weight, labels, _ = problem()
        labels = labels.clamp(min=0)
        nested = hidden.detach().reshape(2, 12, -1), weight.detach(), labels.reshape(2, 12)
        scaled = partial(trl_chunked_logprob, hidden, weight, None, labels, 1.0)
        for said, call in (
                ("labels.dtype = torch.uint8", lambda: causal_lm_loss(*nested[:2], nested[2].to(torch.uint8))),
                ("labels is a list", lambda: causal_lm_loss(*nested[:2], [1])),
                ("shift_labels is a list", lambda: causal_lm_loss(*nested[:2], shift_labels=[1])),
                ("hidden_states is a list", lambda: causal_lm_loss([1.0], *nested[1:])),
                (r"labels.shape = \(\)", lambda: causal_lm_loss(*nested[:2], labels[0])),
                (r"labels.shape = \(24,\)", lambda: causal_lm_loss(*nested[:2], labels)),
                ("ignore_index = 'x'", lambda: causal_lm_loss(*nested, ignore_index="x")),
                ("logit_scale = inf", lambda: scaled(logit_scale=float("inf"))),
                ("logit_scale = 1e-320", lambda: scaled(logit_scale=1e-320)),
                ("logit_scale = 1000", lambda: causal_lm_loss(*nested, logit_scale=10**400)),
                ("weight is a NoneType", lambda: trl_chunked_logprob(hidden, None, None, labels, 1.0)),
                ("temperature is a str", lambda: trl_chunked_logprob(hidden, weight, None, labels, "1")),
                (r"outputs = \('log_probs', 'is_top1'\)", lambda: scaled(outputs=("log_probs", "is_top1"))),
                ("outputs = 'entropy'", lambda: scaled(outputs="entropy")),
                ("outputs = 1", lambda: scaled(outputs=1)),
                ("reduction = 5", lambda: verl_linear_cross_entropy(*nested, reduction=5)),
                (r"hidden.shape = \(\)", lambda: verl_linear_cross_entropy(hidden.sum(), weight, labels)),
                (r"labels.shape = \(12, 2\)", lambda: verl_linear_cross_entropy(*nested[:2], labels.reshape(12, 2)))):  # fmt: skip
            with self.subTest(said), self.assertRaisesRegex((TypeError, ValueError), said):
                call()
        one = nested[0][:1], weight, labels[:12]
        self.assertTrue(bits_are_equal(causal_lm_loss(*one), causal_lm_loss(*one[:2], labels[None, :12])))
        extents = {0: torch.export.Dim("B"), 1: torch.export.Dim("S")}
        sizes = {"hidden": extents, "labels": extents}
        exported = torch.export.export(Scoring(), (nested[0], nested[2]), dynamic_shapes=sizes, strict=False).module()
        found = exported(nested[0][:1, :5], nested[2][:1, :5])
        self.assertTrue(bits_are_equal(found, verl_linear_cross_entropy(nested[0][:1, :5], exported.weight, labels[None, :5])[0]))
        narrow = causal_lm_loss(*nested[:2], nested[2].int(), ignore_index=1 << 40)
        self.assertTrue(bits_are_equal(narrow, causal_lm_loss(*nested, ignore_index=1 << 40)))
        empty = verl_linear_cross_entropy(torch.randn(2, 3, 0), torch.randn(11, 0), torch.zeros(2, 3, dtype=torch.int64))
        torch.testing.assert_close(empty[1], torch.full((6,), math.log(11)))

    # Fails if labels are not shifted, or the sum is divided by another number.
    def test_causal_lm_loss(self):
        hidden, weight, labels, _ = problem()
        hidden, labels = hidden.unflatten(0, (4, 6)), labels.unflatten(0, (4, 6))
        logits = (hidden @ weight.t())[:, :-1].flatten(0, 1)
        targets = labels[:, 1:].flatten()
        expected = torch.nn.functional.cross_entropy(logits, targets)
        torch.testing.assert_close(causal_lm_loss(hidden, weight, labels), expected)
        total = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        torch.testing.assert_close(causal_lm_loss(hidden, weight, labels, num_items_in_batch=7), total / 7)
        moved = torch.nn.functional.pad(labels, (0, 1), value=-100)[..., 1:]
        torch.testing.assert_close(causal_lm_loss(hidden, weight, shift_labels=moved), expected)


class Memory(unittest.TestCase):
    # Fails if a unit is read as another one.
    def test_units(self):
        self.assertEqual([bytes_of(each) for each in ("4GiB", "1.5 MB", 7, "0")], [4 << 30, 1500000, 7, 0])


class Page(unittest.TestCase):
    # Fails if a block of the page does not run.
    def test_every_block_runs(self):
        page = (ROOT / "kernel/TORCH.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(blocks), 2)
        names = {}
        for block in blocks:
            exec(block, names)  # noqa: S102


if __name__ == "__main__":
    unittest.main()
