# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store training --prepare [--text FILE] [--data DIR]
       python3 bench/store training --python PYTHON [--as-built KEYS] [--data DIR] [--keep DIR] [--minutes M] [--out FILE]

Trains a small language model nine times from one seed: with the loss of plumbline.torch, of PyTorch with logits in fp32,
in fp32 with their gradient in bf16, and in bf16, and five times with fp32 logits and the rows of each batch in another
order. The spread of those five is what the other four are compared with (bench/training/README.md). It stores
bench/results/training-DEVICE.json: of each run the time of a step, tokens a second, memory and the loss at every 10th step;
of four the comparison, made of all steps.

  --prepare        fetches the text (Debian's package dict-gcide, by apt-get download) and makes its tokens in DIR
                   [build/training-data]; --text FILE takes another text, as it is
  --keep DIR       has a file of each run that is through, and the weights of one run, checkpoint.pt [build/training]
  --minutes M      begins no run that would end later than M minutes from now, by the longest so far [9]
  --as-built KEYS  takes the programs as they are built; KEYS is a file of what `python3 bench/store trees` printed
  --settings JSON  other sizes than those of bench/training/settings.py, for a trial; --out FILE is then needed

Interrupt it and call it again, with the same words, to go on. A run takes at most 240 s, or is refused.

Exit status: 0 stored, and the operator's run is like the five; 1 stored, and it is not; 2 usage, or other files than it was
begun with; 3 no text, or a run gave no result; 4 PYTHON lacks torch or triton; 5 runs are left.
"""

import argparse
from pathlib import Path
from typing import Any

from report.command_line import refusing
from training import curves, pieces, text
from training.settings import COMPARED, CONTROL, ORDERS, RUNS, Settings

from store import stored

EVERY = 10  # steps from one stored loss to the next
CHECKPOINT = "checkpoint.pt"


def judged(runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the curves say, by run."""
    five = [runs[name]["loss"] for name in ORDERS]
    return {"compared": [{"run": name, **curves.compared(runs[name]["loss"], five)} for name in COMPARED],
            "among_themselves": curves.among_themselves(five), "expected_share": curves.EXPECTED_SHARE, "level": curves.LEVEL}


def records(runs: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What is stored of each run."""
    kept = ("step_ms", "tokens_per_second", "peak_bytes", "seconds")
    return [{"run": name, **{key: runs[name][key] for key in kept}, "last_loss": runs[name]["loss"][-1],
             "loss": [round(each, 6) for each in runs[name]["loss"][::EVERY]]} for name in RUNS]


def is_like_the_five(comparison: dict[str, Any]) -> bool:
    return next(each["within"] for each in comparison["compared"] if each["run"] == "plumbline")


def prepare(given: argparse.Namespace) -> int:
    with refusing(f"{given.text}"):
        raw = text.cut(given.text.read_bytes()) if given.text else text.fetched()
    source = given.text.name if given.text else f"{text.PACKAGE} ({text.LICENCE})"
    about = text.prepare(given.data, given.settings.vocabulary, raw, source)
    print(f"{about['tokens']} tokens of {about['source']}; {about['used']} of {about['vocabulary']} are used")
    return 0


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/store training")
    preparing = "--prepare" in words
    if preparing:
        parser.add_argument("--prepare", action="store_true")
        parser.add_argument("--text", type=Path)
        parser.add_argument("--data", type=Path, default=pieces.ROOT / "build/training-data")
        parser.add_argument("--settings", type=Settings.of, default=Settings())
    else:
        pieces.add_options(parser, "training")
    given = parser.parse_args(words)
    given.prepare = preparing
    if not preparing and given.settings != Settings() and not given.out:
        parser.error("--settings: say by --out where the result goes")
    return given


def main(words: list[str]) -> int:
    given = parse(words)
    if given.prepare:
        return prepare(given)
    about, where = pieces.start(given)

    def measure(name: str, out: Path) -> None:
        checkpoint = given.keep / CHECKPOINT
        pieces.process("training.train", given, name, out, *([str(checkpoint)] if name == CONTROL else []))

    runs = pieces.measured(RUNS, given.keep, given.deadline, measure)
    if runs is None:
        return pieces.LEFT
    with refusing(f"{given.keep}: nothing stored", 3):
        comparison = judged(runs)
        out = given.out or pieces.ROOT / f"bench/results/training-{stored.slug_of(where['device'])}.json"
        stored.write(out, "python3 bench/store training --python PYTHON", about, where.pop("machine"), **where, every=EVERY,
                     comparison=comparison, runs=records(runs))
    for each in comparison["compared"]:
        print(f"{each['run']}: {'like' if each['within'] else 'not like'} the five, probability {each['probability']:.2g}; within "
              f"them at {each['share_within']:.1%} of the steps, {comparison['expected_share']:.1%} are expected")
    return int(not is_like_the_five(comparison))
