# SPDX-License-Identifier: Apache-2.0
"""Prints how time, ratio and memory of the CUDA operator went from commit to commit, or keeps a result.

Over the stored results of cuda_bench (those of bench/results/ and those that git remembers of it, or those named),
ordered by date. Prints a table for each benchmark. Results of several devices are never in one table. --store keeps a
result as bench/results/cuda_bench-<device>-<kernel tree>.json, in place of what was there of another tree; one of a
tree that was not clean, or in which a benchmark failed, is refused.

Exit status: 0 done, 2 usage, a file that is no such result, or no benchmark that --filter matches.
"""

import argparse
import datetime
import json
import subprocess
from pathlib import Path

from .benchmark_entry import memory_of, name_of
from .command_line import Refused, load, pattern, refusing
from .stored import RESULTS

Point = tuple[datetime.datetime, str, dict]  # (date, kernel tree, figures)
Series = dict[tuple[str, str], list[Point]]  # by (benchmark, device)


def read(result: dict) -> tuple[datetime.datetime, str, str, dict]:
    """Returns (date, device, kernel tree, {benchmark: {"ms", "ratio", "low", "high", "memory"}})."""
    context = result["context"]
    found = {}
    for entry in result["benchmarks"]:
        if entry.get("error_occurred"):
            continue
        found[name_of(entry)] = {
            "ms": entry["ms"], "ratio": entry["ratio"], "low": entry["ratio_low"], "high": entry["ratio_high"],
            "memory": memory_of(entry)}
    return datetime.datetime.fromisoformat(context["date"]), context["device"], context.get("kernel", "unknown"), found


def remembered(folder: Path) -> list[dict]:
    """Returns the results of cuda_bench that were stored in `folder` or below and no longer are, as git has them; none
    where there is no git."""
    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", folder, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        return done.stdout.decode(errors="replace") if done.returncode == 0 else ""
    try:
        log = git("log", "--format=commit %H", "--name-only", "--diff-filter=AM", "--", "cuda_bench-*.json",
                  "*/cuda_bench-*.json")
    except OSError:
        return []
    found: dict[str, dict] = {}
    commit = ""
    for line in filter(None, log.splitlines()):
        if line.startswith("commit "):
            commit = line.removeprefix("commit ")
        elif line not in found:
            try:
                found[line] = json.loads(git("show", f"{commit}:{line}"))
                read(found[line])
            except (ValueError, KeyError, TypeError, AttributeError):  # of a layout that there was once
                found[line] = {}
    return [result for result in found.values() if result]


def once(results: list[dict]) -> list[dict]:
    """Returns the results without those of the same date and device as one before: a result that moved is in git twice."""
    found: dict[tuple, dict] = {}
    for result in results:
        found.setdefault((result["context"]["date"], result["context"]["device"]), result)
    return list(found.values())


def series(results: list[tuple]) -> Series:
    """Returns {(benchmark, device): [(date, tree, figures), …]}, dates ascending, benchmarks as the newest result has them."""
    found = {}
    for date, device, tree, figures in sorted(results, key=lambda result: result[0]):
        for name, figure in figures.items():
            found.setdefault((name, device), []).append((date, tree, figure))
    return found


def table(found: Series) -> list[str]:
    lines = []
    for (name, device), points in found.items():
        lines += [f"{name}, {device}", f"  {'date':10}  {'kernel tree':21}{'ms':>9}  {'ratio':>7} {'95 %':>16}{'MiB':>9}"]
        for date, tree, figure in points:
            about = f"[{figure['low']:.3f}, {figure['high']:.3f}]"
            lines.append(f"  {date:%Y-%m-%d}  {tree:21}{figure['ms']:9.3f}  {figure['ratio']:7.3f} {about:>16}"
                         f"{figure['memory']:9.1f}")
    return lines


def store(path: Path, folder: Path) -> Path:
    """Returns the name under which `path` is now kept in `folder`; ValueError where it is not worth keeping."""
    from store.stored import keep  # not among what bench/run --stage takes along
    result = load(path)
    failed = [entry["name"] for entry in result["benchmarks"] if entry.get("error_occurred")]
    _, device, _, figures = read(result)
    if failed or not figures:
        raise ValueError(f"failed: {', '.join(failed)}" if failed else "no benchmark in it")
    result["context"].pop("host_name", None)
    trees = {name: result["context"].get(name, "unknown") for name in ("git", "kernel")}
    return keep(result, folder, "cuda_bench", device, trees)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="*", type=Path, metavar="RESULT.json")
    parser.add_argument("--filter", type=pattern, default="", metavar="REGEX")
    parser.add_argument("--store", type=Path, metavar="RESULT.json")
    parser.add_argument("--folder", type=Path, default=RESULTS, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    if arguments.store:
        with refusing(f"--store {arguments.store}"):
            print(store(arguments.store, arguments.folder))
        return 0
    results = []
    for path in arguments.results or sorted(arguments.folder.glob("**/cuda_bench-*.json")):
        with refusing(f"{path}: no result of cuda_bench"):
            results.append(load(path))
            read(results[-1])
    if not results:
        raise Refused("no stored result of cuda_bench")
    if not arguments.results:
        results = once(results + remembered(arguments.folder))
    found = {key: points for key, points in series(list(map(read, results))).items() if arguments.filter.search(key[0])}
    if not found:
        wanted = arguments.filter.pattern
        raise Refused("no benchmark" + (f" matches --filter '{wanted}'" if wanted else " in these results has a figure"))
    print("\n".join(table(found)))
    return 0
