# SPDX-License-Identifier: Apache-2.0
"""What a campaign found: its findings, read from its JSON object and the cases in its folder."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from . import stored

NO_SUMMARY = "no summary of a campaign"
STATUS_WORDS = ("clean", "findings", "usage", "fault", "unavailable", "interrupted", "suspect")


def gravity(verdict: str) -> int:
    """How grave a verdict is of a campaign, or of one dump, which is "wrong" and not "findings"."""
    return {"fault": 4, "wrong": 3, "findings": 3, "suspect": 2, "unavailable": 1, "thin": 1}.get(verdict, 0)


class PlumbError(RuntimeError):
    """`plumb` gave no verdict on the function. The text is its own words; `status` is its exit status."""

    def __init__(self, words: str, status: int, folder: pathlib.Path | None = None) -> None:
        super().__init__(words)
        self.status = status
        self.folder = folder


class FindingsError(AssertionError):
    """A function is wrong; `campaign` says how."""

    def __init__(self, words: str, campaign: Campaign | None = None) -> None:
        super().__init__(words)
        self.campaign = campaign


def number(value: Any) -> float:
    """A number of plumb's JSON, in which NaN and infinities are texts."""
    return float(value) if value is not None else float("nan")


def signature_of(finding: Mapping[str, Any]) -> str:
    """The check that fails and the output, as plumb prints it."""
    text = ("suspect-" if finding.get("suspect") else "") + ("unexplained-" if finding.get("unexplained") else "")
    text += finding.get("kind", "")
    failure = finding.get("failure", "") if finding.get("kind") == "status" and not finding.get("output") else ""
    parts = (text, finding.get("relation", ""), finding.get("output", ""), failure)
    return ":".join(part for part in parts if part)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One way in which a function is wrong, on the smallest case that shows it."""

    signature: str  # "bound:logprob"
    what: str  # one sentence
    target: str
    kind: str = ""
    output: str = ""  # "" where none is concerned
    row: int = -1  # the worst element's
    column: int = -1
    got: float = float("nan")
    expected: float = float("nan")
    bound: float = 0.0
    tightness: float = 0.0  # |got - expected| / bound
    arbiter: str = ""  # the exact value to 40 digits, where the second oracle was asked
    suspect: bool = False  # it breaks what is assumed of an undeclared contract, and nothing that is declared
    also: tuple[str, ...] = ()  # further signatures of the same cause
    explanation: tuple[str, ...] = ()  # what it needs: "V: fails where V mod 8 is 1"
    why: str = ""  # what the regime that drew it is for
    recipe: str = ""  # a line that `plumb fuzz --recipe` takes
    repeats: str = ""  # "fails 5 of 5"
    shortcut: str = ""  # the rounding that explains it, in words
    known: Mapping[str, Any] | None = None  # the entry of known= that accepts its signature
    not_accepted: tuple[str, ...] = ()  # those of its signature and `also` that no entry of known= accepts
    case_path: pathlib.Path | None = None  # None: it was not stored
    function: Any = dataclasses.field(default=None, repr=False, compare=False)  # that was judged, where it is at hand

    @property
    def accepted(self) -> bool:
        """Whether entries of known= accept each of its signatures (fuzz/campaign/GATE.md)."""
        return self.known is not None and not self.not_accepted

    @property
    def state(self) -> str:
        """"accepted", "suspect", or "wrong"."""
        return "accepted" if self.accepted else "suspect" if self.suspect else "wrong"

    @property
    def accepted_in_part(self) -> str:
        """"accepted but for SIGNATURES" where entries of known= accept some of its signatures and not all; else ""."""
        in_part = 0 < len(self.not_accepted) <= len(self.also)
        return f"accepted but for {', '.join(self.not_accepted)}" if in_part else ""

    @property
    def again(self) -> str:
        """The command that replays its case; "" where none was stored."""
        return f"plumb replay {shlex.quote(str(self.case_path))}" if self.case_path else ""

    def case(self) -> stored.Case:
        """The stored case. Raises FileNotFoundError where there is none."""
        if self.case_path is None:
            raise FileNotFoundError(f"{self.signature} of {self.target} was not stored")
        return stored.read_case(self.case_path)

    def repro(self) -> str:
        """A script that shows it without plumbline. Raises ValueError where the target is not Python's."""
        from . import repro

        return repro.repro_script(self)

    def report(self) -> str:
        """A report of it in Markdown, with the script. Raises ValueError where the target is not Python's."""
        from . import repro

        return repro.bug_report(self)

    def text(self) -> str:
        """A few lines for a person."""
        lines = [f"{self.signature}: {self.what}"]
        lines += [f"  also     {', '.join(self.also)}"] if self.also else []
        lines += [f"  {self.accepted_in_part}"] if self.accepted_in_part else []
        lines += [f"  shortcut {self.shortcut} explains it"] if self.shortcut else []
        lines += [f"  needs    {line}" for line in self.explanation[:1]]
        lines += [f"           {line}" for line in self.explanation[1:]]
        lines += [f"  arbiter  the value is {self.arbiter}"] if self.arbiter else []
        lines += [f"  drawn by {self.why}"] if self.why else []
        if self.case_path is not None:
            lines.append(f"  case     {self.case_path}")
            script = self.case_path.with_suffix(".repro.py")
            lines += [f"  script   {script}"] if script.exists() else []
        return "\n".join(lines)


