# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML page, by Jinja; figures are Matplotlib's, where it is installed."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from .cards import card
from .comparison import ComparisonReport
from .history import HistoryReport
from .journal import Journal
from .limits import MOST_BYTES, MOST_CARDS, widest_first
from .shapes import GROUPS
from .source import CampaignReport, DumpReport, Report, rendered, words, worst

TEMPLATE = pathlib.Path(__file__).resolve().parent / "page.html"


def _counts(caption: str, groups: Sequence[Any], counts: dict[str, list[int]]) -> dict[str, Any]:
    """A table of cases by regime and groups of columns. Each number has its share of the largest one."""
    most = max((number for row in counts.values() for number in row), default=0) or 1
    rows = [(regime, [(number, f"{number / most:.3f}") for number in row]) for regime, row in sorted(counts.items())]
    return {"caption": caption, "groups": groups, "rows": rows}


def _coverage(journal: Journal) -> list[dict[str, Any]]:
    """Cases by regime and dtype, and by regime and shape."""
    dtypes = sorted({dtype for _, dtype in journal.drawn})
    by_dtype = {regime: [journal.drawn[regime, dtype] for dtype in dtypes] for regime, _ in journal.drawn}
    columns = [(group, name) for group, names in GROUPS for name in names]
    by_shape = {regime: [counted[column] for column in columns] for regime, counted in journal.shapes.items()}
    dtype_caption = "Cases by regime and dtype; a regime draws inputs aimed at one way of being wrong"
    shape_caption = "Cases by regime and shape; a case counts for each of N, V and H that its line in the journal tells"
    return [_counts(dtype_caption, [("dtype", dtypes)], by_dtype), _counts(shape_caption, GROUPS, by_shape)]


def _figures(report: CampaignReport) -> list[str]:
    if importlib.util.find_spec("matplotlib") is None:
        return []
    from . import figures

    elapsed = float(report.campaign.json.get("elapsed_seconds", 0))
    honest = [figures.honest(report.journal)] if report.journal.honest else []
    return [figures.tightness(report.journal), *honest, figures.discoveries(report.journal, elapsed)]


def _campaign(report: CampaignReport) -> dict[str, Any]:
    campaign = report.campaign
    seconds = campaign.json.get("elapsed_seconds", 0)
    lines = [(f"{campaign.judged} of {campaign.cases} cases were judged, {campaign.skipped} skipped, in {seconds:.0f} s; "
              f"{len(campaign.findings)} findings, and {len(campaign.parts)} more signs of their causes.")]  # fmt: skip
    figures = _figures(report)
    if not figures:
        lines.append("Histograms need Matplotlib, which is not installed where this page was made.")
    rows = [[output, f"{float(largest):.3g}", report.journal.exact[output]]
            for target in campaign.json["targets"] for output, largest in target.get("tightness", {}).items()]  # fmt: skip
    return {
        "lines": lines + [shortcut.text() for shortcut in campaign.shortcuts],
        "findings": [card(each) for each in campaign.findings[:MOST_CARDS]],
        "finding_count": len(campaign.findings),
        "parts": [card(each) for each in campaign.parts[:MOST_CARDS]],
        "part_count": len(campaign.parts),
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
    lines = [*map(words, dump.get("diagnosis", ())), report.held, *map(words, dump["findings"])]
    return {"lines": lines, "tables": [("Elements by verdict", head, rows)], "unseen": report.unseen}


def _contents(report: Report) -> dict[str, Any]:
    if isinstance(report, ComparisonReport):
        return {"lines": report.lines(), "tables": [report.found(), report.errors()]}
    if isinstance(report, HistoryReport):
        return {"tables": report.tables()}
    return _campaign(report) if isinstance(report, CampaignReport) else _dump(report)


# What a section has none of unless its report says otherwise.
_NOTHING = {"lines": [], "findings": [], "finding_count": 0, "parts": [], "part_count": 0, "tables": [], "figures": [],
            "coverage": [], "unseen": []}  # fmt: skip


def _section(report: Report) -> dict[str, Any]:
    said = {"title": report.title, "verdict": report.verdict, "again": report.again, "path": str(report.path)}
    return _NOTHING | said | _contents(report)


def _fits(pieces: Iterable[str]) -> str:
    """The page that the pieces make; empty where it is longer than MOST_BYTES."""
    text, size = [], 0
    for piece in pieces:
        text.append(piece)
        size += len(piece.encode())
        if size > MOST_BYTES:
            return ""
    return "".join(text)


def page(reports: Sequence[Report], version: str) -> str:
    """The page, of at most MOST_BYTES. ImportError where Jinja is not installed."""
    import jinja2

    sections = rendered(reports, _section)
    title = sections[0]["title"] if len(sections) == 1 else f"{len(sections)} reports"
    said = {"reports": sections, "title": title, "verdict": sections[0]["verdict"], "version": version}
    source = TEMPLATE.read_text(encoding="utf-8")
    for most in widest_first(len(sections)):
        plain = jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined, finalize=most.text_of)
        if text := _fits(plain.from_string(source).generate(said, most=most)):
            return text
    raise AssertionError("the least page is too long")
