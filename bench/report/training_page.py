# SPDX-License-Identifier: Apache-2.0
"""Draws the figure of a stored training, and fills bench/TRAINING.md: training by several heads beside the spread of five
orders of rows, and the head's part in the ratio of rollout and training.

The figure needs Matplotlib. It is written to FIGURE.svg.
"""

import argparse
from pathlib import Path
from typing import Any

from . import markdown
from .command_line import Refused, load, refusing
from .stored import driver, grouped

FACTORS = {"trunk": "trunk", "head": "head", "head_batch": "of it the batch", "rounding": "rounding, rollout",
           "training_head": "training's head", "truncation": "truncation", "without_truncation": "without truncation",
           "total": "total"}
# By whether rollout decoded; a result without that key was measured before it did.
ROLLOUT_TRUNK = {
    True: "Rollout decodes the same tokens one place at a time, with a cache of keys and values",
    False: "Rollout ran the same whole sequences anew, without a cache: the trunk's products had the shapes that training's have, "
           "and its factor is 0",
}


def scientific(number: float) -> str:
    return "0" if number == 0 else f"{number:.1e}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def memory(peak: int | None) -> str:
    return "–" if peak is None else f"{peak / 2**30:.2f}"


def runs_table(data: dict[str, Any]) -> str:
    rows = [[each["run"], f"{each['step_ms']:.2f}", grouped(each["tokens_per_second"]), memory(each["peak_bytes"]),
             f"{each['last_loss']:.4f}"] for each in data["runs"]]
    return markdown.table(["run", "ms a step", "tokens a second", "memory at most, GiB", "last loss"], "lrrrr", rows)


def comparison_table(data: dict[str, Any]) -> str:
    rows = []
    for each in data["comparison"]["compared"]:
        parts = "; ".join(f"{scientific(part['difference'])} ({scientific(part['deviation'])})" for part in each["parts"])
        first = "never" if each["first_outside"] is None else str(each["first_outside"])
        rows.append([each["run"], percent(each["share_within"]), first, scientific(each["at_first_step"]["difference"]), parts,
                     f"{each['probability']:.2g}", "yes" if each["within"] else "no"])
    return markdown.table(["run", "steps within the five", "first step outside", "difference at the first step",
                           "mean difference in each quarter (deviation of the five's means)", "probability", "like the five"],
                          "lrrrrrl", rows)


def same_hidden_table(data: dict[str, Any]) -> str:
    rows = [[each["head"], str(at["batch"]), "another" if at["other_order"] else "the same", percent(at["share_equal"]),
             scientific(at["largest"])] for each in data["same_hidden"]["heads"] for at in each["compared"]]
    return markdown.table(["head", "rows a batch", "order", "same bits", "largest difference"], "lrlrr", rows)


def ratio_tables(data: dict[str, Any]) -> str:
    """A table a sampler: root mean squares of the factors, and figures of the whole."""
    found = []
    for part in data["trunk"]:
        rows = []
        for each in part["ratios"]:
            factors = each["factors"]
            shown = [scientific(factors[name]["rms"]) for name in FACTORS]
            rows.append([str(each["batch"]), each["rollout"], each["training"], *shown,
                         scientific(factors["without_truncation"]["p99"]), percent(factors["without_truncation"]["outside"]),
                         percent(factors["total"]["outside"]), percent(each["share_of_head"]["without_truncation"])])
        heads = ["batch", "rollout", "training", *FACTORS.values(), "p99 without truncation", "ratio outside [0.9, 1.1]",
                 "with truncation", "head's share"]
        sampler = part["sampler"]
        kept = f"top-k {sampler['top_k'] or 'none'}, top-p {sampler['top_p']}"
        found.append(f"**{part['part']}**: temperature {sampler['temperature']}, {kept}, {grouped(part['tokens'])} tokens.\n\n"
                     + markdown.table(heads, "rll" + "r" * (len(heads) - 3), rows))
    return "\n\n".join(found)


def values(training: dict[str, Any], rollout: dict[str, Any]) -> dict[str, str]:
    settings, text, same = training["settings"], training["data"], rollout["same_hidden"]
    own, = (each for each in same["heads"] if each["head"] == "plumbline")
    return {
        "device": training["device"], "driver": driver(training["machine"].get("gpu", "")), "date": training["date"],
        "torch": training["machine"]["torch"], "triton": training["machine"]["triton"], "rollout_device": rollout["device"],
        "rollout_date": rollout["date"], "steps": grouped(settings["steps"]),
        "batch": f"{settings['rows']} × {settings['context']}", "hidden": str(settings["hidden"]),
        "layers": str(settings["layers"]), "vocabulary": grouped(settings["vocabulary"]), "source": text["source"],
        "tokens": grouped(text["tokens"]),
        "runs": runs_table(training), "comparison": comparison_table(training),
        "expected": percent(training["comparison"]["expected_share"]), "level": f"{training['comparison']['level']:g}",
        "among": ", ".join(map(percent, training["comparison"]["among_themselves"]["share_within"])),
        "rows": grouped(same["rows"]), "same_temperature": str(same["temperature"]), "same_hidden": same_hidden_table(rollout),
        "error": scientific(own["largest_error"]), "bound": scientific(same["bound"]), "ratios": ratio_tables(rollout),
        "weights": "untrained" if rollout["weights"] == "random" else "those of the run fp32-logits",
        "rollout_trunk": ROLLOUT_TRUNK[all(part.get("decoded", False) for part in rollout["trunk"])],
        "faults": "; ".join(rollout["wrong"]) or "none",
        "commands": f"    {training['command']}\n    {rollout['command']}",
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", type=Path, metavar="TRAINING.json")
    parser.add_argument("figure", type=Path, metavar="FIGURE.svg")


def run(arguments: argparse.Namespace) -> int:
    from training import figure

    with refusing(f"{arguments.result}: no result of `bench/store training`"):
        result = load(arguments.result)
    try:
        drawn = figure.svg(result)
    except ImportError as why:
        raise Refused(f"no figure: {why}", 3) from None
    except (LookupError, TypeError, ValueError) as why:
        raise Refused(f"{arguments.result}: {why!r}") from why
    arguments.figure.write_text(drawn, encoding="utf-8")
    return 0
