#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A folder of ranks' files joined to one dump, and whose shard plumb check finds wrong."""

import contextlib
import io
import itertools
import json
import sys
import tracemalloc
import unittest

from support import PACKAGE

sys.path[:0] = [str(PACKAGE)]

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed") from None

from plumbline import dump, shards, stored
from real_job import Dumps, Job, job

OF_WEIGHT = ("weight", "grad_weight")
EDGES = (0, 9, 20, 30, 40)


class Shards(Dumps):
    def setUp(self) -> None:
        super().setUp()
        self.folder = self.path / "ranks"
        self.folder.mkdir()
        self.joined = self.path / "joined.safetensors"

    def ranks(self, arrays: dict[str, np.ndarray], split: str, edges: tuple[int, ...] = EDGES) -> list[dict]:
        """What each rank holds of a problem that is split at these edges."""
        held = []
        for begin, end in itertools.pairwise(edges):
            mine = {}
            for name, array in arrays.items():
                of_weight = name in OF_WEIGHT
                divided = of_weight if split == "vocabulary" else not of_weight and array.ndim > 0
                mine[name] = array[begin:end] if divided else array.copy()
            held.append(mine)
        return held

    def put(self, held: list[dict], metadata: list[dict] | None = None) -> None:
        for file in self.folder.iterdir():
            file.unlink()
        for rank, arrays in enumerate(held):
            self.write(arrays, f"ranks/step_rank{rank}.safetensors", **(metadata[rank] if metadata else {}))

    def join(self, *words: object) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = dump.main([str(word) for word in (self.folder, "--out", self.joined, *words)])
        return status, out.getvalue(), err.getvalue()

    def judged(self, held: list[dict], metadata: list[dict] | None = None) -> tuple[int, str, dict]:
        self.put(held, metadata)
        status, _, err = self.join()
        self.assertEqual(status, 0, err)
        status, out, _ = self.check(self.joined)
        return status, out, self.report(self.joined)["shards"]

    def refused(self, held: list[dict], metadata: list[dict] | None, *words: str) -> None:
        self.put(held, metadata)
        status, out, err = self.join()
        self.assertEqual((status, out), (2, ""), err)
        for word in words:
            self.assertIn(word, err)


