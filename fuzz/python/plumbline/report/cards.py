# SPDX-License-Identifier: Apache-2.0
"""A finding as a card of the page."""

from __future__ import annotations

from typing import Any

from ..findings import Finding

MOST_VALUES = 24  # of a tensor
MOST_SCRIPT = 16_000  # characters of a script in a bug report


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
    """The script beside the stored case, which shows the finding without plumbline; its path where it is long."""
    path = finding.case_path.with_suffix(".repro.py") if finding.case_path else None
    text = path.read_text(encoding="utf-8") if path and path.exists() else ""
    return text if len(text) <= MOST_SCRIPT else f"# {len(text)} characters: {path}"


def _bug_report(finding: Finding) -> str:
    """Markdown that can be sent as it stands. The kernel is not imported for it."""
    lines = [f"# {finding.target}: {finding.signature}", "", finding.what, ""]
    lines += [f"* {name}: {value}" for name, value in _numbers(finding)]
    lines += [f"* {finding.accepted_in_part}"] if finding.accepted_in_part else []
    lines += [f"* needs {line}" for line in finding.explanation]
    lines += ["", "The smallest input:", "", *(f"* {name} [{shape}]: {values}" for name, shape, values in _tensors(finding))]
    script = _script(finding)
    if script:
        lines += ["", "A script that needs nothing but the kernel's own package and mpmath:", "", "```python", script, "```"]
    return "\n".join(lines)


def card(finding: Finding) -> dict[str, Any]:
    """What the page says of a finding."""
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
