#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/training/decoding.py: a trunk that decodes with a cache, beside the same trunk on whole sequences."""

import functools
import math
import pathlib
import sys
import unittest
from unittest import mock

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[0:0] = [str(ROOT / "bench")]
from training import decoding, factors, model, ratios, sampler
from training.settings import Settings

torch.set_num_threads(1)
SMALL = Settings(vocabulary=50, hidden=16, layers=2, heads=2, context=12, compiled=False)
LENGTH = 9
# Sums have 64 terms at most. In fp64 their rounding is below 64 · 2^-53 of the magnitudes, in any order; the rest of the unit
# is for what a library's exp, erf and mean add.
UNIT = 2.0**-45
GELU = 1.13  # the largest slope of gelu


def trunk(dtype=torch.float64):
    """A trunk whose attention is not uniform."""
    decoder = model.made(SMALL, "cpu").to(dtype).requires_grad_(False)
    for block in decoder.blocks:
        block.mixed.weight.mul_(12)
    return decoder


def tokens_of(sequences, length=LENGTH, seed=5):
    return torch.randint(0, SMALL.vocabulary, (sequences, length), generator=torch.Generator().manual_seed(seed))


def longest(rows):
    """The largest 2-norm of a row."""
    return rows.norm(dim=-1).max().item()


def behind_linear(error, given, layer):
    """The error of a linear layer's rows whose input errs by `error`."""
    return torch.linalg.matrix_norm(layer.weight, 2).item() * error + UNIT * layer.weight.norm().item() * longest(given)


def behind_norm(error, given, layer):
    """That of a layer norm: its derivative's 2-norm is 1 / deviation, and a rounding of the mean or variance is one of the
    row's length or of its square."""
    deviation = (given.var(-1, correction=0) + layer.eps).sqrt().min().item()
    return error / deviation + UNIT * (longest(given) / deviation) ** 2