class Vocabulary(Shards):
    # Fails if a part lands in another's place, if a rank's file that has padding is not read as one, or if starts that
    # the files say are not those of the dump. Without starts the order is that of the ranks.
    def test_shards_are_joined_in_their_order(self):
        whole = job(vocabulary=40)
        whole.labels %= 37
        arrays = whole.tensors(37)
        held = self.ranks(arrays, "vocabulary")
        starts = [{"vocabulary_start": str(EDGES[rank]), "world_size": "4", "vocab_size": "37"} for rank in range(4)]
        turned = [held[rank] for rank in (2, 0, 3, 1)]
        for order, metadata, ranks in ((held, [{"vocabulary_size": "37"}] * 4, [0, 1, 2, 3]),
                                       (turned, [starts[rank] for rank in (2, 0, 3, 1)], [1, 3, 0, 2])):
            status, out, said = self.judged(order, metadata)
            self.assertEqual(status, 0, out)
            self.assertIn("rank 3 has [" if ranks[0] == 0 else "shards: 4 ranks split the vocabulary: rank 1 has [0, 9)", out)
            self.assertEqual((said["split"], said["bounds"], said["ranks"]), ("vocabulary", list(EDGES), ranks))
            tensors, metadata = stored.read_safetensors(self.joined)
            for name in OF_WEIGHT:
                self.assertEqual(tensors[name].data, arrays[name].tobytes())
            self.assertEqual(metadata["vocabulary_size"], "37")

    # Fails if wrong elements are counted in another shard, if all are said to lie where some do, or if the worst one's
    # place is not as its rank counts.
    def test_the_rank_of_wrong_elements_is_named(self):
        held = self.ranks(job().tensors(), "vocabulary")
        held[3]["grad_weight"][4, 2] += 1
        held[3]["grad_weight"][5] += 0.5
        status, out, said = self.judged(held)
        self.assertEqual(status, 1)
        self.assertIn("shards: wrong elements of grad_weight all lie in rank 3's shard [30, 40)\n", out)
        self.assertIn("shards: grad_weight[34, 2] is row 4 of rank 3's shard [30, 40)\n", out)
        self.assertEqual(said["wrong"], {"grad_weight": [0, 0, 0, 17]})
        self.assertEqual(said["worst"], {"grad_weight": {"rank": 3, "row": 4}})
        held[1]["grad_weight"][0, 0] += 1
        status, out, said = self.judged(held)
        self.assertIn("shards: wrong elements of grad_weight lie in 2 of 4 shards: 1 in rank 1's shard [9, 20), "
                      "17 in rank 3's shard [30, 40)\n", out)

    # Fails if a rank that looks labels up wrongly is not named by the labels of the rows that are wrong.
    def test_the_rank_of_wrong_labels_is_named(self):
        arrays = job().tensors()
        arrays["logprob"][(arrays["labels"] >= 9) & (arrays["labels"] < 20)] -= 1
        status, out, said = self.judged(self.ranks(arrays, "vocabulary"))
        self.assertEqual(status, 1)
        self.assertIn("shards: rows whose logprob, entropy or lse is wrong all have their label in rank 1's shard [9, 20)", out)
        self.assertEqual(said["wrong_labels"], 1)
        arrays["logprob"] -= 1
        self.assertNotIn("wrong_labels", self.judged(self.ranks(arrays, "vocabulary"))[2])

    # Fails if an output that ranks have in different bits passes, if the ranks that most agree with are named, or if
    # what ignored rows hold, or the sign of 0, is a difference.
    def test_outputs_that_are_not_the_same_are_a_finding(self):
        whole = job()
        whole.labels[3] = -100
        held = self.ranks(whole.tensors(), "vocabulary")
        held[0]["logprob"][3], held[2]["logprob"][3] = np.nan, 7
        held[1]["grad_hidden"][3] *= -1
        self.assertEqual(self.judged(held)[0], 0)
        held[0]["logprob"][5] += 0.25
        held[2]["grad_hidden"][7:9, 1] += 2
        status, out, said = self.judged(held)
        self.assertEqual(status, 1)
        self.assertTrue(out.startswith("WRONG: logprob is not the same on all ranks: rank 0\n"
                                       "   and: grad_hidden is not the same on all ranks: rank 2\n"), out)
        self.assertIn("wrong: rank 2 has another grad_hidden than the other ranks, which must all have the same: "
                      "elements that differ: 2, by 2 at most, the first in row 7\n", out)
        self.assertEqual([entry["ranks"] for entry in said["unequal"]], [[0], [2]])
        held[1]["logprob"][6] = np.nan
        entry = self.judged(held)[2]["unequal"][0]
        self.assertEqual((entry["ranks"], entry["elements"], entry["row"], entry["largest"]), ([0, 1], 2, 5, "nan"))

    # Fails if an input that is not the same on all ranks is taken from one of them.
    def test_inputs_must_be_the_same(self):
        held = self.ranks(job().tensors(), "vocabulary")
        held[2]["grad_logprob"] = held[2]["grad_logprob"] * 2
        self.refused(held, None, "grad_logprob of rank 2 (step_rank2.safetensors) is not that of rank 0")
        held[2]["hidden"] = held[2]["hidden"] + 1
        self.refused(held, None, "neither hidden nor weight is the same on all ranks: rank 2 (step_rank2.safetensors) "
                                 "has another hidden than rank 0")
        self.refused([held[0]] * 3, None, "the same on all ranks: nothing is split")

    # Fails if a hole, an overlap, a rank that is missing or there twice, or another shape is joined.
    def test_what_does_not_fit_is_refused(self):
        held = self.ranks(job().tensors(), "vocabulary")

        def starts(*values: int) -> list[dict]:
            return [{"vocabulary_start": str(value)} for value in values]

        self.refused(held, starts(0, 9, 21, 31), "no rank has weight's rows [20, 21): rank 1 (step_rank1.safetensors) "
                                                 "ends at 20, and vocabulary_start of rank 2 ")
        self.refused(held, starts(0, 9, 19, 30), "two ranks have weight's rows from 19 on: rank 1 ")
        self.refused(held, starts(1, 10, 21, 31), "no rank has weight's rows [0, 1): ")
        self.refused(held, [*starts(0, 9, 20), {}], "rank 3 (step_rank3.safetensors): has no vocabulary_start")
        self.refused(held, [*starts(0, 9, 20), {"row_start": "30"}], "vocabulary_start in ", "row_start in ")
        self.refused(held, starts(0, 9, 20, 30)[:3] + [{"vocabulary_start": "x"}], "vocabulary_start is 'x', not an integer")
        self.refused(held, [{"world_size": "5"}] * 4, "world_size is 5, rank 4 is missing; there are 0, 1, 2, 3")
        self.refused(held, [{"world_size": "3"}] * 4, "rank 3 (step_rank3.safetensors): beyond world_size, which is 3")
        self.refused(held, [{"world_size": str(4 + rank // 3)} for rank in range(4)], "world_size is not the same")
        self.refused(held, [{"rank": "2"}] * 4, "rank 2 has two files: step_rank0.safetensors and step_rank1.safetensors")
        self.refused(held, [{"rank": str(rank - 1)} for rank in range(4)], "a rank below 0")
        self.refused(held, [{"vocabulary_size": "41"}] * 4, "no rank has weight's rows [40, 41): vocabulary_size is 41")
        self.refused(held, [{"ignore_index": str(rank)} for rank in range(4)], "ignore_index is 1 in rank 1 ")
        twice = [held[0], held[1], held[0], held[3]]
        self.refused(twice, None, "rank 2 (step_rank2.safetensors) holds the same shard of weight as rank 0 ")
        held[1]["weight"] = held[1]["weight"][:, :7]
        self.refused(held, None, "weight is F32 [11, 7] of rank 1 (step_rank1.safetensors), and F32 [9, 16] of rank 0")
        del held[1]["grad_weight"], held[1]["weight"]
        self.refused(held, None, "step_rank1.safetensors: no array is weight")
        self.put([])
        self.assertIn("no file in it ends in .safetensors", self.join()[2])

    # Fails if a file that is missing in the middle is not noticed, or a folder is not told from a dump.
    def test_a_missing_file(self):
        self.put(self.ranks(job().tensors(), "vocabulary"))
        (self.folder / "step_rank2.safetensors").unlink()
        status, _, err = self.join()
        self.assertEqual(status, 2)
        self.assertIn("rank 2 is missing; there are 0, 1, 3", err)
        status, _, err = self.check(self.folder)
        self.assertEqual(status, 2)
        self.assertIn("is a folder; python -m plumbline.dump joins", err)

    # Fails if joining copies a weight: half of one shard of eight is more than all that may be allocated.
    def test_the_weight_is_not_copied(self):
        random = np.random.default_rng(0)
        whole = Job(random.standard_normal((4, 512)).astype(np.float32),
                    random.standard_normal((8192, 512)).astype(np.float32), random.integers(0, 8192, 4))
        arrays = {"hidden": whole.hidden, "weight": whole.weight, "labels": whole.labels}
        self.put(self.ranks(arrays, "vocabulary", tuple(range(0, 8193, 1024))))
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        made = shards.join(self.folder, out=self.joined)
        stored.write_joined(self.joined, made.parts, made.metadata)
        self.assertLess(tracemalloc.get_traced_memory()[1], 1 << 20)
        self.assertEqual(stored.read_safetensors(self.joined)[0]["weight"].data, whole.weight.tobytes())

    # Fails if tensors of PyTorch are not joined, or lose bits.
    def test_files_of_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        held = self.ranks(job().tensors(), "vocabulary")
        for rank, arrays in enumerate(held):
            torch.save({**{name: torch.as_tensor(array) for name, array in arrays.items()}, "tp_rank": rank,
                        "tp_size": 4}, self.folder / f"{rank}.pt")
        self.assertEqual(self.join()[0], 0)
        self.assertEqual(self.check(self.joined)[0], 0)


class Rows(Shards):
    EDGES = (0, 5, 5, 17, 24)

    # Fails if rows are not joined in their order, if wrong rows are another rank's, or if a gradient of weight before
    # its sum over ranks is judged.
    def test_rows_are_joined(self):
        whole = job(temperature=0.5)
        whole.labels[6] = -100
        held = self.ranks(whole.tensors(), "rows", self.EDGES)
        status, out, said = self.judged(held)
        self.assertEqual(status, 0, out)
        self.assertEqual((said["split"], said["bounds"]), ("rows", list(self.EDGES)))
        held[2]["entropy"][[3, 5]] += 1
        held[2]["grad_hidden"][7] = 0
        status, out, said = self.judged(held)
        self.assertEqual(status, 1)
        self.assertIn("shards: wrong elements of entropy all lie in rank 2's shard [5, 17)\n", out)
        self.assertEqual(said["worst"]["grad_hidden"], {"rank": 2, "row": 7})
        self.assertEqual(said["wrong"]["entropy"], [0, 0, 2, 0])
        for rank, arrays in enumerate(held):
            arrays["grad_weight"] = arrays["grad_weight"] * (rank + 1)
        _, out, _ = self.judged(held)
        self.assertIn("not looked at: grad_weight: another on every rank, as before they are reduced", out)

    # Fails if a mean over each rank's own rows is divided by the rows of all, or a mean over all by those of one.
    def test_reductions(self):
        whole = job()
        whole.labels[2] = -100
        edges = (0, 10, 24)
        held = self.ranks(whole.tensors(), "rows", edges)
        for rank, arrays in enumerate(held):
            mine = Job(*(getattr(whole, name)[edges[rank] : edges[rank + 1]] if name != "weight" else whole.weight
                         for name in ("hidden", "weight", "labels")))
            logs = mine.logits - np.log(np.exp(mine.logits).sum(-1, keepdims=True))
            dz = np.exp(logs)
            dz[np.arange(len(dz)), np.where(mine.kept, mine.labels, 0)] -= 1
            dz *= mine.kept[:, None] * 1.5 / mine.kept.sum()
            arrays["loss"] = np.float32(-(mine.logprob().sum() / mine.kept.sum()))
            arrays["grad_logprob"] = np.float32(1.5)
            arrays["grad_hidden"] = (dz @ whole.weight).astype(np.float32)
            del arrays["grad_weight"]
        status, out, _ = self.judged(held, [{"reduction": "mean"}] * 2)
        self.assertEqual(status, 0, out)
        self.assertIn("not looked at: loss: a mean over each rank's own rows", out)
        loss = np.float32(-whole.logprob().sum() / 23)
        for arrays in held:
            arrays["loss"] = loss
            del arrays["grad_hidden"]
        status, out, _ = self.judged(held, [{"reduction": "mean"}] * 2)
        self.assertEqual(status, 0, out)
        self.assertIn(", reduction mean", out)

    # Fails if rows of a rank that are missing, or a scalar of another rank, are not refused.
    def test_what_does_not_fit_is_refused(self):
        held = self.ranks(job().tensors(), "rows", self.EDGES)
        self.refused(held, [{"row_start": str(edge + (edge > 4))} for edge in self.EDGES[:4]],
                     "no rank has hidden's rows [5, 6): ", "row_start of rank 1")
        held[3]["temperature"] = np.float32(2)
        self.refused(held, None, "temperature of rank 3 (step_rank3.safetensors) is not that of rank 0")


class Boundaries(Shards):
    # Fails if metadata that say no boundaries are read, or if a refusal does not name key and value.
    def test_malformed_boundaries_are_refused(self):
        sound = {"split": "vocabulary", "bounds": [0, 9, 40], "ranks": [1, 0]}
        entry = {"output": "lse", "ranks": [1], "elements": 1, "row": 0, "largest": 0.5}
        arrays = job().tensors()
        self.assertEqual(self.check(self.write(arrays, shard_boundaries=json.dumps(sound)))[0], 0)
        refused = [
            ("[1]", "it is [1], not an object"),
            ("{", "shard_boundaries"),
            ({"split": "columns"}, 'split is "columns", not "vocabulary" or "rows"'),
            ({"split": None}, "split is null"),
            ({"bounds": [0, 9, 41]}, "bounds is [0,9,41], not integers that rise from 0 to 40"),
            ({"bounds": [0, 50, 40]}, "bounds is [0,50,40]"),
            ({"bounds": [1, 9, 40]}, "bounds is [1,9,40]"),
            ({"bounds": [0, 9.5, 40]}, "bounds is [0,9.5,40]"),
            ({"bounds": [40]}, "bounds is [40]"),
            ({"bounds": {}}, "bounds is {}"),
            ({"split": "rows"}, "not integers that rise from 0 to 24"),
            ({"ranks": [0]}, "ranks is [0], not 2 different numbers, one a shard"),
            ({"ranks": [1, 1]}, "ranks is [1,1]"),
            ({"ranks": [-1, 0]}, "ranks is [-1,0]"),
            ({"unequal": {}}, "unequal is {}, not an array"),
            ({"unequal": [7]}, "unequal's output is missing, not an output"),
            ({"unequal": [entry | {"output": "lsd"}]}, 'unequal\'s output is "lsd"'),
            ({"unequal": [entry | {"ranks": [2]}]}, "unequal's ranks is [2], not ranks of this dump"),
            ({"unequal": [entry | {"elements": -1}]}, "unequal's elements is -1"),
            ({"unequal": [entry | {"row": "x"}]}, 'unequal\'s row is "x"'),
            ({"unequal": [entry | {"largest": None}]}, "unequal's largest is null"),
            ({"left_out": "x"}, 'left_out is "x", not an array'),
            ({"left_out": [1]}, "left_out is 1, not a text"),
        ]
        for change, words in refused:
            text = change if isinstance(change, str) else json.dumps(sound | change)
            status, _, err = self.check(self.write(arrays, shard_boundaries=text))
            self.assertEqual(status, 2, text)
            self.assertIn('metadata "shard_boundaries": ', err)
            self.assertIn(words, err)


if __name__ == "__main__":
    unittest.main()
