# SPDX-License-Identifier: Apache-2.0
"""What is reported: folders of campaigns and comparisons, and files with what `plumb check --json` or Google Benchmark wrote."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..findings import NO_SUMMARY, Campaign, gravity, read_campaign
from ..stored import FormatError, reading
from .comparison import NAME, ComparisonReport, read_comparison
from .history import (
    BenchResult,
    HistoryReport,
    bench_result,
    histories,
    is_bench_result,
)
from .journal import Journal, read_journal

Rendered = TypeVar("Rendered")


@dataclasses.dataclass(frozen=True)
class CampaignReport:
    """A campaign and its journal."""

    title: str
    campaign: Campaign
    journal: Journal
    path: pathlib.Path  # summary.json

    otherwise = NO_SUMMARY  # of a file that has another form

    @property
    def verdict(self) -> str:
        return self.campaign.verdict

    @property
    def again(self) -> str:
        """The command that runs it again. FILE stands for the findings that are accepted: summary.json does not name it."""
        campaign, said = self.campaign, self.campaign.json["campaign"]
        if said.get("gate"):
            words = ["gate", *said["targets"], "--cases", _cases(said["budget"]), "--seed", said["seed"]]
            names = ["corpus"]
        else:
            words = ["fuzz", *(word for target in said["targets"] for word in ("--target", target))]
            names = ["budget", "seed", "regime", "recipe", "corpus"]
        words += [word for name in names if said.get(name) for word in (f"--{name}", said[name])]
        words += ["--known", "FILE"] if any(each.known is not None for each in (*campaign.findings, *campaign.parts)) else []
        return shlex.join(["plumb", *map(str, words)])


def _cases(budget: str) -> str:
    """The number of cases in a gate's budget; one of no cases is written as no time: "0h"."""
    return budget.removesuffix("cases") if budget.endswith("cases") else "0"


@dataclasses.dataclass(frozen=True)
class DumpReport:
    """One dump that `plumb check` judged."""

    title: str
    dump: dict[str, Any]
    path: pathlib.Path

    otherwise = "not what `plumb check --json` prints"  # of a file that has another form

    @property
    def verdict(self) -> str:
        """The gravest of its outputs and of its checks without an oracle."""
        for word, count in (("wrong", "fail"), ("suspect", "suspect")):
            if any(output[count] for output in self.dump["outputs"]):
                return word
        return "wrong" if self.dump["findings"] else "clean"

    @property
    def again(self) -> str:
        return f"plumb check {shlex.quote(self.dump['file'])}"

    @property
    def held(self) -> str:
        """What was judged, and by which contract."""
        rows, sizes = f"{self.dump['rows']} of {self.dump['n']} rows", f"V = {self.dump['v']}, H = {self.dump['h']}"
        return f"{rows}, {sizes}, {self.dump['dtype']}, held to {self.dump['contract']}."

    @property
    def unseen(self) -> list[str]:
        """What the verdict could not have seen."""
        return [words(each) for key in ("cannot_show", "not_looked_at") for each in self.dump.get(key, ())]


Report = CampaignReport | ComparisonReport | DumpReport | HistoryReport


def rendered(reports: Sequence[Report], render: Callable[[Report], Rendered]) -> list[Rendered]:
    """Each report as `render` shows it, by gravity; those of one keep their order. Raises FormatError, which names the file."""
    made = []
    for report in reports:
        with reading(report.path, report.otherwise):
            made.append((gravity(report.verdict), render(report)))
    return [shown for _, shown in sorted(made, key=lambda each: -each[0])]


def words(said: Any) -> str:
    """A line of a list in which some are texts and some are objects that hold one."""
    return str(said.get("what", said)) if isinstance(said, Mapping) else str(said)


def worst(output: Mapping[str, Any]) -> str:
    """The worst element of an output that fails, in words; empty where none does."""
    found = output.get("worst") or {}
    if not output["fail"] and not output["suspect"] or "row" not in found:
        return ""
    return f"row {found['row']}: {found['got']} where {found.get('required', found.get('expected'))}"


_OF_A_DUMP = ("rows", "n", "v", "h", "dtype", "contract", "findings")
_OF_AN_OUTPUT = ("output", "pass", "fail", "suspect", "vacuous", "tightness")


def _of_file(path: pathlib.Path) -> list[Report | BenchResult]:
    with reading(path, DumpReport.otherwise):
        text = path.read_text(encoding="utf-8").strip()
        try:
            whole = json.loads(text)
        except ValueError:
            whole = None  # what a check prints before its JSON
        if is_bench_result(whole):
            return [bench_result(path, whole)]
        said = json.loads(text.splitlines()[-1])
        reports = [DumpReport(each["file"], each, path) for each in said["dumps"]]
        if not reports:
            raise FormatError(f"{path}: `plumb check` judged no dump")
        # What a report reads is looked at here, where the file can be named.
        for report in reports:
            _ = [report.dump[key] for key in _OF_A_DUMP], [output[key] for output in report.dump["outputs"] for key in _OF_AN_OUTPUT]
        return list(reports)


def _of_campaign(path: pathlib.Path) -> CampaignReport:
    campaign, summary = read_campaign(path), path / "summary.json"
    with reading(summary, CampaignReport.otherwise):
        title = ", ".join(campaign.json["campaign"]["targets"])
    return CampaignReport(title, campaign, read_journal(path / "journal.jsonl"), summary)


def _of_path(path: pathlib.Path) -> list[Report | BenchResult]:
    if not path.is_dir():
        return _of_file(path)
    if (path / NAME).exists():
        comparison = read_comparison(path / NAME)
        folders = [path / folder for folder in comparison.folders]
        return [comparison, *(_of_campaign(folder) for folder in folders if (folder / "summary.json").exists())]
    return [_of_campaign(path)]


def read(paths: Sequence[pathlib.Path]) -> list[Report]:
    """What there is to report of folders and files; results of one benchmark become one history. Raises FormatError,
    which names file and line, or OSError."""
    found = [each for path in paths for each in _of_path(path)]
    results = [each for each in found if isinstance(each, BenchResult)]
    return [*(each for each in found if not isinstance(each, BenchResult)), *histories(results)]
