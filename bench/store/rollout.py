# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store rollout --python PYTHON (--checkpoint FILE | --random) [--as-built KEYS] [--data DIR]
                                       [--keep DIR] [--minutes M] [--out FILE]

What a head is to blame for in the ratio of two policies' probabilities (bench/training/README.md). First, one trunk's
hidden states are given bit for bit to rollout and training: the share of log-probabilities with the same bits in batches
of 1, 8 and 64. Then the trunk decodes with a cache in these batches, beside whole sequences: the log-ratio of tokens that
three samplers drew, split into trunk, rounding of logits, the head's own variance, its arithmetic, truncation, and training's
head. It stores bench/results/rollout-DEVICE.json.

  --checkpoint FILE  the trunk's weights, checkpoint.pt of `training`; --random: those of the seed, untrained
  --keep DIR         has a file of each part that is through [build/rollout]
  --minutes M, --as-built KEYS, --data DIR, --settings JSON: as in `training`

Interrupt it and call it again, with the same words, to go on.

Exit status: 0 stored, and the operator has one log-probability for a row in every batch, within its bound; 1 stored, and it
has not; 2 usage, or other files than it was begun with; 3 a part gave no result; 4 PYTHON lacks torch or triton; 5 parts
are left.
"""

import argparse
import hashlib
from pathlib import Path
from typing import Any

from report.command_line import refusing
from training import pieces
from training.settings import Settings

from store import stored

SAME_HIDDEN = "same-hidden"
PARTS = (SAME_HIDDEN, "t1", "t0.7-p0.95", "t1-k50")
OWN = "plumbline"
# The factors add up to the ratio but for fp64's rounding: a few operations on numbers below 2^10, 2^-53 each, is far below.
APART = 1e-9


def wrong(parts: dict[str, dict[str, Any]]) -> list[str]:
    """What the operator does not hold, in words; and where the factors are no split of the ratio."""
    found = []
    own, = (each for each in parts[SAME_HIDDEN]["heads"] if each["head"] == OWN)
    if not own["same_bits"]:
        least = min(each["share_equal"] for each in own["compared"])
        found.append(f"{SAME_HIDDEN}: {least:.1%} of the rows have the same bits in another batch")
    if own["beyond_bound"]:
        found.append(f"{SAME_HIDDEN}: {own['beyond_bound']} log-probabilities are beyond their bound, the largest error is "
                     f"{own['largest_error']:.3g}")
    for name in PARTS[1:]:
        for each in parts[name]["ratios"]:
            at = f"{name}, batch {each['batch']}, {each['rollout']} and {each['training']}"
            # Written so that NaN is wrong.
            if not each["apart"] <= APART:
                found.append(f"{at}: the factors add up to another ratio, {each['apart']:.3g} off")
            if each["rollout"] == OWN and each["factors"]["head_batch"]["largest"] != 0:
                found.append(f"{at}: the batch moves the head by {each['factors']['head_batch']['largest']:.3g}")
    return found


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/store rollout")
    pieces.add_options(parser, "rollout")
    weights = parser.add_mutually_exclusive_group(required=True)
    weights.add_argument("--checkpoint", type=Path)
    weights.add_argument("--random", action="store_true")
    given = parser.parse_args(words)
    if given.settings != Settings() and not given.out:
        parser.error("--settings: say by --out where the result goes")
    return given


def main(words: list[str]) -> int:
    given = parse(words)
    weights = "random"
    if given.checkpoint:
        with refusing(f"--checkpoint {given.checkpoint}"):
            weights = hashlib.sha256(given.checkpoint.read_bytes()).hexdigest()
    about, where = pieces.start(given, weights=weights)

    def measure(name: str, out: Path) -> None:
        pieces.process("training.ratios", given, name, out, *([str(given.checkpoint.resolve())] if given.checkpoint else []))

    parts = pieces.measured(PARTS, given.keep, given.deadline, measure)
    if parts is None:
        return pieces.LEFT
    with refusing(f"{given.keep}: nothing stored", 3):
        faults = wrong(parts)
        out = given.out or pieces.ROOT / f"bench/results/rollout-{stored.slug_of(where['device'])}.json"
        stored.write(out, f"python3 bench/store rollout --python PYTHON {'--checkpoint FILE' if given.checkpoint else '--random'}",
                     about, where.pop("machine"), **where, weights=weights, wrong=faults, same_hidden=parts[SAME_HIDDEN],
                     trunk=[parts[name] for name in PARTS[1:]])
    print("\n".join(faults) or "the operator's log-probabilities have the same bits in every batch, and none is beyond its bound")
    return int(bool(faults))
