# SPDX-License-Identifier: Apache-2.0
"""Prints what the CUDA operator was asked to reach beside what a result of cuda_bench says, as Markdown.

A figure that RESULT does not hold is `not measured`. Exit status: 0 every figure reached, 1 one is not (or was not
measured), 2 usage.
"""

import argparse
from pathlib import Path

from .benchmark_entry import memory_of, name_of
from .command_line import load, refusing
from .markdown import table

LARGE = ["8192x4096x131072", "8192x4096x151936"]
H2048, H1024 = "8192x2048x131072", "8192x1024x151936"
PASSES = ["forward", "backward", "forward_backward"]

# (what, benchmark, counter, at most)
ASKED: list[tuple[str, str, str, float]] = [
    *[("forward ÷ one GEMM", f"forward/{shape}", "ratio", most)
      for shape, most in [(LARGE[0], 0.95), (LARGE[1], 0.95), (H2048, 1.00), (H1024, 1.03)]],
    *[("backward ÷ three GEMMs", f"backward/{shape}", "ratio", most)
      for shape, most in [(LARGE[0], 1.00), (LARGE[1], 1.00), (H2048, 1.05)]],
    *[("forward + backward ÷ four GEMMs", f"forward_backward/{shape}", "ratio", 0.99) for shape in LARGE],
    *[("gradients in forward ÷ four GEMMs", f"gradients_in_forward/{shape}", "ratio", 0.77) for shape in LARGE],
    *[(f"{name.replace('_', ' + ')}, a token of 32768 ÷ one of 8192", f"per_token/{name}/32768x4096x131072", "ratio",
       1.00) for name in PASSES],
    ("forward of 128 rows ÷ reading weight once", "weight_once/forward/128x4096x151936", "ratio", 1.15),
    ("half the rows ignored ÷ none", "half_ignored/forward_backward/8192x4096x151936", "ratio", 0.55),
    ("memory of forward, MiB", f"forward/{LARGE[1]}", "MiB", 96),
    ("memory of backward, MiB", f"backward/{LARGE[1]}", "MiB", 450),
]


def measured(entry: dict | None, counter: str) -> tuple[float | None, str]:
    """Returns (figure, what to print); the figure is None where the benchmark is absent or failed."""
    if entry is None or entry.get("error_occurred"):
        return None, "failed: " + entry["error_message"] if entry else "not measured"
    if counter == "MiB":
        total = memory_of(entry)
        return total, f"{total:.1f}"
    return entry["ratio"], f"{entry['ratio']:.3f} ({entry['ratio_low']:.3f} to {entry['ratio_high']:.3f})"


def row(what: str, name: str, entry: dict | None, counter: str, most: float) -> list[str]:
    """Returns (what, at, asked, measured, whether it is reached: yes or no) of a figure."""
    figure, words = measured(entry, counter)
    asked = f"{most:.2f}" if counter == "ratio" else str(most)
    return [what, name.split("/")[-1], asked, words, "yes" if figure is not None and figure <= most else "no"]


def rows(result: dict) -> list[list[str]]:
    """Returns the row of every figure."""
    entries = {name_of(entry): entry for entry in result["benchmarks"]}
    return [row(what, name, entries.get(name), counter, most) for what, name, counter, most in ASKED]


def asked_table(found: list[list[str]]) -> str:
    return table(["", "at", "asked, at most", "measured", "reached"], "llrrl", found)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", type=Path, metavar="RESULT.json")


def run(arguments: argparse.Namespace) -> int:
    with refusing(f"{arguments.result}: no result of cuda_bench"):
        result = load(arguments.result)
        found, context = rows(result), result["context"]
        print(f"{context['device']}, CUDA {context['cuda']}, cuBLAS {context['cublas']}, {context['date'][:10]}, "
              f"kernel tree {context.get('kernel', 'unknown')}\n")
    print(asked_table(found))
    return 0 if all(row[-1] == "yes" for row in found) else 1