def finding_of(
    found: Mapping[str, Any], target: str, function: Any = None, path: pathlib.Path | None = None, **more: Any
) -> Finding:
    """A finding of plumb's JSON object `found`."""
    return Finding(
        more.pop("signature", "") or signature_of(found),
        found.get("what", ""),
        target,
        found.get("kind", ""),
        found.get("output", ""),
        found.get("row", -1),
        found.get("column", -1),
        number(found.get("got")),
        number(found.get("expected")),
        number(found.get("bound", 0.0)),
        number(found.get("tightness", 0.0)),
        found.get("arbiter", ""),
        bool(found.get("suspect")),
        shortcut=found.get("shortcut", ""),
        case_path=path,
        function=function,
        **more,
    )


def read_finding(path: str | os.PathLike[str], function: Any = None) -> Finding:
    """The finding of a stored case."""
    case = stored.read_case(path)
    extra = case.json.get("extra", {})
    signature = signature_of(case.json["finding"])
    return finding_of(
        case.json["finding"],
        case.json["target"],
        function,
        case.path,
        also=tuple(s for s in extra.get("also", ()) if s != signature),
        explanation=tuple(extra.get("explain", ())),
        why=case.json.get("why", ""),
        recipe=case.json.get("recipe", ""),
        repeats=extra.get("repeats", ""),
    )


def _sighted(
    entry: Mapping[str, Any], folder: pathlib.Path, function: Any, parts: Sequence[Mapping[str, Any]] = ()
) -> Finding:
    """The finding of a sighting that leads `parts`, the sightings of its further signatures."""
    kept = entry.get("kept") or {}
    path = folder / kept["file"] if kept.get("file") else None
    extra: Mapping[str, Any] = {}
    if path is not None and path.exists():
        case = stored.read_case(path)
        extra = case.json.get("extra", {}) | {"why": case.json.get("why", "")}
    return finding_of(
        kept.get("finding") or entry["finding"],
        entry["target"],
        function,
        path,
        signature=entry["signature"],
        also=tuple(part["signature"] for part in parts),
        explanation=tuple(kept.get("explain", ())),
        why=extra.get("why", ""),
        recipe=entry.get("recipe", ""),
        repeats=extra.get("repeats", ""),
        known=entry.get("known"),
        not_accepted=tuple(each["signature"] for each in (entry, *parts) if each.get("known") is None),
    )


@dataclasses.dataclass(frozen=True)
class Shortcut:
    """A rounding or form that an undeclared function was seen to use (fuzz/infer/INFERENCE.md)."""

    what: str  # "logits rounded to the dtype of hidden"
    declares: str  # the words of a contract that declare it, "logits=input"; "": no key does
    cases: int  # that it explains
    output: str  # of the largest error that it explains
    error: float
    recipe: str  # of a case that shows it

    def text(self) -> str:
        """One line."""
        size = f", {self.error:.3g} in {self.output} at most" if self.output else ""
        return f"shortcut: {self.what}{size}: " + (f"{self.declares} declares it" if self.declares else "no key declares it")


