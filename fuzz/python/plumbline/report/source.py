# SPDX-License-Identifier: Apache-2.0
"""What is reported: folders of campaigns and comparisons, and files with what `plumb check --json` or Google Benchmark wrote."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ..findings import Campaign, gravity, read_campaign
from ..stored import FormatError
from .comparison import NAME, ComparisonReport, read_comparison
from .history import (
    BenchResult,
    HistoryReport,
    bench_result,
    histories,
    is_bench_result,
)
from .journal import Journal, read_journal


@dataclasses.dataclass(frozen=True)
class CampaignReport:
    """A campaign and its journal."""

    title: str
    campaign: Campaign
    journal: Journal

    @property
    def verdict(self) -> str:
        return self.campaign.verdict

    @property
    def again(self) -> str:
        """The command that runs it again."""
        said = self.campaign.json["campaign"]
        if said.get("gate"):
            cases = str(said["budget"]).removesuffix("cases")
            return f"plumb gate {' '.join(said['targets'])} --cases {cases} --seed {said['seed']}"
        words = ["plumb fuzz", *(f"--target {target}" for target in said["targets"])]
        words += [f"--{name} {shlex.quote(str(said[name]))}" for name in ("budget", "seed", "regime", "recipe") if said.get(name)]
        return " ".join(words)


@dataclasses.dataclass(frozen=True)
class DumpReport:
    """One dump that `plumb check` judged."""

    title: str
    dump: dict[str, Any]

    @property
    def verdict(self) -> str:
        """The gravest of its outputs and of its checks without an oracle."""
        for word, count in (("wrong", "fail"), ("suspect", "suspect")):
            if any(output[count] for output in self.dump["outputs"]):
                return word
        return "wrong" if self.dump["findings"] else "clean"

    @property
    def again(self) -> str:
        return f"plumb check {self.dump['file']}"

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


def gravest_first(reports: Sequence[Report]) -> list[Report]:
    """The reports by gravity; those of one keep their order."""
    return sorted(reports, key=lambda report: -gravity(report.verdict))


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
    text = path.read_text(encoding="utf-8").strip()
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None  # what a check prints before its JSON
    if is_bench_result(whole):
        return [bench_result(path, whole)]
    try:
        said = json.loads(text.splitlines()[-1])
        reports = [DumpReport(each["file"], each) for each in said["dumps"]]
        # What a report reads is looked at here, where the file can be named.
        for report in reports:
            _ = [report.dump[key] for key in _OF_A_DUMP], [output[key] for output in report.dump["outputs"] for key in _OF_AN_OUTPUT]
        return list(reports)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise FormatError(f"{path}: not what `plumb check --json` prints: {error!r}") from None


def _of_campaign(path: pathlib.Path) -> CampaignReport:
    campaign = read_campaign(path)
    try:
        title = ", ".join(campaign.json["campaign"]["targets"])
    except (KeyError, TypeError):
        raise FormatError(f"{path / 'summary.json'}: no summary of a campaign: it names no target") from None
    return CampaignReport(title, campaign, read_journal(path / "journal.jsonl"))


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
