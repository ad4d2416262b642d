# SPDX-License-Identifier: Apache-2.0
"""Writes as Markdown what `bench/peers` has measured: a table a shape, and one of every shape's steps."""

from statistics import median

from . import markdown
from .stored import spoken

OURS = "plumbline"


def figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def measured(results: list[dict]) -> list[dict]:
    return [result for result in results if "step_ms" in result]


def ours(result: dict) -> bool:
    return result["name"].startswith(OURS)


def of_error(result: dict, name: str, kind: str) -> str:
    found = result["errors"].get(name, {})
    return found.get(f"{kind}_is") or figure(found.get(kind), ".1e")


def figures(results: list[dict]) -> str:
    """Returns the table of what was measured at one shape, the shortest step first."""
    rows = []
    for result in sorted(measured(results), key=lambda result: result["step_ms"]):
        logprob = "loss" if result["contract"] == "mean" else "logprob"
        rows.append([
            result["name"], result["contract"], figure(result["forward_ms"], ".2f"), figure(result["step_ms"], ".2f"),
            figure(result["backward_ms"], ".2f"), figure(result.get("over_ours", [None])[0], ".3f"),
            figure(result["forward_MiB"], ".0f"), figure(result["step_MiB"], ".0f"),
            of_error(result, logprob, "max"), of_error(result, "entropy", "max"),
            of_error(result, "grad_hidden", "rms"), of_error(result, "grad_weight", "rms")])
    return markdown.table(["", "contract", "forward ms", "step ms", "backward ms", "step ÷ ours", "forward MiB", "step MiB",
                           "logprob, largest error", "entropy", "grad_hidden, RMS", "grad_weight"], "ll" + "r" * 10, rows)


def table(shape: str, results: list[dict]) -> str:
    """Returns the table of one shape, and below it a line for each peer that has a note or was not measured."""
    notes = [f"* {result['name']}: {result['note']}" for result in measured(results) if result.get("note")]
    absent = [f"* {result['name']}: not measured: {result['reason']}" for result in results if "reason" in result]
    return "\n".join([f"### {shape}", "", figures(results), "", *notes, *absent, ""])


def steps(shapes: dict[str, list[dict]]) -> str:
    """Returns the milliseconds of a step of every peer at every shape, the shortest of a shape in bold. Peers in the order of
    their median ratio to ours."""
    found = {}
    for shape, results in shapes.items():
        for result in measured(results):
            found.setdefault((result["name"], result["contract"]), {})[shape] = result
    if not found:
        return ""
    least = {shape: min((result["step_ms"] for result in measured(results)), default=None)
             for shape, results in shapes.items()}

    def cell(its, shape):
        if shape not in its:
            return "—"
        text = f"{its[shape]['step_ms']:.2f}"
        return f"**{text}**" if its[shape]["step_ms"] == least[shape] else text

    def order(entry):
        ratios = [result["over_ours"][0] for result in entry[1].values() if "over_ours" in result]
        return (median(ratios) if ratios else float("inf"), entry[0])
    return markdown.table(["step, ms", "contract", *map(spoken, shapes)], "ll" + "r" * len(shapes), (
        [name, contract, *(cell(its, shape) for shape in shapes)]
        for (name, contract), its in sorted(found.items(), key=order)))
