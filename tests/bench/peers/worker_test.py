#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests which errors a worker of `bench/peers --errors` measures, without PyTorch or a GPU."""

import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from peers import worker


class Hidden(float):
    """Stands for a tensor of one number."""

    def detach(self):
        return self

    def __mul__(self, factor):
        return Hidden(float(self) * factor)

    def requires_grad_(self):
        return self


class Scripted(worker.Worker):
    """Has rows of 1, an upstream gradient of 5, and says of an error what it is of."""

    def __init__(self):
        self.hidden, self.g = Hidden(1), 5.0
        nothing = SimpleNamespace(empty_cache=lambda: None, synchronize=lambda: None)
        self.torch, self.half_ignored = SimpleNamespace(zeros_like=lambda _: 0.0, cuda=nothing), False

    def exact(self):
        return f"exact at {float(self.hidden):g}"

    def errors_of(self, call, peer, right):
        return {"call": call, "hidden": float(self.hidden), "g": self.g, "right": right}


def refuses():
    raise RuntimeError("absent")


class ErrorsAlone(unittest.TestCase):
    def run_worker(self, listed, skip=()):
        told = []
        catalogue = SimpleNamespace(versions=lambda peer: {})
        with mock.patch.dict(sys.modules, {"peers.catalogue": catalogue}), \
                mock.patch.object(worker, "tell", lambda **message: told.append(message)):
            Scripted().errors_alone(listed, set(skip))
        return {message["peer"]: message for message in told if "peer" in message}

    # Fails if a flat row has another gradient beside the entropy's, is scaled twice, is held to what is exact of other rows,
    # or stands where a peer takes no gradient of the entropy; if one that fails ends the others, or is not named.
    def test_what_is_measured(self):
        def peer(name, contract, load):
            return SimpleNamespace(name=name, contract=contract, load=load, note="", ignores=True)
        found = self.run_worker([peer("bad", "rows", refuses), peer("a", "rows", lambda: ("call", "its note")),
                                 peer("b", "nll", lambda: "other"), peer("c", "rows", refuses)], skip={"c"})
        self.assertEqual(set(found), {"bad", "a", "b"})
        self.assertEqual(found["bad"]["reason"], "RuntimeError: absent")
        self.assertEqual(found["a"]["errors"], {"call": "call", "hidden": 1.0, "g": 5.0, "right": "exact at 1"})
        self.assertEqual(found["a"]["note"], "its note")
        flat = [(each["sigma"], each["errors"]["hidden"], each["errors"]["g"], each["errors"]["right"])
                for each in found["a"]["entropy_alone"]]
        self.assertEqual(flat, [(1.0, 0.5, 0.0, "exact at 0.5"), (1 / 16, 1 / 32, 0.0, "exact at 0.03125")])
        self.assertEqual((found["b"]["errors"]["right"], found["b"]["entropy_alone"]), ("exact at 1", []))


if __name__ == "__main__":
    unittest.main()
