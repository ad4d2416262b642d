# SPDX-License-Identifier: Apache-2.0
"""A report in Markdown, of at most 60 lines: for the summary of a job, or an issue."""

from __future__ import annotations

from collections.abc import Sequence

from ..findings import Finding
from .source import CampaignReport, DumpReport, Report

MOST = 60


def cell(text: str) -> str:
    """Text in a cell of a table, or in one line: no line end and no bar of its own."""
    return " ".join(text.split()).replace("|", "\\|")


def _finding(finding: Finding) -> list[str]:
    """Heading, the smallest case, what it needs, how to see it again."""
    state = "accepted" if finding.known else "suspect" if finding.suspect else "wrong"
    lines = [f"### {state}: `{finding.signature}`", "", cell(finding.what)]
    if finding.explanation:
        lines.append(f"Needs: {cell(finding.explanation[0])}")
    if finding.case_path:
        lines += ["", f"    plumb replay {finding.case_path}"]
    return [*lines, ""]


def _campaign(report: CampaignReport) -> list[str]:
    campaign = report.campaign
    lines = [f"## {campaign.verdict}: {cell(report.title)}", ""]
    lines += [(f"{campaign.judged} of {campaign.cases} cases judged, {campaign.skipped} skipped, "
              f"{len(campaign.findings)} findings, {campaign.json.get('elapsed_seconds', 0):.0f} s."), ""]  # fmt: skip
    lines += ["| output | largest error / bound |", "|---|---:|"]
    for target in campaign.json["targets"]:
        lines += [f"| {output} | {float(largest):.3g} |" for output, largest in target.get("tightness", {}).items()]
    lines += ["", *(f"* {shortcut.text()}" for shortcut in campaign.shortcuts)]
    for finding in campaign.findings:
        lines += _finding(finding)
    return [*lines, f"    {report.again}"]


def _dump(report: DumpReport) -> list[str]:
    dump = report.dump
    lines = [f"## {report.verdict}: {cell(report.title)}", ""]
    lines += [f"* {cell(text if isinstance(text, str) else str(text.get('what', text)))}" for text in dump.get("diagnosis", [])]
    lines += [f"{dump['rows']} of {dump['n']} rows, V = {dump['v']}, H = {dump['h']}, {dump['dtype']}, held to {dump['contract']}.", ""]
    lines += ["| output | pass | wrong | suspect | largest error / bound |", "|---|---:|---:|---:|---:|"]
    for output in dump["outputs"]:
        lines.append(f"| {output['output']} | {output['pass']} | {output['fail']} | {output['suspect']} | "
                     f"{float(output['tightness']):.3g} |")  # fmt: skip
    lines += ["", *(f"* {cell(each['what'])}" for each in dump["findings"])]
    return [*lines, *(f"* not seen: {cell(each)}" for each in dump.get("cannot_show", [])), "", f"    {report.again}"]


def markdown(reports: Sequence[Report]) -> str:
    """The report, the gravest first; what does not fit in MOST lines is counted in the last one."""
    ordered = sorted(reports, key=lambda report: report.verdict == "clean")
    lines = []
    for report in ordered:
        lines += [*(_campaign(report) if isinstance(report, CampaignReport) else _dump(report)), ""]
    if len(lines) > MOST:
        lines = [*lines[: MOST - 2], "", f"… {len(lines) - MOST + 2} more lines: `plumb report --out report.html` has all."]
    return "\n".join(lines).rstrip() + "\n"
