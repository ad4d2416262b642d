# SPDX-License-Identifier: Apache-2.0
"""Prints what the CUDA operator is to reach beside what a result of cuda_bench says, as Markdown.

A figure that RESULT does not hold is `not measured`. Exit status: 0 every figure reached, 1 one is not (or was not
measured), 2 usage.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

from .benchmark_entry import memory_of, name_of, ratio_of
from .command_line import load, refusing
from .markdown import table

LARGE = ["8192x4096x131072", "8192x4096x151936"]
H4096, H2048, H1024, H7168 = LARGE[1], "8192x2048x131072", "8192x1024x151936", "4096x7168x129280"
FEW, VOCABULARIES = (256, 384, 512, 768, 1024, 2048), (128256, 151936)
FEWEST = ((1, "1 row"), (16, "16 rows"), (64, "64 rows"))

# (what, benchmark, counter, at most). Sustained: a second and more of one kind, at the power limit. Burst: single calls after
# rest. In pairs: by turns with the reference.
GOALS: list[tuple[str, str, str, float]] = [
    *[("forward ÷ one GEMM, sustained", f"sustained/forward/{shape}", "ratio", most)
      for shape, most in [(H4096, 0.99), (H2048, 1.00), (H1024, 1.03), (H7168, 1.00)]],
    *[("forward ÷ one GEMM, burst", f"burst/forward/{shape}", "ratio", 0.97) for shape in (H4096, H2048, H1024, H7168)],
    *[("backward ÷ three GEMMs, sustained", f"sustained/backward/{shape}", "ratio", 1.01) for shape in LARGE],
    ("joules of forward ÷ one GEMM's, sustained", f"sustained/forward/{H4096}", "J_ratio", 0.99),
    *[(f"backward of {rows} rows ÷ three GEMMs, sustained", f"sustained/backward/{rows}x4096x151936", "ratio", 1.10)
      for rows in FEW],
    *[(f"forward of {words} ÷ reading weight once, in pairs", f"weight_once/forward/{rows}x4096x{vocabulary}", "ratio", 1.20)
      for vocabulary in VOCABULARIES for rows, words in FEWEST],
    ("gradients in forward of 128 rows ÷ reading weight three times, in pairs",
     "weight_thrice/gradients_in_forward/128x4096x151936", "ratio", 1.15),
    ("gradients in forward of 131072 rows ÷ four times 32768, in pairs", "per_token/gradients_in_forward/131072x4096x131072",
     "ratio", 1.03),
    ("half the rows ignored ÷ none, in pairs", f"half_ignored/forward_backward/{H4096}", "ratio", 0.55),
    ("first call of a process, ms", f"first_calls/{H1024}", "ms", 100),
    ("memory of forward, MiB", f"sustained/forward/{H4096}", "MiB", 96),
    ("memory of backward, MiB", f"sustained/backward/{H4096}", "MiB", 450),
    ("memory of gradients in forward, MiB", f"gradients_in_forward/{H4096}", "MiB", 2700),
]
# Benchmarks by name, and the date on which they were measured.
Source = tuple[str, dict[str, dict]]


def measured(entry: dict | None, counter: str) -> tuple[float | None, str]:
    """Returns (figure, what to print); the figure is None where the benchmark is absent or failed."""
    if entry is None or entry.get("error_occurred"):
        return None, "failed: " + entry["error_message"] if entry else "not measured"
    if counter == "MiB":
        total = memory_of(entry)
        return total, f"{total:.1f}"
    if counter == "ms":
        return entry["ms"], f"{entry['ms']:.1f}"
    if counter == "J_ratio":  # absent where the device counts no energy
        return entry.get(counter), f"{entry[counter]:.3f}" if counter in entry else "not measured"
    return entry["ratio"], ratio_of(entry)


def source_of(result: dict) -> Source:
    """Returns what a result of cuda_bench has."""
    return result["context"]["date"][:10], {name_of(entry): entry for entry in result["benchmarks"]}


class Row(NamedTuple):
    """A figure as a page has it: the goal, and what was measured on which date; none where it was not."""
    what: str
    at: str
    goal: str
    measured: str
    reached: str  # yes or no
    on: str


def rows(sources: list[Source]) -> list[Row]:
    """Returns every figure, of the first source that has its benchmark."""
    found = []
    for what, name, counter, most in GOALS:
        date, entry = next(((date, entries[name]) for date, entries in sources if name in entries), ("", None))
        figure, words = measured(entry, counter)
        goal = f"{most:.2f}" if counter.endswith("ratio") else f"{most:g}"
        reached = "yes" if figure is not None and figure <= most else "no"
        found.append(Row(what, name.split("/")[-1], goal, words, reached, date))
    return found


def goal_table(found: list[Row]) -> str:
    return table(["", "at", "goal, at most", "measured", "reached", "on"], "llrrll", found)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", type=Path, metavar="RESULT.json")


def run(arguments: argparse.Namespace) -> int:
    with refusing(f"{arguments.result}: no result of cuda_bench"):
        result = load(arguments.result)
        found, context = rows([source_of(result)]), result["context"]
        print(f"{context['device']}, CUDA {context['cuda']}, cuBLAS {context['cublas']}, {context['date'][:10]}, "
              f"kernel tree {context.get('kernel', 'unknown')}\n")
    print(goal_table(found))
    return 0 if all(row.reached == "yes" for row in found) else 1
