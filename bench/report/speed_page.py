# SPDX-License-Identifier: Apache-2.0
"""Fills bench/SPEED.md: the CUDA operator beside cuBLAS, and how fast the harness judges."""

from . import figures
from .benchmark_entry import memory_of, name_of
from .stored import grouped

PASSES = {"forward": "forward ÷ one product", "backward": "backward ÷ three", "forward_backward": "both ÷ four",
          "gradients_in_forward": "gradients in forward ÷ four"}
HEAD = "8192x4096x151936"


def entries(result: dict) -> dict[str, dict]:
    return {name_of(entry): entry for entry in result["benchmarks"] if not entry.get("error_occurred")}


def headline(found: dict[str, dict]) -> str:
    lines = [f"| {HEAD.replace('x', ' × ')} | ms | ÷ cuBLAS | MiB beyond inputs and outputs |", "|---|---:|---:|---:|"]
    for name, words in (("forward", "forward: logprob, entropy"), ("backward", "backward: both gradients"),
                        ("gradients_in_forward", "both in one call, logits kept")):
        entry = found[f"{name}/{HEAD}"]
        lines.append(f"| {words} | {entry['ms']:.1f} | {entry['ratio']:.2f} | {memory_of(entry):.0f} |")
    return "\n".join(lines)


def all_shapes(found: dict[str, dict]) -> str:
    shapes = list(dict.fromkeys(name.split("/")[1] for name in found if name.split("/")[0] in PASSES))
    lines = ["| ms (÷ cuBLAS) | " + " | ".join(PASSES.values()) + " |", "|---|" + "---:|" * len(PASSES)]
    for shape in shapes:
        cells = []
        for name in PASSES:
            entry = found.get(f"{name}/{shape}")
            cells.append("–" if entry is None else f"{entry['ms']:.2f} ({entry['ratio']:.3f})")
        lines.append(f"| {shape.replace('_half_ignored', ', half ignored')} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def split_table(results: list[dict]) -> str:
    """Returns cases a second and the shares of time, as `python3 bench/store split` prints them."""
    lines = ["| arithmetic | cases/s | target | oracle | arbiter | harness | of it expanding |", "|---|" + "---:|" * 6]
    for data in results:
        result, time = data["result"], data["result"]["time"]
        total = time["jobs"] * time["wall"]
        harness = total - sum(time[part] for part in ("target", "oracle", "arbiter", "shrinking"))
        shares = [time["target"], time["oracle"], time["arbiter"], harness, time["expansion"]]
        lines.append(f"| `{result['campaign']['targets'][0]}` | {grouped(result['cases'] / time['wall'])} | "
                     + " | ".join(f"{100 * share / total:.0f} %" for share in shares) + " |")
    return "\n".join(lines)


def dump_table(result: dict) -> str:
    lines = ["| dump | judged | bytes | threads | seconds |", "|---|---|---:|---:|---:|"]
    for run in result["runs"]:
        judged = ", ".join(f"{output} {grouped(count)}" for output, count in run["judged"].items())
        lines.append(f"| {run['n']} rows, {run['v']} × {run['h']} | {judged} | {run['bytes'] / 1e9:.2f}·10⁹ | {run['threads']} "
                     f"| {run['seconds']:.1f} |")
    return "\n".join(lines)


def values(program: dict, split_host: dict, split_hopper: dict, dump: dict) -> dict[str, str]:
    found = entries(program)
    lines, _ = figures.table(program)
    whole = [entry for name, entry in found.items()
             if name.split("/")[0] in ("forward", "backward") and not name.endswith("_half_ignored")]
    return {
        "headline": headline(found),
        "asked": "\n".join(line for line in lines if line.startswith("|")),
        "reached": str(sum(line.endswith("| yes |") for line in lines)),
        "figures": str(len(figures.ASKED)),
        "slower": str(sum(entry["ratio"] > 1 for entry in whole)),
        "passes": str(len(whole)),
        "all_shapes": all_shapes(found),
        "half_ignored": f"{found[f'half_ignored/forward_backward/{HEAD}']['ratio']:.2f}",
        "per_token": f"{found['per_token/forward_backward/32768x4096x131072']['ratio']:.3f}",
        "weight_once": f"{found['weight_once/forward/128x4096x151936']['ratio']:.2f}",
        "split": split_table([split_host, split_hopper]),
        "dump": dump_table(dump),
    }
