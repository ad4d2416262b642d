# SPDX-License-Identifier: Apache-2.0
"""The arithmetic that a kernel claims to do, in the field's words: `plumbline.Contract(matmul="tf32", logits="bf16")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PRESETS = (
    "black-box",
    "tensor-core-fp32",
    "fp32",
    "pytorch-fp32-logits",
    "pytorch-eager",
    "pytorch-upcast",
    "pytorch-cross-entropy",
    "triton",
    "hopper",
    "cublas",
)
WORDS = ("matmul", "split_k", "softmax", "entropy", "exp", "log", "backward", "outputs", "grad_accumulator")
# Keys of "contract" in fuzz/target/DESCRIPTION.md.
KEYS = (
    "accumulate",
    "block",
    "extra_bits",
    "split",
    "partials",
    "input_planes",
    "input_rounding",
    "flush",
    "logits",
    "scaled_logits",
    "scale",
    "scale_roundings",
    "scale_exact_powers",
    "shift",
    "exp_error",
    "exp_gradual",
    "argument_roundings",
    "log_error_absolute",
    "log_error_relative",
    "division_error",
    "tile",
    "tile_depth",
    "splits",
    "rescales",
    "softmax_sum",
    "label_logit_separate",
    "plain_logprob",
    "plain_entropy",
    "entropy_of_probabilities",
    "log_softmax_backward",
    "log_probs",
    "probabilities",
    "recompute_same_bits",
    "probability",
    "kept_argument",
    "d_logits",
    "accumulator",
    "vocab_chunk",
    "row_chunk",
    "grad_hidden_stretch",
    "grad_hidden_stretches",
    "filter",
    "upstream_logprob",
    "upstream_entropy",
    "conventions",
    "signs",
)


def _text(word: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        text = repr(value) if isinstance(value, float) else str(value)
        if not text or set(text) & set(",=/@ "):
            raise ValueError(f"plumbline.Contract: {word} is {value!r}: no word, and no number")
        return text
    if isinstance(value, (tuple, list)) and value and word in ("split_k", "grad_accumulator"):
        return "/".join(_text(word, part) for part in value)
    raise ValueError(f"plumbline.Contract: {word} is {value!r}: a word, a number, True or False")


class Contract:
    """A kernel's arithmetic: a preset, and what differs from it.

    preset: one of PRESETS; None: nothing is known but what is said.
    matmul: "fp32", "tensor_core" (any), "hopper", "ampere", "volta", "tf32", "bf16", "bf16x3".
    split_k: how many partial products are added, or (how many, the dtype that they are stored in).
    logits, scaled_logits, softmax_sum, log_probs, probabilities, d_logits, partials: the dtype that is stored there, "bf16", "fp16",
        "fp32" or "input", that of hidden (d_logits: left out for it).
    outputs: the dtype of all forward outputs, or a mapping by output.
    softmax: "shifted", or "unshifted": x_y - lse, and lse - sum p x. entropy: the same, or "probabilities".
    exp, log: "ex2.approx", "lg2.approx", or an error in units of 2^-24.
    backward: "recomputed" logits, "kept" ones, or "autograd" of log_softmax.
    grad_accumulator: the dtype of gradients across chunks, (dtype, chunk), or (dtype, columns, rows).
    filter: d_logits may be left out where |[v = y] - p| is below it.

    Every key of "contract" in fuzz/target/DESCRIPTION.md is a word as well. Raises ValueError for a word that there is
    not and a value that is none; whether values go together, `plumb` says when the contract is used.
    """

    def __init__(self, preset: str | None = None, **words: Any) -> None:
        if preset is not None and preset not in PRESETS:
            raise ValueError(f"plumbline.Contract: there is no preset {preset!r}; there are {', '.join(PRESETS)}")
        said = {}
        for word, value in words.items():
            if word not in WORDS and word not in KEYS:
                raise ValueError(f"plumbline.Contract: there is no word {word!r}; there are {', '.join(WORDS + KEYS)}")
            if word == "outputs" and isinstance(value, Mapping):
                said |= {f"outputs.{output}": _text(f"outputs.{output}", dtype) for output, dtype in value.items()}
            else:
                said[word] = _text(word, value)
        self._preset = preset
        self._words = said

    def __str__(self) -> str:
        """As `plumb --contract` takes it."""
        words = [f"{word}={value}" for word, value in self._words.items()]
        return ",".join(([self._preset] if self._preset else []) + words) or "black-box"

    def __repr__(self) -> str:
        words = [f"{word}={value!r}" for word, value in self._words.items() if "." not in word]
        outputs = {word.partition(".")[2]: value for word, value in self._words.items() if "." in word}
        words += [f"outputs={outputs!r}"] if outputs else []
        return f"Contract({', '.join(([repr(self._preset)] if self._preset else []) + words)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Contract) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))
