# SPDX-License-Identifier: Apache-2.0
"""Fills bench/COMPARISON.md: the operator and public kernels on the same cases, as `bench/store compare` stores them."""

import functools
import math
import re
import sys
from types import ModuleType
from typing import Any

from . import markdown
from .stored import ROOT, grouped


@functools.cache
def reported() -> ModuleType:
    """The module of `plumb report` whose words these are. A staged bench/report is without it, and makes no pages."""
    sys.path.append(str(ROOT / "fuzz/python"))
    from plumbline.report import comparison

    return comparison


def number(said: float | str) -> str:
    """Two digits of a ratio of errors; plumb writes what is not finite as a text."""
    error = float(said)
    return f"{error:.2g}" if 0.001 <= error < 1000 or error == 0 or not math.isfinite(error) else f"{error:.0e}"


def version_of(target: dict[str, Any]) -> str:
    """The versions of what a kernel's own packages are, without the interpreter's and, beside others, PyTorch's."""
    named = {name: its for name, its in target.get("versions", {}).items() if name not in ("python", "triton")}
    if len(named) > 1:
        named.pop("torch", None)
    return ", ".join(f"{name} {its.partition('+')[0]}" for name, its in named.items()) or "this tree"


def found_row(target: dict[str, Any]) -> list[str]:
    if not target.get("cases"):
        return [target["kernel"], version_of(target), target["verdict"], *["–"] * 6]
    findings = target.get("findings", ())
    suspect = sum(bool(each.get("suspect")) for each in findings)
    return [target["kernel"], version_of(target), f"{target['judged']} of {target['cases']}", str(len(findings) - suspect),
            str(suspect), str(len(target.get("shortcuts", ()))), target["deterministic"], target["batch_invariant"],
            reported().special_rows(target)]


def error_row(target: dict[str, Any]) -> list[str]:
    accuracy = target["accuracy"]
    by_output = {each["output"]: each for each in accuracy["outputs"]}
    cells = [" / ".join(number(by_output[output][key]) for key in ("typical", "p99", "largest")) if output in by_output else "–"
             for output in reported().OUTPUTS]
    return [target["kernel"], f"{accuracy['judged']} of {accuracy['problems']}", *cells]


def short_table(targets: list[dict[str, Any]]) -> str:
    """README.md's table: the kernels that ran, with the largest error of a log-probability over the largest honest one."""
    rows = []
    for target in targets:
        if not target.get("cases"):
            continue
        kernel, version, _, *found, _, _ = found_row(target)
        error = next((number(each["largest"]) for each in target["accuracy"]["outputs"] if each["output"] == "logprob"), "–")
        rows.append([kernel, version, *found, error])
    return markdown.table(["kernel", "version", "wrong", "suspect", "shortcuts", "deterministic", "logprob"], "llrrrlr", rows)


def words_of(targets: list[dict[str, Any]]) -> str:
    lines = []
    for target in targets:
        if said := reported().statements(target):
            lines += [f"* **{target['kernel']}**", *("  * " + " ".join(line.split())[:300] for line in said)]
    return "\n".join(lines)


def values(stored: dict[str, Any]) -> dict[str, str]:
    targets, machine = stored["targets"], stored["machine"]
    asked = dict(re.findall(r"--(cases|problems|palette) (\d+)", stored["command"]))
    waiting = stored["waiting"]
    left = f"Not compared yet: {', '.join(waiting)}." if waiting else "Every kernel that could be loaded came to its end."
    found = markdown.table(["kernel", "version", "judged", "wrong", "suspect", "shortcuts", "deterministic", "batch-invariant",
                            "special rows"], "llrrrrlll", map(found_row, targets))
    errors = markdown.table(["kernel", "problems", *reported().OUTPUTS], "lr" + "r" * len(reported().OUTPUTS),
                            [error_row(each) for each in targets if each.get("accuracy", {}).get("judged")])
    return {"device": machine["device"], "torch": machine["torch"], "triton": machine["triton"], "date": stored["date"],
            "cases": grouped(int(asked["cases"])), "problems": asked["problems"], "palette": asked["palette"],
            "yardstick": stored["yardstick"], "left": left, "found": found, "errors": errors, "words": words_of(targets)}
