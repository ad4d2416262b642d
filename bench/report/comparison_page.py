# SPDX-License-Identifier: Apache-2.0
"""Fills bench/COMPARISON.md: the operator and public kernels on the same cases, as `bench/store compare` stores them."""

import math
import re
from typing import Any

from . import markdown
from .stored import grouped

OUTPUTS = ("logprob", "entropy", "lse", "grad_hidden", "grad_weight")


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


def special(target: dict[str, Any]) -> str:
    conventions = len(target.get("conventions", ()))
    if target["special_rows"] != "yes":
        return "wrong" if target["special_rows"] == "no" else "not checked"
    return "as defined" if not conventions else f"{conventions} convention{'s' * (conventions > 1)}"


def found_row(target: dict[str, Any]) -> list[str]:
    if not target.get("cases"):
        return [target["kernel"], version_of(target), target["verdict"], *["–"] * 6]
    findings = target.get("findings", ())
    suspect = sum(bool(each.get("suspect")) for each in findings)
    return [target["kernel"], version_of(target), f"{target['judged']} of {target['cases']}", str(len(findings) - suspect),
            str(suspect), str(len(target.get("shortcuts", ()))), target["deterministic"], target["batch_invariant"],
            special(target)]


def error_row(target: dict[str, Any]) -> list[str]:
    accuracy = target["accuracy"]
    by_output = {each["output"]: each for each in accuracy["outputs"]}
    cells = [" / ".join(number(by_output[output][key]) for key in ("typical", "p99", "largest")) if output in by_output else "–"
             for output in OUTPUTS]
    return [target["kernel"], f"{accuracy['judged']} of {accuracy['problems']}", *cells]


def said_of(target: dict[str, Any]) -> list[str]:
    """What the tables count, in words."""
    accuracy = target.get("accuracy", {})
    said = [target["error"]] if target.get("error") else []
    said += [f"shortcut: {each}" for each in target.get("shortcuts", ())]
    said += [f"{'suspect' if each.get('suspect') else 'wrong'}: `{each['signature']}`: {each['what']}"
             for each in target.get("findings", ())]
    said += [f"convention: {each}" for each in target.get("conventions", ())]
    said += [f"limit: {each}" for each in target.get("limits", ())]
    said += [f"{each['cases']} cases skipped: {each['reason']}" for each in target.get("skipped", ())]
    said += [f"errors not on {each['cases']} problems: {each['reason']}"
             for each in (*accuracy.get("failed", ()), *accuracy.get("skipped", ()))]
    if accuracy.get("changed"):
        said.append(f"errors on {accuracy['changed']} problems that are changed to what it can do")
    return said


def words_of(targets: list[dict[str, Any]]) -> str:
    lines = []
    for target in targets:
        if said := said_of(target):
            lines += [f"* **{target['kernel']}**", *("  * " + " ".join(line.split())[:300] for line in said)]
    return "\n".join(lines)


def values(stored: dict[str, Any]) -> dict[str, str]:
    targets, machine = stored["targets"], stored["machine"]
    asked = dict(re.findall(r"--(cases|problems|palette) (\d+)", stored["command"]))
    waiting = stored["waiting"]
    left = f"Not compared yet: {', '.join(waiting)}." if waiting else "Every kernel came to its end."
    found = markdown.table(["kernel", "version", "judged", "wrong", "suspect", "shortcuts", "deterministic", "batch-invariant",
                            "special rows"], "llrrrrlll", map(found_row, targets))
    errors = markdown.table(["kernel", "problems", *OUTPUTS], "lr" + "r" * len(OUTPUTS),
                            [error_row(each) for each in targets if each.get("accuracy", {}).get("judged")])
    return {"device": machine["device"], "torch": machine["torch"], "triton": machine["triton"], "date": stored["date"],
            "cases": grouped(int(asked["cases"])), "problems": asked["problems"], "palette": asked["palette"],
            "yardstick": stored["yardstick"], "left": left, "found": found, "errors": errors, "words": words_of(targets)}