@dataclasses.dataclass(frozen=True)
class Campaign:
    """The result of a campaign or a gate."""

    verdict: str  # "clean", "findings", "suspect", "thin"
    status: int  # the exit status of plumb
    cases: int
    judged: int
    skipped: int
    findings: tuple[Finding, ...]  # led by their gravest signatures; those that are accepted are among them
    parts: tuple[Finding, ...]  # their other signatures, each with a case of its own
    folder: pathlib.Path
    summary: str  # what plumb prints for a person
    json: Mapping[str, Any] = dataclasses.field(repr=False)  # everything else: summary.json
    shortcuts: tuple[Shortcut, ...] = ()  # that were inferred; findings until they are declared

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """The findings that entries of known= do not accept, or accept in part."""
        return tuple(finding for finding in self.findings if not finding.accepted)

    def text(self) -> str:
        """The verdict and every finding that is not accepted."""
        lines = [f"{self.verdict}: {self.judged} of {self.cases} cases were judged, {self.skipped} skipped"]
        lines += [shortcut.text() for shortcut in self.shortcuts]
        lines += [finding.text() for finding in self.wrong]
        if not self.wrong and self.verdict != "clean":
            lines.append(self.summary.strip())
        return "\n".join([*lines, f"everything lies in {self.folder}"])

    def raise_if_wrong(self, *, suspect: bool = True, thin: bool = True) -> None:
        """Raises FindingsError unless the verdict is clean; suspect=False and thin=False let these pass."""
        __tracebackhide__ = True
        passed = self.verdict == "clean" or (self.verdict == "suspect" and not suspect)
        if not passed and not (self.verdict == "thin" and not thin):
            raise FindingsError(self.text(), self)


def campaign_of(result: Mapping[str, Any], summary: str, function: Any = None) -> Campaign:
    """The campaign of plumb's JSON object."""
    folder = pathlib.Path(result["out"]).absolute()
    parts = result.get("parts", [])
    led: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for part in parts:
        led.setdefault((part["target"], part.get("part_of", "")), []).append(part)
    findings = [
        _sighted(entry, folder, function, led.get((entry["target"], entry["signature"]), ()))
        for entry in result.get("sightings", [])
    ]
    order = {(r["target"], r["signature"]): i for i, r in enumerate(result.get("ranking", []))}
    findings.sort(key=lambda f: order.get((f.target, f.signature), len(order)))
    return Campaign(
        result["verdict"],
        result["status"],
        result["cases"],
        result["judged"],
        sum(tally.get("skipped", 0) for tally in result.get("targets", [])),
        tuple(findings),
        tuple(_sighted(part, folder, function) for part in parts),
        folder,
        summary,
        result,
        tuple(_shortcut(each) for inferred in result.get("inference", []) for each in inferred.get("shortcuts", [])),
    )


def _shortcut(found: Mapping[str, Any]) -> Shortcut:
    return Shortcut(
        found["what"], found.get("declares", ""), int(found.get("cases", 0)), found.get("output", ""),
        number(found.get("error", 0.0)), found.get("recipe", "")
    )


def read_campaign(folder: str | os.PathLike[str], function: Any = None) -> Campaign:
    """The campaign in a folder. Raises FormatError, or OSError."""
    path = pathlib.Path(folder) / "summary.json"
    with stored.reading(path, NO_SUMMARY):
        result = json.loads(path.read_text(encoding="utf-8"))
        return campaign_of(result | {"out": str(folder)}, "", function)


def joined(campaigns: Sequence[Campaign]) -> Campaign:
    """Several campaigns on one function as one; the gravest verdict is its own."""
    worst = max(campaigns, key=lambda c: gravity(c.verdict))
    return dataclasses.replace(
        worst,
        cases=sum(c.cases for c in campaigns),
        judged=sum(c.judged for c in campaigns),
        skipped=sum(c.skipped for c in campaigns),
        findings=tuple(f for c in campaigns for f in c.findings),
        parts=tuple(f for c in campaigns for f in c.parts),
        shortcuts=tuple(dict.fromkeys(s for c in campaigns for s in c.shortcuts)),
        summary="\n".join(c.summary for c in campaigns),
    )
