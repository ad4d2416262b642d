# SPDX-License-Identifier: Apache-2.0
"""Problems whose outputs NumPy computes in fp64, written as dumps; what plumb check says of them."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
from plumbline import library, stored

DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "int32": "I32", "int64": "I64"}


def tensor(array: np.ndarray) -> stored.Tensor:
    array = np.asarray(array)
    return stored.Tensor(DTYPES[array.dtype.name], array.shape, np.ascontiguousarray(array).tobytes())


def bf16(array: np.ndarray) -> np.ndarray:
    """Values rounded to bf16, ties to even, in fp64."""
    bits = np.asarray(array, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@dataclasses.dataclass
class Job:
    """One step: its inputs, and what an exact kernel returns, in fp64."""

    hidden: np.ndarray
    weight: np.ndarray
    labels: np.ndarray
    temperature: float = 1.0
    ignore_index: int = -100

    @property
    def logits(self) -> np.ndarray:
        return self.hidden.astype(np.float64) @ self.weight.astype(np.float64).T

    @property
    def kept(self) -> np.ndarray:
        return self.labels != self.ignore_index

    def logprob(self, logits: np.ndarray | None = None) -> np.ndarray:
        logs = log_softmax(self.logits if logits is None else logits)
        return np.where(self.kept, logs[np.arange(len(logs)), np.where(self.kept, self.labels, 0)], 0)

    def tensors(self, vocabulary: int | None = None) -> dict[str, np.ndarray]:
        """Inputs and outputs, the gradients of sum g logprob, over the first `vocabulary` rows of weight."""
        weight = self.weight[:vocabulary].astype(np.float64)
        hidden = np.where(self.kept[:, None], self.hidden, 0).astype(np.float64)
        logs = log_softmax(hidden @ weight.T / self.temperature)
        at = np.arange(len(logs)), np.where(self.kept, self.labels, 0)
        g = np.linspace(-1, 2, len(logs)).astype(np.float32)
        dz = -np.exp(logs)
        dz[at] += 1
        dz *= np.where(self.kept, g, 0)[:, None] / self.temperature
        grad_weight = np.zeros_like(self.weight)
        grad_weight[:vocabulary] = dz.T @ hidden
        return {
            "hidden": self.hidden,
            "weight": self.weight,
            "labels": self.labels,
            "temperature": np.float32(self.temperature),
            "logprob": np.where(self.kept, logs[at], 0).astype(np.float32),
            "entropy": np.where(self.kept, -(np.exp(logs) * logs).sum(-1), 0).astype(np.float32),
            "grad_logprob": g,
            "grad_hidden": (dz @ weight).astype(np.float32),
            "grad_weight": grad_weight.astype(np.float32),
        }


def job(rows: int = 24, vocabulary: int = 40, size: int = 16, *, seed: int = 1, scale: float = 1.0,
        temperature: float = 1.0) -> Job:
    random = np.random.default_rng(seed)
    hidden = (scale * random.standard_normal((rows, size))).astype(np.float32)
    weight = random.standard_normal((vocabulary, size)).astype(np.float32)
    return Job(hidden, weight, random.integers(0, vocabulary, rows), temperature)


class Dumps(unittest.TestCase):
    """A folder, and plumb check on what is written there."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def write(self, tensors: dict[str, np.ndarray], name: str = "d.safetensors", **metadata: str) -> pathlib.Path:
        path = self.path / name
        stored.write_safetensors(path, {key: tensor(value) for key, value in tensors.items()}, metadata)
        return path

    def check(self, path: pathlib.Path, *words: object, rows: object = "all") -> tuple[int, str, str]:
        """Its exit status, what it printed, and what it complained of."""
        command = [library.program(), "check", path, "--rows", rows, "--arbiter", "1ms", *words]
        ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)
        return ended.returncode, ended.stdout, ended.stderr

    def report(self, path: pathlib.Path, *words: object, rows: object = "all") -> dict:
        """The JSON of the one dump."""
        _, out, err = self.check(path, "--json", *words, rows=rows)
        try:
            return json.loads(out.splitlines()[-1])["dumps"][0]
        except (IndexError, KeyError, ValueError):
            raise AssertionError(out + err) from None