def bound(decoder, tokens):
    """What a row of hidden states in fp64 may be off from exact arithmetic, in the 2-norm, whatever the order of sums: each
    operation passes its input's error on by its largest slope, and adds UNIT of its magnitudes."""
    given, found = {}, {}
    hooks = [each.register_forward_hook(lambda module, inputs, output: given.update({module: inputs[0]}) or
                                        found.update({module: output})) for each in decoder.modules()]
    decoder(tokens)
    for each in hooks:
        each.remove()
    error = UNIT * longest(given[decoder.blocks[0]])
    for block in decoder.blocks:
        linear = [functools.partial(behind_linear, given=given[layer], layer=layer)
                  for layer in (block.mixed, block.out, block.up, block.down)]
        mixed = linear[0](behind_norm(error, given[block.before], block.before))
        query, key, value = map(longest, found[block.mixed].chunk(3, -1))
        score = ((query + key) * mixed + UNIT * query * key) / math.sqrt(SMALL.hidden // SMALL.heads)
        # Probabilities move by 2 · score together; a sum of values by as much of the longest value, and by a value's own error.
        attended = math.sqrt(SMALL.heads) * (mixed + (2 * score + UNIT) * value)
        error += linear[1](attended) + UNIT * longest(given[block.between])
        up = linear[2](behind_norm(error, given[block.between], block.between))
        error += linear[3](GELU * up + UNIT * longest(found[block.up])) + UNIT * longest(found[block])
    return behind_norm(error, given[decoder.last], decoder.last)


def farthest(decoder, tokens, prompt, batch):
    """How far a decoded row is from that of whole sequences, at most, in bounds of both."""
    apart = decoding.hidden_of(decoder, tokens, prompt, batch) - decoder(tokens)
    return longest(apart) / (2 * bound(decoder, tokens))


class Late(model.Cache):
    """Shows a single place the keys before it, not its own."""

    def extended(self, *new):
        before = self.held
        return before if super().extended(*new)[0].shape[2] > new[0].shape[2] else new


class Stale(model.Cache):
    """Keeps the prompt alone."""

    def extended(self, *new):
        before = self.held
        found = super().extended(*new)
        self.held = before or found
        return found


class Swapped(model.Cache):
    """Gives a sequence the keys of its neighbour."""

    def extended(self, *new):
        return tuple(each.roll(1, 0) for each in super().extended(*new))


class Shifted(model.Cache):
    """Counts one place less."""

    def places(self):
        return max(super().places() - 1, 0)


class Decoding(unittest.TestCase):
    # Fails if a place is numbered wrongly, a key is missing, later keys are seen in the prompt, or sequences are mixed up;
    # prompts of one place and of all, batches of one, of eight with a smaller last one, and one that is not full.
    def test_as_whole_sequences(self):
        decoder, tokens = trunk(), tokens_of(11)
        for prompt in (1, 4, LENGTH):
            for batch in (1, 8, 64):
                self.assertLess(farthest(decoder, tokens, prompt, batch), 1, (prompt, batch))

    # Fails if the bound is so wide that these defects are within it.
    def test_defects(self):
        decoder, tokens = trunk(), tokens_of(11)
        for defect in (Late, Stale, Swapped, Shifted):
            with mock.patch.object(model, "Cache", defect):
                self.assertGreater(farthest(decoder, tokens, 4, 8), 1, defect.__name__)

    # Fails if a batch leaves something to the next one, or a place is changed by what follows it.
    def test_what_follows_changes_nothing(self):
        decoder, tokens = trunk(), tokens_of(3)
        other = tokens.clone()
        other[:, 6:] = (other[:, 6:] + 1) % SMALL.vocabulary
        first, second = (decoding.decoded(decoder, each, 4) for each in (tokens, other))
        self.assertTrue(torch.equal(first[:, :6], second[:, :6]))
        self.assertTrue((first[:, 6:] != second[:, 6:]).any(-1).all())
        self.assertTrue(torch.equal(decoding.hidden_of(decoder, tokens.repeat(2, 1), 4, 3), first.repeat(2, 1, 1)))

    # Fails if the cache is of another dtype than the weights, lacks a place or has one twice, or hidden states carry a graph.
    def test_what_the_cache_holds(self):
        caches = [model.Cache() for _ in range(SMALL.layers)]
        with mock.patch.object(model, "Cache", side_effect=caches):
            found = decoding.decoded(trunk(torch.bfloat16).requires_grad_(True), tokens_of(2), 4)
        self.assertEqual((found.dtype, found.requires_grad), (torch.bfloat16, False))
        self.assertEqual([(each.dtype, each.shape) for cache in caches for each in cache.held],
                         [(torch.bfloat16, (2, SMALL.heads, LENGTH, SMALL.hidden // SMALL.heads))] * 2 * SMALL.layers)


class Rollout(unittest.TestCase):
    def measured(self, decoder, tokens, prompt):
        """(rollout's hidden states, training's) of each batch size, as the factors get them."""
        found = []
        with mock.patch.object(factors, "of_batch", side_effect=lambda *given: found.append(given[:2]) or []):
            ratios.trunk(decoder, tokens, sampler.SAMPLERS["t1"], prompt)
        return found

    # Fails if rollout's products have other rows than a decoder's in batches of 1, 8 and 64, or training's are not whole
    # sequences.
    def test_rows_of_products(self):
        decoder, shapes = trunk(torch.bfloat16), []
        decoder.blocks[1].mixed.register_forward_hook(lambda _, given, __: shapes.append(tuple(given[0].shape[:2])))
        self.measured(decoder, tokens_of(64, 7), 4)
        decoded = [(batch, width) for batch in (1, 8, 64) for _ in range(64 // batch) for width in (4, 1, 1)]
        self.assertEqual(shapes, [(64, 7), *decoded])

    # Fails if the places that are compared differ, or sequences do. Training's are rounded to bf16, which moves a number by
    # 2^-8 of itself at most.
    def test_the_same_places(self):
        decoder, tokens = trunk(), tokens_of(64, 7)
        most = 2 * bound(decoder, tokens)
        for rollout, training in self.measured(decoder, tokens, 4):
            self.assertEqual(rollout.shape, (64, 3, SMALL.hidden))
            self.assertTrue(((rollout - training.double()).abs() <= rollout.abs() * 2.0**-8 + most).all())


if __name__ == "__main__":
    unittest.main()
