# SPDX-License-Identifier: Apache-2.0
"""Fills bench/PEERS.md: this operator beside other implementations of the same operation."""

from collections.abc import Callable

from . import beside_fastest, kept_errors, markdown
from .peer_tables import OURS, figures, measured, ours, steps
from .stored import power, spoken

HEAD = "8192x4096x151936"
CUTE = "Liger scaled CE, CuTe DSL"


def without_logits(shape: str, result: dict) -> bool:
    """Says whether a step's memory has no room for the logits: less than N · V bytes, half of them in bf16."""
    n, _, v = map(int, shape.split("_")[0].split("x"))
    return result["step_MiB"] * 2**20 < n * v


def fastest(results: list[dict], wanted: Callable[[dict], bool]) -> dict | None:
    return min(filter(wanted, measured(results)), key=lambda result: result["step_ms"], default=None)


def ahead(shapes: dict[str, list[dict]], keeps: bool) -> str:
    """Returns our fastest step beside the fastest peer's at every shape: any step, or those alone whose memory has no
    room for the logits (ours is then the plain operator's)."""
    rows = []
    for shape, results in shapes.items():
        mine = fastest(results, lambda result: ours(result) if keeps else result["name"] == OURS)
        peer = fastest(results, lambda result, shape=shape: not ours(result) and (keeps or without_logits(shape, result)))
        cells = [cell for each in (mine, peer) for cell in
                 ((each["name"], f"{each['step_ms']:.2f}", f"{each['step_MiB']:.0f}") if each else ("none", "", ""))]
        ratio = f"{mine['step_ms'] / peer['step_ms']:.2f}" if mine and peer else ""
        rows.append([spoken(shape), *cells, ratio])
    return markdown.table(["step", "ours", "ms", "MiB", "fastest peer", "ms", "MiB", "ours ÷ peer's"], "llrrlrrr", rows)


def said(shapes: dict[str, list[dict]]) -> str:
    """Returns a line for each note of a peer and each reason why it was not measured, with the shapes where not all."""
    found: dict[tuple[str, str], list[str]] = {}
    for shape, results in shapes.items():
        for result in results:
            words = f"not measured: {result['reason']}" if "reason" in result else result.get("note")
            if words:
                found.setdefault((result["name"], words), []).append(shape)
    present = {name: [shape for shape, results in shapes.items() if any(each["name"] == name for each in results)]
               for name, _ in found}
    lines = []
    for (name, words), at in sorted(found.items()):
        where = "" if at == present[name] else f" (at {', '.join(at)})"
        lines.append(f"* {name}: {words.replace('__', chr(92) + '_' + chr(92) + '_')}{where}")
    return "\n".join(lines)


def conditions(result: dict) -> str:
    """Returns what the result says of its own run, and of the shapes that the newest build was not measured at; empty where
    there is neither."""
    named: dict[tuple[str, str], list[str]] = {}
    for shape, run in result.get("earlier", {}).items():
        named.setdefault((run["date"], run["kernel"]), []).append(spoken(shape))
    before = (f"At {', '.join(shapes)} the figures are those of the build before (kernel tree {kernel}, {date[:10]})."
              for (date, kernel), shapes in named.items())
    return "\n".join([*([result["conditions"]] if "conditions" in result else []), *before])


def newest(result: dict) -> dict[str, str]:
    shapes = result["shapes"]
    return {"newest_date": result["date"][:10], "newest_rounds": str(result["rounds"]),
            "newest_conditions": conditions(result), "newest_figures": beside_fastest.figures_table(shapes),
            "newest_times": beside_fastest.times(shapes), "newest_said": said(shapes)}


def values(result: dict, fast: dict, kept: dict | None = None) -> dict[str, str]:
    shapes = result["shapes"]
    named = {entry["name"]: entry for entry in shapes[HEAD]}
    errs = [named[name]["errors"]["logprob"]["max"] for name in ("CCE torch_compile", f"{OURS}, logits saved")]
    ours_everywhere, cute = ([entry["errors"]["logprob"]["max"] for results in shapes.values() for entry in results
                              if entry["name"] == name and "step_ms" in entry] for name in (OURS, CUTE))
    return {
        **newest(fast),
        "kept_errors": kept_errors.section(kept) if kept else "",
        "measured": result["date"][:10],
        "rounds": str(result["rounds"]),
        "devices": str(result["machine"]["devices"]),
        "apart": result.get("apart", "none was measured apart"),
        "shape": HEAD.replace("x", " × "),
        "table": figures(shapes[HEAD]),
        "steps": steps(shapes),
        "ahead": ahead(shapes, keeps=True),
        "ahead_without": ahead(shapes, keeps=False),
        "error_of_compile": f"{errs[0] / errs[1]:.0f}",
        "cute_error": power(min(cute), 1),
        "our_error": power(max(ours_everywhere), 1),
        "said": said(shapes),
    }
