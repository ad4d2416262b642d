# SPDX-License-Identifier: Apache-2.0
"""Small and benign problems in memory of our own, as the harness lays them out."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..call import Call
from ..views import View
from .reference import evaluate

IGNORED = -100


@dataclasses.dataclass(frozen=True)
class Problem:
    """The axes of a problem. Strides are in elements beyond the dense ones."""

    rows: int = 16
    vocab: int = 128
    depth: int = 64
    dtype: str = "fp32"
    label_dtype: str = "int64"
    layout: str = "vocab_major"
    temperature: str = "none"  # "scalar", "row"
    reduction: str = "none"
    padding: int = 0  # of the rows of hidden and weight
    vector_stride: int = 1  # of labels and upstream gradients; 0: the gradients are broadcast
    reversed_rows: bool = False
    ignored: bool = False
    invalid_label: bool = False
    gradients: tuple[str, ...] = ("grad_hidden", "grad_weight")
    entropy_gradient: bool = True


def _to_bits(values: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """The values rounded to `dtype`: their bits, and themselves in float64."""
    single = values.astype(np.float32)
    if dtype == "bf16":
        bits = single.view(np.uint32)
        bits = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return bits, (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    narrow = single.astype(np.float16 if dtype == "fp16" else np.float32)
    return narrow, narrow.astype(np.float64)


class Laid:
    """A problem in memory: its Call, its outputs as arrays, and the reference's answers."""

    def __init__(self, problem: Problem, wanted: tuple[str, ...], cuda: bool = False) -> None:
        self.problem = problem
        self._cuda = cuda
        self._keep: list[Any] = []
        random = np.random.default_rng(7)
        p = problem
        hidden, self._hidden = _to_bits(random.standard_normal((p.rows, p.depth)), p.dtype)
        scale = 1.5 / max(p.depth, 1) ** 0.5
        weight, self._weight = _to_bits(random.standard_normal((p.vocab, p.depth)) * scale, p.dtype)
        labels = random.integers(0, max(p.vocab, 1), p.rows)
        if p.ignored:
            labels[:: 3] = IGNORED
        if p.vocab == 0:
            labels[:] = IGNORED
        if p.invalid_label and p.rows:
            labels[0] = p.vocab
        self._labels = labels
        self._temperature = {"none": None, "scalar": 0.75, "row": random.uniform(0.5, 2, p.rows)}[p.temperature]
        reduced = p.reduction != "none"
        self._g = np.asarray(0.75) if reduced else random.standard_normal(p.rows)
        self._k = random.standard_normal(p.rows)
        if p.vector_stride == 0:
            self._g, self._k = (np.broadcast_to(a.flat[0] if a.size else 0.0, a.shape) for a in (self._g, self._k))
        inputs = {
            "hidden": self._matrix(hidden, p.dtype, "vocab_major"),
            "weight": self._matrix(weight, p.dtype, p.layout),
            "labels": self._vector(labels.astype(p.label_dtype), p.label_dtype),
        }
        if self._temperature is not None:
            inputs["temperature"] = self._vector(np.asarray(self._temperature, np.float32), "fp32")
        if p.gradients:
            inputs["grad_logprob"] = self._vector(self._g.astype(np.float32), "fp32")
            if p.entropy_gradient:
                inputs["grad_entropy"] = self._vector(self._k.astype(np.float32), "fp32")
        self.outputs = {}
        results = {}
        shapes = {"loss": (), "grad_hidden": hidden.shape, "grad_weight": weight.shape}
        for name in wanted:
            dtype = p.dtype if name.startswith("grad_") else "fp32"
            shape = shapes.get(name, (p.rows,))
            results[name] = self._placed(np.zeros(shape, {"fp32": np.float32, "fp16": np.float16}.get(dtype, np.uint16)), dtype)
            self.outputs[name] = self._keep[-1]
        self.call = Call(inputs, results, IGNORED, p.reduction)

    def _placed(self, array: np.ndarray, dtype: str, offset: int = 0, shape=None, strides=None) -> View:
        """A view of `array`'s memory, moved to the device where there is one."""
        address, device = array.ctypes.data, None
        self._keep.append(array)
        if self._cuda:
            import torch

            moved = torch.from_numpy(array.view(np.uint8) if array.ndim else array.reshape(1).view(np.uint8)).cuda()
            self._keep[-1] = moved
            address, device = moved.data_ptr(), 0
        item = array.itemsize
        return View(
            address + offset * item,
            array.shape if shape is None else shape,
            tuple(s // item for s in array.strides) if strides is None else strides,
            dtype,
            device,
        )

    def _matrix(self, array: np.ndarray, dtype: str, layout: str) -> View:
        shape = array.shape
        stored = array if layout == "vocab_major" else array.T
        pad = self.problem.padding
        room = np.zeros((stored.shape[0], stored.shape[1] + pad), array.dtype)
        room[:, : stored.shape[1]] = stored[::-1] if self.problem.reversed_rows else stored
        ld = room.shape[1]
        row, offset = ld, 0
        if self.problem.reversed_rows and stored.shape[0]:
            row, offset = -ld, (stored.shape[0] - 1) * ld
        strides = (row, 1) if layout == "vocab_major" else (1, row)
        return self._placed(room, dtype, offset, shape, strides)

    def _vector(self, array: np.ndarray, dtype: str) -> View:
        stride = self.problem.vector_stride
        if array.ndim == 0 or stride == 1:
            return self._placed(np.ascontiguousarray(array).reshape(array.shape), dtype)
        if stride == 0:
            broadcast = dtype == "fp32" and array.size > 0 and (array == array[0]).all()
            if not broadcast:
                return self._placed(np.ascontiguousarray(array), dtype)
            return self._placed(np.ascontiguousarray(array[:1]), dtype, 0, array.shape, (0,))
        room = np.zeros(max(len(array) * stride, 1), array.dtype)
        room[: len(array) * stride : stride] = array
        return self._placed(room, dtype, 0, array.shape, (stride,))

    def expected(self) -> dict[str, np.ndarray]:
        p = self.problem
        return evaluate(
            self._hidden,
            self._weight,
            self._labels,
            1.0 if self._temperature is None else np.float32(self._temperature).astype(np.float64),
            IGNORED,
            p.reduction,
            np.float32(self._g) if p.gradients else None,
            np.float32(self._k) if p.gradients and p.entropy_gradient else None,
        )

    def given(self, name: str) -> np.ndarray:
        """An output after the call, in float64."""
        stored = self.outputs[name]
        view = self.call.results[name]
        if self._cuda:
            kind = {"fp32": np.float32, "fp16": np.float16, "bf16": np.uint16}[view.dtype]
            stored = stored.cpu().numpy().view(kind).reshape(view.shape)
        if view.dtype == "bf16":
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        return np.asarray(stored, np.float64)


# Coarser than any dtype's error on these problems, finer than the distance between two answers.
TOLERANCE = {"fp32": 2e-3, "fp16": 2e-2, "bf16": 8e-2}


def near(given: np.ndarray, expected: np.ndarray, dtype: str) -> bool:
    """True if these are the same answer."""
    if given.shape != expected.shape:
        return False
    if given.size == 0:
        return True
    size = float(np.abs(expected).max()) if np.isfinite(expected).all() else 1.0
    return bool(np.all(np.abs(given - expected) <= TOLERANCE[dtype] * max(size, 0.05)))
