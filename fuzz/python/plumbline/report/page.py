# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML page, by Jinja; figures are Matplotlib's, where it is installed."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Sequence
from typing import Any

from ..findings import Finding
from .comparison import ComparisonReport
from .history import HistoryReport
from .journal import Journal
from .source import CampaignReport, DumpReport, Report, rendered, words, worst

TEMPLATE = pathlib.Path(__file__).resolve().parent / "page.html"
MOST_VALUES = 24  # of a tensor
MOST_FINDINGS = 40  # of each kind that a page shows; the first line says how many there are


def _short(value: float) -> str:
    return f"{float(value):.9g}"


def _numbers(finding: Finding) -> list[list[str]]:
    """What was got and what is right, of a finding that is about one element."""
    if not finding.output or finding.row < 0:
        return []
    exact = finding.arbiter or _short(finding.expected)
    rows = [["got", _short(finding.got)], ["exact", exact], ["bound", f"± {finding.bound:.3g}"]]
    return rows + ([["off by, in bounds", f"{finding.tightness:.3g}"]] if finding.bound else [])


def _tensors(finding: Finding) -> list[list[str]]:
    """The tensors of the stored case, as far as they can be read at a glance."""
    if finding.case_path is None or not finding.case_path.exists():
        return []
    rows = []
    for name, tensor in finding.case().tensors.items():
        values = [_short(value) for value in tensor.values()[:MOST_VALUES]]
        more = f" … {tensor.elements - MOST_VALUES} more" if tensor.elements > MOST_VALUES else ""
        rows.append([name, " × ".join(map(str, tensor.shape)) or "scalar", ", ".join(values) + more])
    return rows


def _script(finding: Finding) -> str:
    """The script beside the stored case, which shows the finding without plumbline."""
    path = finding.case_path.with_suffix(".repro.py") if finding.case_path else None
    return path.read_text(encoding="utf-8") if path and path.exists() else ""


def _bug_report(finding: Finding) -> str:
    """Markdown that can be sent as it stands. The kernel is not imported for it."""
    lines = [f"# {finding.target}: {finding.signature}", "", finding.what, ""]
    lines += [f"* {name}: {value}" for name, value in _numbers(finding)]
    lines += [f"* {finding.accepted_in_part}"] if finding.accepted_in_part else []
    lines += [f"* needs {line}" for line in finding.explanation]
    lines += ["", "The smallest input:", "", *(f"* {name} [{shape}]: {values}" for name, shape, values in _tensors(finding))]
    script = _script(finding)
    lines += ["", "A script that needs nothing but the kernel's own package and mpmath:", "", "```python", script, "```"] if script else []
    return "\n".join(lines)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "state": finding.state,
        "signature": finding.signature,
        "what": finding.what,
        "accepted_in_part": finding.accepted_in_part,
        "numbers": _numbers(finding),
        "explanation": finding.explanation,
        "why": finding.why,
        "also": finding.also,
        "tensors": _tensors(finding),
        "again": finding.again,
        "report": _bug_report(finding),
    }


def _coverage(journal: Journal) -> dict[str, Any]:
    """Cases by regime and dtype, each with its share of the largest number."""
    dtypes = sorted({dtype for _, dtype in journal.drawn})
    most = max(journal.drawn.values(), default=1)
    rows = [(regime, [(number := journal.drawn[regime, dtype], f"{number / most:.3f}") for dtype in dtypes])
            for regime in sorted({regime for regime, _ in journal.drawn})]  # fmt: skip
    return {"head": dtypes, "rows": rows}


def _figures(report: CampaignReport) -> list[str]:
    if importlib.util.find_spec("matplotlib") is None:
        return []
    from . import figures

    elapsed = float(report.campaign.json.get("elapsed_seconds", 0))
    honest = [figures.honest(report.journal)] if report.journal.honest else []
    return [figures.tightness(report.journal), *honest, figures.discoveries(report.journal, elapsed)]


def _campaign(report: CampaignReport) -> dict[str, Any]:
    campaign = report.campaign
    lines = [(f"{campaign.judged} of {campaign.cases} cases were judged, {campaign.skipped} skipped, in "
             f"{campaign.json.get('elapsed_seconds', 0):.0f} s; {len(campaign.findings)} findings, and {len(campaign.parts)} more "
             "signs of their causes.")]  # fmt: skip
    figures = _figures(report)
    if not figures:
        lines.append("Histograms need Matplotlib, which is not installed where this page was made.")
    rows = [[output, f"{float(largest):.3g}", report.journal.exact[output]]
            for target in campaign.json["targets"] for output, largest in target.get("tightness", {}).items()]  # fmt: skip
    return {
        "lines": lines + [shortcut.text() for shortcut in campaign.shortcuts],
        "findings": [_finding(each) for each in campaign.findings[:MOST_FINDINGS]],
        "parts": [_finding(each) for each in campaign.parts[:MOST_FINDINGS]],
        "tables": [("Largest error, in bounds", ["output", "error / bound", "cases without error"], rows)],
        "figures": figures,
        "coverage": _coverage(report.journal),
        "unseen": sorted({line for target in campaign.json["targets"] for line in target.get("not_shown", ())}),
    }


def _dump(report: DumpReport) -> dict[str, Any]:
    dump = report.dump
    head = ["output", "pass", "wrong", "suspect", "vacuous", "error / bound", "worst"]
    rows = [[each["output"], each["pass"], each["fail"], each["suspect"], each["vacuous"], f"{float(each['tightness']):.3g}",
             worst(each)] for each in dump["outputs"]]  # fmt: skip
    return {
        "lines": [*map(words, dump.get("diagnosis", ())), report.held, *map(words, dump["findings"])],
        "findings": [],
        "parts": [],
        "tables": [("Elements by verdict", head, rows)],
        "figures": [],
        "coverage": None,
        "unseen": report.unseen,
    }


def _about(lines: list[str], tables: list[Any]) -> dict[str, Any]:
    """A section of lines and tables alone."""
    return {"lines": lines, "findings": [], "parts": [], "tables": tables, "figures": [], "coverage": None, "unseen": []}


def _contents(report: Report) -> dict[str, Any]:
    if isinstance(report, ComparisonReport):
        return _about(report.lines(), [report.found(), report.errors()])
    if isinstance(report, HistoryReport):
        return _about([], report.tables())
    return _campaign(report) if isinstance(report, CampaignReport) else _dump(report)


def _section(report: Report) -> dict[str, Any]:
    return {"title": report.title, "verdict": report.verdict, "again": report.again} | _contents(report)


def page(reports: Sequence[Report], version: str) -> str:
    """The page. ImportError where Jinja is not installed."""
    import jinja2

    sections = rendered(reports, _section)
    shown = [{"number": number} | section for number, section in enumerate(sections, 1)]
    template = jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined)
    title = shown[0]["title"] if len(shown) == 1 else f"{len(shown)} reports"
    text = TEMPLATE.read_text(encoding="utf-8")
    return template.from_string(text).render(reports=shown, title=title, verdict=shown[0]["verdict"], version=version)
