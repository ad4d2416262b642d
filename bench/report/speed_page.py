# SPDX-License-Identifier: Apache-2.0
"""Fills bench/SPEED.md: the CUDA operator beside cuBLAS, and how fast the harness judges."""

from . import beside_fastest, figures, memory_table
from .benchmark_entry import memory_of, name_of, ratio_of
from .markdown import table
from .stored import grouped, spoken

PASSES = {"forward": "forward ÷ one product", "backward": "backward ÷ three", "forward_backward": "both ÷ four",
          "gradients_in_forward": "gradients in forward ÷ four"}
HEAD = "8192x4096x151936"


def entries(result: dict) -> dict[str, dict]:
    return {name_of(entry): entry for entry in result["benchmarks"] if not entry.get("error_occurred")}


def headline(found: dict[str, dict]) -> str:
    rows = []
    for name, words in (("forward", "forward: logprob, entropy"), ("backward", "backward: both gradients"),
                        ("gradients_in_forward", "both in one call, logits kept")):
        entry = found[f"{name}/{HEAD}"]
        rows.append([words, f"{entry['ms']:.1f}", f"{entry['ratio']:.2f}", f"{memory_of(entry):.0f}"])
    return table([HEAD.replace("x", " × "), "ms", "÷ cuBLAS", "MiB beyond inputs and outputs"], "lrrr", rows)


def all_shapes(found: dict[str, dict]) -> str:
    def cell(entry: dict | None) -> str:
        return "–" if entry is None else f"{entry['ms']:.2f} ({entry['ratio']:.3f})"
    shapes = dict.fromkeys(name.split("/")[1] for name in found if name.split("/")[0] in PASSES)
    return table(["ms (÷ cuBLAS)", *PASSES.values()], "l" + "r" * len(PASSES), (
        [spoken(shape), *(cell(found.get(f"{name}/{shape}")) for name in PASSES)] for shape in shapes))


def regimes_table(found: dict[str, dict]) -> str:
    """Passes at the power limit and after rest, each beside cuBLAS's products in rows or calls of their own."""
    rows = []
    for name, entry in found.items():
        regime, _, rest = name.partition("/")
        if regime == "sustained":
            burst = found.get(f"burst/{rest}")
            what, shape = rest.split("/")
            rows.append([shape, what, f"{entry['ms']:.2f}", f"{entry['ms_reference']:.2f}",
                         ratio_of(entry),
                         f"{entry['MHz']:.0f}; {entry['MHz_reference']:.0f}",
                         f"{entry['ratio'] * entry['MHz'] / entry['MHz_reference']:.2f}", f"{burst['ms']:.2f}" if burst else "–",
                         ratio_of(burst) if burst else "–",
                         f"{memory_of(entry):.0f}"])
    return table(["", "pass", "sustained, ms", "cuBLAS", "÷ cuBLAS", "MHz, ours; cuBLAS's", "cycles ÷ cuBLAS's", "burst, ms",
                  "÷ cuBLAS", "MiB"], "llrrrrrrrr", sorted(rows, key=lambda row: row[1], reverse=True))


def first_calls(result: dict) -> figures.Source:
    """Returns the slowest first call of a process at each shape, as a source of figures."""
    return result["date"], {f"first_calls/{each['shape']}": {"ms": each["first_ms"]["largest"]} for each in result["measured"]}


def memory_of_step(fast: dict) -> figures.Source:
    """Returns what gradients in forward hold beyond inputs and outputs at HEAD, as a source of figures."""
    step = next(each["step_MiB"] for each in fast["shapes"][HEAD] if each["name"] == beside_fastest.IN_FORWARD)
    return fast["date"][:10], {f"gradients_in_forward/{HEAD}": {"workspace_MiB": step}}


def sources(program: dict, few: dict, blocks: dict, regimes: dict, first: dict, fast: dict) -> list[figures.Source]:
    """Returns what was measured, the newest first."""
    found = [(few["date"], few["runs"][0]["benchmarks"]), (blocks["date"], blocks["benchmarks"]), figures.source_of(program),
             figures.source_of(regimes), first_calls(first), memory_of_step(fast)]
    return sorted(found, key=lambda source: source[0], reverse=True)


def few_rows_beside_peers(few: dict) -> str:
    """Steps of 128 rows in one run with quack, in both regimes."""
    rows = [[peer["name"], *(f"{peer[key]:.3f}" for key in ("row_step_ms", "step_joules", "burst_step_ms")), f"{peer['step_MiB']:.0f}"]
            for peer in few["peers"][-1]["shapes"]["128x4096x151936"]]
    return table(["128 × 4096 × 151936", "sustained step, ms", "J", "burst step, ms", "MiB"], "lrrrr", rows)


def split_table(results: list[dict]) -> str:
    """Returns cases a second and the shares of time."""
    rows = []
    for data in results:
        result, time = data["result"], data["result"]["time"]
        total = time["jobs"] * time["wall"]
        harness = total - sum(time[part] for part in ("target", "oracle", "arbiter", "shrinking"))
        shares = [time["target"], time["oracle"], time["arbiter"], harness, time["expansion"]]
        rows.append([f"`{result['campaign']['targets'][0]}`", grouped(result["cases"] / time["wall"]),
                     *(f"{100 * share / total:.0f} %" for share in shares)])
    return table(["arithmetic", "cases/s", "target", "oracle", "arbiter", "harness", "of it expanding"], "lrrrrrr", rows)


def dump_table(result: dict) -> str:
    rows = []
    for run in result["runs"]:
        judged = ", ".join(f"{output} {grouped(count)}" for output, count in run["judged"].items())
        rows.append([f"{run['n']} rows, {run['v']} × {run['h']}", judged, f"{run['bytes'] / 1e9:.2f}·10⁹",
                     str(run["threads"]), f"{run['seconds']:.1f}"])
    return table(["dump", "judged", "bytes", "threads", "seconds"], "llrrr", rows)


def values(program: dict, split_host: dict, split_hopper: dict, dump: dict, few: dict, blocks: dict, regimes: dict,
           first: dict, fast: dict, memory: dict) -> dict[str, str]:
    found = entries(program)
    goals = figures.rows(sources(program, few, blocks, regimes, first, fast))
    whole = [entry for name, entry in found.items()
             if name.split("/")[0] in ("forward", "backward") and not name.endswith("_half_ignored")]
    return {
        "regimes": regimes_table(entries(regimes)),
        "newest_date": regimes["context"]["date"][:10],
        "headline": headline(found),
        "goals": figures.goal_table(goals),
        "reached": str(sum(row.reached == "yes" for row in goals)),
        "not_measured": str(sum(not row.on for row in goals)),
        "figures": str(len(goals)),
        "slower": str(sum(entry["ratio"] > 1 for entry in whole)),
        "passes": str(len(whole)),
        "all_shapes": all_shapes(found),
        "half_ignored": f"{found[f'half_ignored/forward_backward/{HEAD}']['ratio']:.2f}",
        "per_token": f"{found['per_token/forward_backward/32768x4096x131072']['ratio']:.3f}",
        "weight_once": f"{found['weight_once/forward/128x4096x151936']['ratio']:.2f}",
        "measured": program["context"]["date"][:10],
        "few_rows": few_rows_beside_peers(few),
        "memory": memory_table.table(memory),
        "memory_reached": str(sum(row[-1] == "yes" for row in memory_table.rows(memory))),
        "memory_shapes": str(len(memory["measured"])),
        "memory_earlier": memory["earlier"]["revision"],
        "split": split_table([split_host, split_hopper]),
        "dump": dump_table(dump),
    }
