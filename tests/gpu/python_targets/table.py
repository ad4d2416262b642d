# SPDX-License-Identifier: Apache-2.0
"""The short table that a run ends with."""

from typing import Any


def _of_rate(figures: dict[str, Any]) -> str:
    right, defective = figures.get("right"), figures.get("defective")
    parts = []
    if right:
        parts.append(f"{right['judged_a_second']}/s; {right['first_call_share']:.1%} first calls, "
                     f"{right['compilations']} compilations; {right['findings']} findings")
    if defective:
        parts.append(f"{defective['shrinking_share']:.1%} shrinking")
    return "; ".join(parts)


def _of_planted(figures: dict[str, Any]) -> str:
    over_all, right = figures.get("figures"), figures.get("right")
    if not over_all:
        return ""
    return (f"{over_all['found']} of {over_all['defects']} found; median {over_all['median_seconds']} s; "
            f"p90 {over_all['p90_seconds']} s; {over_all['findings_a_cause']} a cause; right: {right['findings']} findings")


def _of_tests(figures: dict[str, Any]) -> str:
    if "ran" not in figures:
        return ""
    skipped = f"; skipped: {', '.join(figures['skipped'])}" if figures["skipped"] else ""
    return f"{figures['ran']} tests, {figures['failed']} failed{skipped}"


def _of_sight(figures: dict[str, Any]) -> str:
    return "; ".join(f"{each['target']} {each['verdict']} in {each['seconds']} s" for each in figures.get("targets", []))


FIGURES = {"rate": _of_rate, "planted": _of_planted, "wheel": _of_tests, "heap": _of_tests, "sight": _of_sight}


def table(summary: dict[str, Any]) -> str:
    """A line for each step: its outcome, what was asked and what was measured."""
    rows = [("step", "outcome", "seconds", "asked", "measured")]
    for name, figures in FIGURES.items():
        if (record := summary["steps"].get(name)) is not None:
            said = figures(record["figures"]) or record.get("last", "")
            rows.append((name, record["outcome"], f"{record['seconds']:g}", record["asked"], said))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[4]]) for row in rows]
    device = ", ".join(f"{gpu['name']} (driver {gpu['driver']})" for gpu in summary["devices"])
    return "\n".join([device, *lines])
