# SPDX-License-Identifier: Apache-2.0
"""A comparison of targets, as `plumb compare` stores it: two tables, a row for each target (fuzz/compare/COMPARE.md)."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shlex
from collections.abc import Mapping
from typing import Any

from ..findings import gravity
from ..stored import FormatError

NAME = "comparison.json"
OUTPUTS = ("logprob", "entropy", "lse", "grad_hidden", "grad_weight")

Table = tuple[str, list[str], list[list[str]]]  # caption, head, rows


def _yes(target: Mapping[str, Any], key: str) -> str:
    return "?" if not target["judged"] else "yes" if target[key] else "no"


def _special(target: Mapping[str, Any]) -> str:
    conventions = target.get("conventions", ())
    return "wrong" if not target["special_rows"] else f"{len(conventions)} conventions" if conventions else "as defined"


@dataclasses.dataclass(frozen=True)
class ComparisonReport:
    """Targets that were given the same cases."""

    title: str
    json: dict[str, Any]

    @property
    def available(self) -> list[dict[str, Any]]:
        return [target for target in self.json["targets"] if not target.get("unavailable")]

    @property
    def verdict(self) -> str:
        """The gravest of its targets'; a shortcut that was inferred counts as a finding."""
        verdicts = [str(target["verdict"]) for target in self.available]
        verdicts += ["findings" for target in self.available if target.get("shortcuts")]
        return max(verdicts, key=gravity, default="unavailable")

    @property
    def again(self) -> str:
        said = self.json
        words = ["plumb compare", *(shlex.quote(target["target"]) for target in said["targets"])]
        words += [f"--{key} {shlex.quote(str(said[key]))}" for key in ("cases", "problems", "seed", "contract", "yardstick") if key in said]
        return " ".join(words)

    def found(self) -> Table:
        """What was found on the same cases."""
        head = ["target", "verdict", "judged", "wrong", "suspect", "shortcuts", "deterministic", "batch-invariant", "special rows", "time"]
        first = next((seconds for target in self.available if (seconds := float(target["accuracy"]["seconds"]))), 0.0)
        rows = []
        for target in self.json["targets"]:
            if target.get("unavailable"):
                rows.append([target["target"], "not available", *[""] * (len(head) - 2)])
                continue
            suspect = sum(bool(finding.get("suspect")) for finding in target.get("findings", ()))
            seconds = float(target["accuracy"]["seconds"])
            rows.append([target["target"], target["verdict"], f"{target['judged']} of {target['cases']}",
                         str(len(target.get("findings", ())) - suspect), str(suspect), str(len(target.get("shortcuts", ()))),
                         _yes(target, "deterministic"), _yes(target, "batch_invariant"), _special(target),
                         f"{seconds / first:.2g}" if first and seconds else "?"])  # fmt: skip
        return f"Found on {self.json['cases']} cases of seed {self.json['seed']}; time: of the first target's runs", head, rows

    def errors(self) -> Table:
        """How far off the outputs are."""
        rows = []
        for target in self.available:
            accuracy = target["accuracy"]
            outputs = {each["output"]: each for each in accuracy["outputs"]}
            row = [target["target"], f"{accuracy['judged']} of {accuracy['problems']}"]
            for output in OUTPUTS:
                each = outputs.get(output)
                row.append(" / ".join(f"{float(each[key]):.2g}" for key in ("typical", "p99", "largest")) if each else "-")
            rows.append(row)
        caption = (f"Errors in units of what honest kernels of {self.json['yardstick']} err on the same rows: the typical problem's root "
                   "mean square / the 99th percentile of rows / the largest")  # fmt: skip
        return caption, ["target", "problems", *OUTPUTS], rows

    def lines(self) -> list[str]:
        """What the tables say in one word, by target."""
        said = []
        for target in self.json["targets"]:
            name = target["target"]
            if target.get("unavailable"):
                said.append(f"{name} is not available: {target['unavailable']}")
                continue
            if target.get("held_to"):
                said.append(f"{name} is held to {target['held_to']}.")
            said += [f"{name}: shortcut: {shortcut}" for shortcut in target.get("shortcuts", ())]
            said += [f"{name}: {'suspect' if finding.get('suspect') else 'wrong'}: {finding['signature']}: {finding['what']}"
                     for finding in target.get("findings", ())]  # fmt: skip
            said += [f"{name}: convention: {convention}" for convention in target.get("conventions", ())]
            said += [f"{name}: limit: {limit}" for limit in target.get("limits", ())]
            said += [f"{name}: {each['cases']} cases skipped: {each['reason']}" for each in target.get("skipped", ())]
        return said


def read_comparison(path: pathlib.Path) -> ComparisonReport:
    """Reads comparison.json. Raises FormatError, which names the file."""
    try:
        report = ComparisonReport(f"comparison of {path.parent.resolve().name}", json.loads(path.read_text(encoding="utf-8")))
        # What a report reads is looked at here, where the file can be named.
        _ = report.found(), report.errors(), report.lines(), report.again, report.verdict
        return report
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}: no comparison of plumb compare: {error!r}") from None
