# SPDX-License-Identifier: Apache-2.0
"""The history of a benchmark: JSON results of Google Benchmark, one column a result, oldest first."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import shlex
import statistics
from collections.abc import Sequence
from typing import Any

from ..stored import FormatError, reading

MOST_COLUMNS = 8  # of a table; the oldest are left out


@dataclasses.dataclass(frozen=True)
class BenchResult:
    """One run of a benchmark program on one device."""

    path: pathlib.Path
    date: datetime.datetime  # UTC
    device: str
    figures: dict[str, dict[str, float]]  # by benchmark: ms, and ratio where it was set against another in the same run

    title = "benchmark"


def is_bench_result(said: Any) -> bool:
    """Whether JSON has the layout of Google Benchmark."""
    return isinstance(said, dict) and "context" in said and "benchmarks" in said


def _milliseconds(entry: dict[str, Any]) -> float:
    return float(entry.get("ms", 0)) or float(entry["real_time"]) * {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}[entry["time_unit"]]


def bench_result(path: pathlib.Path, said: dict[str, Any]) -> BenchResult:
    """Reads a result. Benchmarks that failed are left out. Raises FormatError, which names the file."""
    with reading(path, HistoryReport.otherwise):
        context = said["context"]
        date = datetime.datetime.fromisoformat(context["date"]).astimezone(datetime.UTC)
        runs: dict[str, list[dict[str, float]]] = {}
        for entry in said["benchmarks"]:
            if entry.get("error_occurred") or entry.get("skipped") or entry.get("run_type") == "aggregate":
                continue
            name = entry.get("run_name", entry["name"]).split("/iterations")[0]
            figures = {"ms": _milliseconds(entry)} | ({"ratio": float(entry["ratio"])} if "ratio" in entry else {})
            runs.setdefault(name, []).append(figures)
        if not runs:
            raise FormatError(f"{path}: no benchmark in it ran")
        # Repetitions have one name.
        medians = {name: {key: statistics.median(run[key] for run in of) for key in of[0]} for name, of in runs.items()}
        return BenchResult(path, date, str(context.get("device") or context.get("host_name", "unknown")), medians)


@dataclasses.dataclass(frozen=True)
class HistoryReport:
    """All results of one device."""

    device: str
    results: list[BenchResult]

    otherwise = "no result of Google Benchmark"  # of a file that has another form

    @property
    def path(self) -> pathlib.Path:
        """The oldest result."""
        return self.results[0].path

    @property
    def title(self) -> str:
        return f"benchmarks on {self.device}"

    @property
    def verdict(self) -> str:
        return "measured"

    @property
    def again(self) -> str:
        return "plumb report " + " ".join(shlex.quote(str(result.path)) for result in self.results)

    def tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """Times, and ratios where there are any: a row a benchmark, a column a result."""
        shown = self.results[-MOST_COLUMNS:]
        left = len(self.results) - len(shown)
        older = f"; {left} older results are left out" if left else ""
        names = sorted({name for result in shown for name in result.figures})
        tables = []
        for key, caption in (("ratio", "Time over the reference's in the same run"), ("ms", "Time in ms")):
            rows = []
            for name in names:
                values = [result.figures.get(name, {}).get(key) for result in shown]
                if any(value is not None for value in values):
                    rows.append([name, *("" if value is None else f"{value:.4g}" for value in values)])
            if rows:
                tables.append((caption + older, ["benchmark", *(result.date.strftime("%Y-%m-%d %H:%M") for result in shown)], rows))
        return tables


def histories(results: Sequence[BenchResult]) -> list[HistoryReport]:
    """One history for each device: times of two devices are never compared."""
    devices = dict.fromkeys(result.device for result in results)
    return [HistoryReport(device, sorted((each for each in results if each.device == device), key=lambda each: each.date))
            for device in devices]  # fmt: skip
