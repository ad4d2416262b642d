# SPDX-License-Identifier: Apache-2.0
"""Says of every benchmark whether it is slower than it was, beyond its noise.

STORED and NEW are results of one Google Benchmark program. A benchmark's figure is its counter `ratio`, ours over a
reference in the same run, where it has the 95 % interval `ratio_low` to `ratio_high`; else its real time over
repetitions (--benchmark_repetitions, 6 or more), with the interval of the median by order statistics. It is slower, or faster,
where the two intervals do not overlap. A figure without an interval has no verdict, a benchmark that failed has the
worst one. Names that only one file has are said.

An interval covers what varies within its run, beside the reference that this run chose. It does not cover another run.
The reference of cuda_bench is the fastest of at most nine cuBLAS calls, by medians of interleaved rounds: another run,
or another GPU of the same kind, may choose another call, and the same call is not equally fast everywhere. The label of
a benchmark names the calls chosen; where NEW has others, that is said, and a difference may be the reference's. A time
alone, ours in ms among them, moves with the machine and its clock.

Exit status: 0 none is slower, 1 one is slower or failed, 2 usage, no benchmark in common, or another program.
"""

import argparse
import math
from pathlib import Path

from .benchmark_entry import name_of
from .command_line import Refused, load, pattern, refusing
from .median_interval import median_interval

Figure = tuple[float, tuple[float, float] | None, str, str] | str


def figures(result: dict) -> dict[str, Figure]:
    """Returns by name (figure, (low, high) or None, unit, the reference), or the reason of a failure."""
    runs = {}
    for entry in result["benchmarks"]:
        if entry.get("run_type", "iteration") == "iteration":
            runs.setdefault(name_of(entry), []).append(entry)
    found = {}
    for name, entries in runs.items():
        failed = [entry["error_message"] for entry in entries if entry.get("error_occurred")]
        if failed:
            found[name] = failed[0]
        elif "ratio_low" in entries[0]:
            entry = entries[0]
            found[name] = entry["ratio"], (entry["ratio_low"], entry["ratio_high"]), "ratio", entry.get("label", "")
        else:
            middle, low, high = median_interval([entry["real_time"] for entry in entries])
            found[name] = middle, None if low is None else (low, high), entries[0]["time_unit"], ""
        if not isinstance(found[name], str) and not all(map(math.isfinite, (found[name][0], *(found[name][1] or ())))):
            found[name] = f"no figure: {text(found[name])}"
    return found


def verdict(before: Figure, now: Figure) -> str:
    if isinstance(now, str):
        return "FAILED"
    if isinstance(before, str) or before[2] != now[2]:
        return "no verdict: the stored one is no such figure"
    if before[1] is None or now[1] is None:
        return "no verdict: fewer than 6 repetitions, its noise is not known"
    if now[1][0] > before[1][1]:
        return "SLOWER"
    return "faster" if now[1][1] < before[1][0] else "the same within noise"


def text(figure: Figure) -> str:
    if isinstance(figure, str):
        return figure[:60]
    value, bounds, unit, _ = figure
    about = f" [{bounds[0]:.4g}, {bounds[1]:.4g}]" if bounds else ""
    return f"{value:.4g}{about} {unit}"


def other_reference(before: Figure, now: Figure) -> str:
    """Returns what to say of two figures whose reference is not the same, else ''."""
    if isinstance(before, str) or isinstance(now, str) or before[3] == now[3]:
        return ""
    return f"    against another reference: {before[3] or 'unnamed'} -> {now[3] or 'unnamed'}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stored", type=Path, metavar="STORED.json")
    parser.add_argument("new", type=Path, metavar="NEW.json")
    parser.add_argument("--filter", type=pattern, default="", metavar="REGEX")


def run(arguments: argparse.Namespace) -> int:
    with refusing("no result of a benchmark program"):
        results = [load(path) for path in (arguments.stored, arguments.new)]
        before, now = (figures(result) for result in results)
        programs, machines = ([Path(result["context"]["executable"]).name for result in results],
                              [result["context"].get("device", result["context"].get("cpu")) for result in results])
    if programs[0] != programs[1]:
        raise Refused(f"{arguments.stored} is of {programs[0]}, {arguments.new} of {programs[1]}")
    if machines[0] != machines[1]:
        print(f"Not the same machine: {machines[0]} then, {machines[1]} now.")
    before, now = ({name: figure for name, figure in side.items() if arguments.filter.search(name)}
                   for side in (before, now))
    common = [name for name in before if name in now]
    if not common:
        raise Refused("no benchmark in common")
    verdicts = {name: verdict(before[name], now[name]) for name in common}
    others = {name: other_reference(before[name], now[name]) for name in common}
    width = max(map(len, common))
    for name in common:
        print(f"{name:{width}}  {text(before[name])} -> {text(now[name])}: {verdicts[name]}")
        if others[name]:
            print(others[name])
    for side, other, words_ in ((before, now, "not measured now"), (now, before, "not in the stored result")):
        missing = [name for name in side if name not in other]
        if missing:
            print(f"{words_}: {', '.join(missing)}")
    bad = [name for name, said in verdicts.items() if said in ("SLOWER", "FAILED")]
    changed = sum(map(bool, others.values()))
    unknown = sum(said.startswith("no verdict") for said in verdicts.values())
    print(f"verdict: {len(bad)} of {len(common)} slower or failed" + (f": {', '.join(bad)}" if bad else "")
          + (f"; {unknown} without a verdict" if unknown else "")
          + (f"; {changed} against another reference" if changed else ""))
    return 1 if bad else 0
