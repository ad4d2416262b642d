# SPDX-License-Identifier: Apache-2.0
"""Fills fuzz/builtin/mutants/FOUND.md: which planted defect the harness finds, how soon, and how small it makes it."""

from . import mutant_table, mutants
from .markdown import table
from .mutants import name_of
from .stored import grouped


def gpu_table(hunts: list[dict]) -> str:
    return table(["planted defect", "found as", "cases", "values", "after shrinking"], "llrrr", (
        [f"`{name_of(hunt)}`", *([f"`{hunt['signature']}`", str(hunt["cases"]), grouped(hunt["values_before"]),
                                  grouped(hunt["values_after"])] if hunt["killed"] else ["not found", "", "", ""])]
        for hunt in hunts))


def of_the_table(targets: list[dict], rows: list[mutant_table.Mutant]) -> str:
    """Returns the list of rows. Raises ValueError unless the targets are their mutants, in any order."""
    tested = sorted(map(name_of, targets))
    if tested != sorted(row.name for row in rows):
        raise ValueError("the stored result is of other mutants than those of fuzz/builtin/mutants/table.txt")
    return mutant_table.listed(rows)


def values(selftest: dict, acceptance: dict) -> dict[str, str]:
    statistics = selftest["result"]["statistics"]
    defects = statistics["mutants"]
    slowest = max(defects, key=lambda defect: defect["cases_p90"])
    hunts = acceptance["stages"]["mutants"]["steps"]["selftest"]["result"]["hunts"]
    killed = [hunt for hunt in hunts if hunt["killed"]]
    rows = mutant_table.read()
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
        "gpu_table": gpu_table(hunts),
        "host_rows": of_the_table(defects, [row for row in rows if row.path == "host"]),
        "gpu_rows": of_the_table(hunts, [row for row in rows if row.path != "host"]),
    }
