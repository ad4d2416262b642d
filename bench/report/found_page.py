# SPDX-License-Identifier: Apache-2.0
"""Fills fuzz/builtin/mutants/FOUND.md: which planted defect the harness finds, how soon, and how small it makes it."""

from . import mutants
from .stored import grouped


def gpu_table(hunts: list[dict]) -> str:
    lines = ["| planted defect | found as | cases | values | after shrinking |", "|---|---|---:|---:|---:|"]
    for hunt in hunts:
        found = [f"`{hunt['signature']}`", str(hunt["cases"]), grouped(hunt["values_before"]),
                 grouped(hunt["values_after"])] if hunt["killed"] else ["not found", "", "", ""]
        lines.append("| " + " | ".join([f"`{hunt['target'].split(':', 1)[1]}`", *found]) + " |")
    return "\n".join(lines)


def values(selftest: dict, acceptance: dict) -> dict[str, str]:
    statistics = selftest["result"]["statistics"]
    defects = statistics["mutants"]
    slowest = max(defects, key=lambda defect: defect["cases_p90"])
    hunts = acceptance["stages"]["mutants"]["steps"]["selftest"]["result"]["hunts"]
    killed = [hunt for hunt in hunts if hunt["killed"]]
    return {
        "command": selftest["command"],
        "defects": str(len(defects)),
        "hunts_each": str(max(defect["hunts"] for defect in defects)),
        "hunts": str(sum(defect["hunts"] for defect in defects)),
        "killed": str(sum(defect["killed"] for defect in defects)),
        "cases_median": f"{statistics['cases_median']:.10g}",
        "slowest": slowest["target"].split(":", 1)[1],
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
    }
