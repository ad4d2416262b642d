# SPDX-License-Identifier: Apache-2.0
"""Fills fuzz/builtin/mutants/FOUND.md: which planted defect the harness finds, how soon, and how small it makes it."""

from . import mutant_table, mutants
from .markdown import table
from .mutants import name_of
from .stored import grouped


def not_hunted(targets: list[dict], rows: list[mutant_table.Mutant]) -> list[str]:
    """The mutants of these rows that are no target. Raises ValueError where a target is none of theirs, or twice there."""
    tested, known = sorted(map(name_of, targets)), {row.name for row in rows}
    if len(set(tested)) < len(tested) or not set(tested) <= known:
        raise ValueError("the stored result is of other mutants than those of fuzz/builtin/mutants/table.txt")
    return [row.name for row in rows if row.name not in tested]


def gpu_table(hunts: list[dict], rows: list[mutant_table.Mutant]) -> str:
    """A row for each hunt, and for each mutant that is newer than the result: a GPU is not there at every change."""
    return table(["planted defect", "found as", "cases", "values", "after shrinking"], "llrrr", [
        *([f"`{name_of(hunt)}`", *([f"`{hunt['signature']}`", str(hunt["cases"]), grouped(hunt["values_before"]),
                                    grouped(hunt["values_after"])] if hunt["killed"] else ["not found", "", "", ""])]
          for hunt in hunts),
        *([f"`{name}`", "not hunted in this result", "", "", ""] for name in not_hunted(hunts, rows))])


def of_the_host(targets: list[dict], rows: list[mutant_table.Mutant]) -> str:
    """Returns the list of the mutants of host and of host-hopper alone, which the selftest of --hopper hunts. Raises ValueError
    unless the targets are those of host, in any order."""
    if left := not_hunted(targets, [row for row in rows if row.path == "host"]):
        raise ValueError(f"the stored result lacks {', '.join(left)} of fuzz/builtin/mutants/table.txt")
    return mutant_table.listed([row for row in rows if row.path.startswith("host")])


def values(selftest: dict, acceptance: dict) -> dict[str, str]:
    statistics = selftest["result"]["statistics"]
    defects = statistics["mutants"]
    slowest = max(defects, key=lambda defect: defect["cases_p90"])
    hunts = acceptance["stages"]["mutants"]["steps"]["selftest"]["result"]["hunts"]
    killed = [hunt for hunt in hunts if hunt["killed"]]
    rows = mutant_table.read()
    on_gpu = [row for row in rows if row.path.startswith("cuda")]
    return {
        "command": selftest["command"],
        "defects": str(len(defects)),
        "hunts_each": str(max(defect["hunts"] for defect in defects)),
        "hunts": str(sum(defect["hunts"] for defect in defects)),
        "killed": str(sum(defect["killed"] for defect in defects)),
        "cases_median": f"{statistics['cases_median']:.10g}",
        "slowest": name_of(slowest),
        "slowest_p90": f"{slowest['cases_p90']:.10g}",
        "values_median": f"{statistics['values_median']:.10g}",
        "shrinking_median": f"{statistics['shrinking_seconds_median']:.2f}",
        "shrinking_max": f"{statistics['shrinking_seconds_max']:.0f}",
        "buckets": str(statistics["buckets"]),
        "purity": f"{100 * statistics['purity']:.1f}",
        "table": mutants.table(defects),
        "gpu_defects": str(len(hunts)),
        "gpu_killed": str(len(killed)),
        "gpu_smaller": str(sum(hunt["values_after"] < hunt["values_before"] for hunt in killed)),
        "gpu_table": gpu_table(hunts, on_gpu),
        "host_rows": of_the_host(defects, rows),
        "gpu_rows": mutant_table.listed(on_gpu),
    }
