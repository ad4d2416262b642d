# SPDX-License-Identifier: Apache-2.0
"""usage: python -m training.ratios PART SETTINGS DATA OUT.json [CHECKPOINT]     PART: same-hidden, or a sampler's name

same-hidden  one trunk's hidden states are given bit for bit to rollout and training: which log-probabilities are the same
t1, …        the log-ratio between rollout and training of tokens that this sampler drew, split into factors (factors.py)
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from training import decoding, factors, heads, model, sampler
from training.settings import Settings
from training.text import TOKENS

SAME_HIDDEN = "same-hidden"
PARTS = (SAME_HIDDEN, *sampler.SAMPLERS)
BATCHES = (1, 8, 64)
TRAINING_BATCH = 64
PROMPT, LENGTH = 16, 128
TEMPERATURE = 0.7  # of same-hidden: one that is lost shows


def loaded(settings: Settings, device: str, checkpoint: Path | None) -> model.Decoder:
    """The trunk in bf16, with a checkpoint's weights or those of the settings' seed."""
    decoder = model.made(settings, "cpu")
    if checkpoint:
        decoder.load_state_dict(torch.load(checkpoint, weights_only=True))
    return decoder.to(device, heads.NARROW).eval().requires_grad_(False)


def prompts_of(tokens: torch.Tensor, sequences: int, length: int) -> torch.Tensor:
    """The beginnings of sequences, spread over the text."""
    starts = torch.arange(sequences, device=tokens.device) * ((len(tokens) - length) // sequences)
    return tokens[starts[:, None] + torch.arange(length, device=tokens.device)]


def in_batches(head: heads.Head, hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float,
               batch: int) -> torch.Tensor:
    """Log-probabilities of rows, `batch` rows a call."""
    parts = zip(hidden.split(batch), labels.split(batch), strict=True)
    return torch.cat([head(rows, weight, theirs, temperature) for rows, theirs in parts])


def same_hidden(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float,
                logprobs: Mapping[str, heads.Head] = heads.LOGPROBS) -> dict[str, Any]:
    """Each head on the same rows: the training side has all of them in one batch, rollout has them in others, as they lie
    and in another order."""
    rows = len(labels)
    placed = torch.randperm(rows, generator=torch.Generator().manual_seed(1)).to(labels.device)
    exact, bound = factors.exact(hidden, weight, labels, temperature), factors.any_order(hidden, weight, labels, temperature)
    found = []
    for name, head in logprobs.items():
        training = head(hidden, weight, labels, temperature)
        error = (training.double() - exact).abs()
        compared = []
        for batch in (*BATCHES, rows):
            for order in (None, placed):
                if batch == rows and order is None:
                    continue
                at = slice(None) if order is None else order
                rollout = in_batches(head, hidden[at], weight, labels[at], temperature, batch)
                apart = (rollout.double() - training[at].double()).abs()
                equal = rollout.view(torch.int32) == training[at].view(torch.int32)
                compared.append({"batch": batch, "other_order": order is not None, "equal": int(equal.sum()),
                                 "share_equal": equal.double().mean().item(), "largest": apart.max().item()})
        found.append({"head": name, "largest_error": error.max().item(), "beyond_bound": int((~(error <= bound)).sum()),
                      "same_bits": all(each["equal"] == rows for each in compared), "compared": compared})
    return {"rows": rows, "temperature": temperature, "bound": bound.max().item(), "heads": found}


def trunk(decoder: model.Decoder, tokens: torch.Tensor, chosen: sampler.Sampler, prompt: int,
          logprobs: Mapping[str, heads.Head] = heads.LOGPROBS) -> dict[str, Any]:
    """The factors of the log-ratio of all tokens behind the prompts, for each batch size of rollout. Training has whole
    sequences; rollout decodes them."""
    labels, weight = tokens[:, prompt:], decoder.embedding.weight
    places = slice(prompt - 1, tokens.shape[1] - 1)
    training = sampler.hidden_of(decoder, tokens, TRAINING_BATCH)[:, places]
    found = []
    for batch in BATCHES:
        rollout = decoding.hidden_of(decoder, tokens[:, :-1], prompt, batch)[:, prompt - 1:]
        found += factors.of_batch(rollout, training, weight, labels, chosen, batch, logprobs)
    return {"sequences": len(tokens), "tokens": labels.numel(), "sampler": vars(chosen), "decoded": True,
            "ratios": found}


def main(words: list[str]) -> None:
    begun = time.monotonic()
    part, settings, data, out = words[0], Settings.of(words[1]), Path(words[2]), Path(words[3])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    decoder = loaded(settings, device, Path(words[4]) if words[4:] else None)
    text = model.read_tokens(data / TOKENS, device)
    if part == SAME_HIDDEN:
        tokens = prompts_of(text, TRAINING_BATCH, LENGTH + 1)
        hidden = sampler.hidden_of(decoder, tokens[:, :-1], TRAINING_BATCH).flatten(0, 1)
        found = same_hidden(hidden, decoder.embedding.weight, tokens[:, 1:].flatten(), TEMPERATURE)
    else:
        chosen = sampler.SAMPLERS[part]
        tokens = sampler.drawn(decoder, prompts_of(text, TRAINING_BATCH, PROMPT), LENGTH, chosen, settings.seed)
        found = trunk(decoder, tokens, chosen, PROMPT)
    found |= {"part": part, "seconds": round(time.monotonic() - begun, 1)}
    out.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
