# SPDX-License-Identifier: Apache-2.0
"""A report in Markdown, of at most 60 lines: for the summary of a job, or an issue."""

from __future__ import annotations

from collections.abc import Sequence

from ..findings import Finding
from .comparison import ComparisonReport
from .history import HistoryReport
from .source import CampaignReport, DumpReport, Report, rendered, words, worst

MOST = 60


def cell(text: str) -> str:
    """Text in a cell of a table, or in one line: no line end and no bar of its own."""
    return " ".join(text.split()).replace("|", "\\|")


def _finding(finding: Finding) -> list[str]:
    """Heading, the smallest case, what it needs, how to see it again."""
    lines = [f"### {finding.state}: `{finding.signature}`", "", cell(finding.what)]
    if finding.accepted_in_part:
        lines.append(f"It is {cell(finding.accepted_in_part)}.")
    if finding.explanation:
        lines.append(f"Needs: {cell(finding.explanation[0])}")
    if finding.again:
        lines += ["", f"    {finding.again}"]
    return [*lines, ""]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column flush left, the others flush right."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return lines + ["| " + " | ".join(cell(str(each)) for each in row) + " |" for row in rows] + [""]


def _campaign(report: CampaignReport) -> list[str]:
    campaign = report.campaign
    lines = [f"## {campaign.verdict}: {cell(report.title)}", ""]
    lines += [(f"{campaign.judged} of {campaign.cases} cases judged, {campaign.skipped} skipped, "
              f"{len(campaign.findings)} findings, {campaign.json.get('elapsed_seconds', 0):.0f} s."), ""]  # fmt: skip
    errors = [(output, f"{float(largest):.3g}") for target in campaign.json["targets"]
              for output, largest in target.get("tightness", {}).items()]  # fmt: skip
    lines += [*_table(("output", "largest error / bound"), errors), *(f"* {shortcut.text()}" for shortcut in campaign.shortcuts)]
    for finding in campaign.findings:
        lines += _finding(finding)
    return [*lines, f"    {report.again}"]


def _dump(report: DumpReport) -> list[str]:
    dump = report.dump
    lines = [f"## {report.verdict}: {cell(report.title)}", ""]
    lines += [f"* {cell(words(each))}" for each in dump.get("diagnosis", [])]
    lines += [report.held, ""]
    lines += ["| output | pass | wrong | suspect | largest error / bound | worst |", "|---|---:|---:|---:|---:|---|"]
    for output in dump["outputs"]:
        lines.append(f"| {output['output']} | {output['pass']} | {output['fail']} | {output['suspect']} | "
                     f"{float(output['tightness']):.3g} | {cell(worst(output))} |")  # fmt: skip
    lines += ["", *(f"* {cell(words(each))}" for each in dump["findings"])]
    if unseen := report.unseen:
        lines.append(f"Could not have been seen: {len(unseen)} kinds of error or parts, the last: {cell(unseen[-1])}.")
    return [*lines, "", f"    {report.again}"]


def _comparison(report: ComparisonReport) -> list[str]:
    lines = [f"## {report.verdict}: {cell(report.title)}", ""]
    for caption, head, rows in (report.found(), report.errors()):
        lines += [f"{caption}.", "", *_table(head, rows)]
    return [*lines, *(f"* {cell(line)}" for line in report.lines()), "", f"    {report.again}"]


def _history(report: HistoryReport) -> list[str]:
    lines = [f"## {cell(report.title)}", ""]
    for caption, head, rows in report.tables():
        lines += [f"{caption}.", "", *_table(head, rows)]
    return [*lines, f"    {report.again}"]


def _lines(report: Report) -> list[str]:
    if isinstance(report, ComparisonReport):
        return _comparison(report)
    if isinstance(report, HistoryReport):
        return _history(report)
    return _campaign(report) if isinstance(report, CampaignReport) else _dump(report)


def markdown(reports: Sequence[Report]) -> str:
    """The report, the gravest first; what does not fit in MOST lines is counted in the last one."""
    lines = []
    for each in rendered(reports, _lines):
        lines += [*each, ""]
    if len(lines) > MOST:
        lines = [*lines[: MOST - 2], "", f"… {len(lines) - MOST + 2} more lines: `plumb report --out report.html` has all."]
    return "\n".join(lines).rstrip() + "\n"
