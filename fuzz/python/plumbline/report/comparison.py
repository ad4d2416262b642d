# SPDX-License-Identifier: Apache-2.0
"""A comparison of targets, as `plumb compare` stores it: two tables, a row for each target (fuzz/compare/COMPARE.md)."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shlex
from collections.abc import Mapping
from typing import Any

from ..stored import reading

NAME = "comparison.json"
OUTPUTS = ("logprob", "entropy", "lse", "grad_hidden", "grad_weight")

Table = tuple[str, list[str], list[list[str]]]  # caption, head, rows


def special_rows(target: Mapping[str, Any]) -> str:
    """What a target makes of rows without a label, and of those that hold no finite number."""
    conventions = len(target.get("conventions", ()))
    if target["special_rows"] != "yes":
        return "wrong" if target["special_rows"] == "no" else "not checked"
    return "as defined" if not conventions else f"{conventions} convention{'s' * (conventions > 1)}"


@dataclasses.dataclass(frozen=True)
class ComparisonReport:
    """Targets that were given the same cases."""

    title: str
    json: dict[str, Any]
    path: pathlib.Path

    otherwise = "no comparison of plumb compare"  # of a file that has another form

    @property
    def verdict(self) -> str:
        return str(self.json["verdict"])

    @property
    def folders(self) -> list[str]:
        """Those of the targets' campaigns, in the comparison's."""
        return [str(target["folder"]) for target in self.json["targets"]]

    @property
    def again(self) -> str:
        said = self.json
        words = ["plumb compare", *(shlex.quote(target["target"]) for target in said["targets"])]
        keys = ("cases", "problems", "seed", "palette", "contract", "yardstick")
        # 0 is the default of --palette, and of neither --cases nor --problems.
        words += [f"--{key} {shlex.quote(str(said[key]))}" for key in keys if said.get(key) or key in ("cases", "problems")]
        words += {"all": ["--infer"], "none": ["--no-infer"]}.get(said["infer"], [])
        return " ".join(words)

    def found(self) -> Table:
        """What was found on the same cases."""
        head = ["target", "verdict", "judged", "wrong", "suspect", "shortcuts", "deterministic", "batch-invariant"]
        head += ["special rows", "time"]
        targets = self.json["targets"]
        first = next((seconds for target in targets if (seconds := float(target["accuracy"]["seconds"]))), 0.0)
        rows = []
        for target in targets:
            if not target["cases"] and target.get("error"):
                rows.append([target["target"], target["verdict"], *[""] * (len(head) - 2)])
                continue
            suspect = sum(bool(finding.get("suspect")) for finding in target.get("findings", ()))
            seconds = float(target["accuracy"]["seconds"])
            rows.append([
                target["target"], target["verdict"], f"{target['judged']} of {target['cases']}",
                str(len(target.get("findings", ())) - suspect), str(suspect), str(len(target.get("shortcuts", ()))),
                target["deterministic"], target["batch_invariant"], special_rows(target),
                f"{seconds / first:.2g}" if first and seconds else "?",
            ])  # fmt: skip
        return f"Found on {self.json['cases']} cases of seed {self.json['seed']}; time: over the first target's", head, rows

    def errors(self) -> Table:
        """How far off the outputs are."""
        rows = []
        for target in self.json["targets"]:
            accuracy = target["accuracy"]
            if not accuracy["problems"]:
                continue
            outputs = {each["output"]: each for each in accuracy["outputs"]}
            row = [target["target"], f"{accuracy['judged']} of {accuracy['problems']}"]
            for output in OUTPUTS:
                each = outputs.get(output)
                row.append(" / ".join(f"{float(each[key]):.2g}" for key in ("typical", "p99", "largest")) if each else "-")
            rows.append(row)
        caption = (
            f"Errors in units of what honest kernels of {self.json['yardstick']} err on the same rows: the typical problem's root "
            "mean square / the 99th percentile of rows, each in its own unit / the largest error over the largest honest one"
        )
        return caption, ["target", "problems", *OUTPUTS], rows

    def lines(self) -> list[str]:
        """What the tables say in one word, by target."""
        return [f"{target['target']}: {said}" for target in self.json["targets"] for said in statements(target)]


def statements(target: Mapping[str, Any]) -> list[str]:
    """What the tables count of a target, in words."""
    accuracy = target.get("accuracy", {})
    said = [f"{target['verdict']}: {target['error']}"] if target.get("error") else []
    said += [f"held to {target['held_to']}"] if target.get("held_to") else []
    said += [f"shortcut: {shortcut}" for shortcut in target.get("shortcuts", ())]
    said += [f"{'suspect' if finding.get('suspect') else 'wrong'}: {finding['signature']}: {finding['what']}"
             for finding in target.get("findings", ())]  # fmt: skip
    said += [f"convention: {convention}" for convention in target.get("conventions", ())]
    said += [f"limit: {limit}" for limit in target.get("limits", ())]
    said += [f"{each['cases']} cases skipped: {each['reason']}" for each in target.get("skipped", ())]
    if accuracy.get("changed"):
        said.append(f"errors on {accuracy['changed']} of {accuracy['judged']} problems that are changed to what it can do")
    said += [f"fails on {each['cases']} problems: {each['reason']}" for each in accuracy.get("failed", ())]
    said += [f"errors not on {each['cases']} problems: {each['reason']}" for each in accuracy.get("skipped", ())]
    said += [f"{each['output']}: no number in {each['dropped']} of {each['units']} rows or columns"
             for each in accuracy.get("outputs", ()) if each.get("dropped")]  # fmt: skip
    return said + ([f"errors incomplete: {accuracy['incomplete']}"] if accuracy.get("incomplete") else [])


def read_comparison(path: pathlib.Path) -> ComparisonReport:
    """Reads comparison.json. Raises FormatError, which names the file."""
    with reading(path, ComparisonReport.otherwise):
        said = json.loads(path.read_text(encoding="utf-8"))
        report = ComparisonReport(f"comparison of {path.parent.resolve().name}", said, path)
        # What a report reads is looked at here, where the file can be named.
        _ = report.found(), report.errors(), report.lines(), report.again, report.verdict, report.folders
        return report
