# SPDX-License-Identifier: Apache-2.0
"""What a Python program asks of the harness: fuzz, gate, replay and check."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from . import arrays, findings, naming, running, stored
from . import progress as progress_
from .contract import Contract
from .findings import Campaign, Finding, FindingsError
from .loading import LoadError

Path = str | os.PathLike[str]


# What a function's import, its reading or the asking of it may raise: no reason to lose a campaign.
_NO_SCRIPT = (ImportError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError, LoadError)


def _bad(name: str, value: Any, what: str) -> ValueError:
    return ValueError(f"{name} is {value!r}: {what}")


def _option(name: str, value: Any, kinds: tuple[type, ...], what: str) -> list[str]:
    """The option --NAME VALUE; none where the value is None."""
    if value is None:
        return []
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise _bad(name, value, f"it must be {what}")
    return [f"--{name}", os.fspath(value) if isinstance(value, os.PathLike) else str(value)]


def _budget(value: str | float) -> list[str]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not value > 0:
            raise _bad("budget", value, "it must be above 0")
        value = f"{round(value * 1000)}ms"
    return _option("budget", value, (str,), "a number of seconds or a text such as '60s', '10m' or '5000cases'")


def _contract(
    value: str | Contract | Mapping[str, Any] | os.PathLike[str] | None, folder: pathlib.Path
) -> list[str]:
    """A contract's name, words or file; one that is given by its keys is written to a file."""
    if isinstance(value, Contract):
        value = str(value)
    if isinstance(value, Mapping):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "contract.json"
        path.write_text(json.dumps({"name": "contract", "contract": dict(value)}), encoding="utf-8")
        value = path.absolute()
    return _option("contract", value, (str, os.PathLike), "a Contract, a name, a file, or the keys of a contract")


def _words(options: Sequence[str]) -> list[str]:
    if isinstance(options, str) or not all(isinstance(word, str) for word in options):
        raise _bad("options", options, "it must be a sequence of words for plumb, such as ['--blind']")
    return list(options)


def _folder(out: Path | None) -> pathlib.Path:
    """The campaign's folder: `out`, or a new one in the current folder."""
    if out is not None:
        if not isinstance(out, (str, os.PathLike)):
            raise _bad("out", out, "it must be a folder's path")
        return pathlib.Path(out)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    # A new name for each call, whatever else starts in the same second.
    return pathlib.Path(tempfile.mkdtemp(prefix=f"plumb-out-{now}-", dir=os.getcwd()))


def write_beside(finding: Finding) -> None:
    """Writes the script and the report of a Python function's finding beside its case."""
    if finding.case_path is None or not finding.case_path.exists() or not finding.target.startswith("python:"):
        return
    finding.case_path.with_suffix(".repro.py").write_text(finding.repro(), encoding="utf-8")
    finding.case_path.with_suffix(".md").write_text(finding.report(), encoding="utf-8")


def _hunt(
    command: list[str],
    options: list[str],
    function: Any,
    folder: pathlib.Path,
    scripts: bool,
    shown: progress_.Shown | None = None,
) -> Campaign:
    name = naming.named(function, folder / "pickled")
    target = ["--target", name.target] if command[0] == "fuzz" else [name.target]
    words = [*command, *target, *running.interpreter(), "--out", str(folder), *options]
    try:
        result, text = running.run(words, name.environment, shown)
    except findings.PlumbError:
        with contextlib.suppress(OSError):
            folder.rmdir()  # if nothing was written to it
        raise
    campaign = findings.campaign_of(result, text, None if isinstance(function, str) else function)
    for finding in (*campaign.findings, *campaign.parts) if scripts else ():
        try:
            write_beside(finding)
        except _NO_SCRIPT as error:
            warnings.warn(f"{finding.case_path}: no script was written: {error!r}", stacklevel=3)
    return campaign


def fuzz(
    function: Any,
    budget: str | float = "60s",
    *,
    seed: int | str | None = None,
    out: Path | None = None,
    jobs: int | None = None,
    regime: str | None = None,
    contract: str | Contract | Mapping[str, Any] | os.PathLike[str] | None = None,
    known: Path | None = None,
    options: Sequence[str] = (),
    scripts: bool = True,
    progress: bool | None = None,
) -> Campaign:
    """Hunts inputs on which `function` is wrong (fuzz/campaign/HARNESS.md).

    function: a callable, a pair (forward, backward), or a name: "module:function" or what
        `plumb fuzz --target` takes.
    budget: seconds, or "60s", "10m", "2h", "5000cases".
    seed, out, jobs, regime, contract, known: as the options of `plumb fuzz`; `contract` may be a dict of
        its keys, too. `out` is a new folder in the current one unless given.
    options: further words for `plumb fuzz`.
    scripts: writes a script and a report beside the case of each finding.
    progress: shows how far it is: True, a bar of tqdm, or lines without tqdm; None, a bar in a terminal or a notebook.

    Returns the campaign, whatever its verdict; PlumbError means that there is none.
    """
    folder = _folder(out)
    words = _budget(budget)
    words += _option("seed", seed, (int, str), "a number") + _option("jobs", jobs, (int,), "a number")
    words += _option("regime", regime, (str,), "a regime's name") + _contract(contract, folder)
    words += _option("known", known, (str, os.PathLike), "a file") + _words(options)
    return _hunt(["fuzz"], words, function, folder, scripts, progress_.shown(progress))


def gate(
    function: Any,
    cases: int = 2000,
    *,
    seed: int | str | None = None,
    out: Path | None = None,
    jobs: int | None = None,
    corpus: Path | None = None,
    contract: str | Contract | Mapping[str, Any] | os.PathLike[str] | None = None,
    known: Path | None = None,
    options: Sequence[str] = (),
    scripts: bool = True,
) -> Campaign:
    """Judges `function` on fixed cases: the same ones, and the same verdict, everywhere (fuzz/campaign/GATE.md)."""
    folder = _folder(out)
    words = _option("cases", cases, (int,), "a number")
    words += _option("seed", seed, (int, str), "a number") + _option("jobs", jobs, (int,), "a number")
    words += _option("corpus", corpus, (str, os.PathLike), "a folder") + _contract(contract, folder)
    words += _option("known", known, (str, os.PathLike), "a file") + _words(options)
    return _hunt(["gate"], words, function, folder, scripts)


def assert_linear_cross_entropy(function: Any, cases: int = 2000, **options: Any) -> Campaign:
    """Raises FindingsError, an AssertionError with the findings' text, unless `gate` is clean."""
    __tracebackhide__ = True
    campaign = gate(function, cases, **options)
    campaign.raise_if_wrong()
    return campaign


@dataclasses.dataclass(frozen=True)
class Replayed:
    """A stored case that was run again."""

    file: pathlib.Path
    target: str
    outcome: str  # "still fails", "passes", "fails differently", "skipped", ...
    state: str  # the case's state from now on
    was: str  # the signature that it is stored with
    findings: tuple[Finding, ...]
    json: Mapping[str, Any] = dataclasses.field(repr=False)

    @property
    def fails(self) -> bool:
        return bool(self.findings)


def replay(function: Any, path: Path | Sequence[Path], *, options: Sequence[str] = ()) -> list[Replayed]:
    """Runs stored cases, files or folders of them, on `function`."""
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    for each in paths:
        if not os.path.exists(each):
            raise _bad("path", os.fspath(each), "there is no such file or folder")
    with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
        name = naming.named(function, pathlib.Path(scratch))
        words = ["replay", *map(os.fspath, paths), "--target", name.target]
        result, _ = running.run([*words, *running.interpreter(), *_words(options)], name.environment)
    given = None if isinstance(function, str) else function
    replayed = []
    for entry in result.get("results", []):
        file = pathlib.Path(entry["file"])
        found = entry.get("result", {}).get("findings", [])
        replayed.append(
            Replayed(
                file,
                entry.get("target", ""),
                entry.get("outcome", ""),
                entry.get("state", ""),
                entry.get("was", ""),
                tuple(findings.finding_of(f, entry.get("target", ""), given, file) for f in found),
                entry,
            )
        )
    return replayed


@dataclasses.dataclass(frozen=True)
class Check:
    """What `plumb check` says of the inputs and outputs of one call (fuzz/check/CHECK.md)."""

    verdict: str  # "clean", "findings", "suspect"
    status: int
    text: str  # the table
    findings: tuple[Finding, ...]  # the worst element of each output that is wrong
    diagnosis: tuple[str, ...]
    wrong_rows: tuple[int, ...]
    json: Mapping[str, Any] = dataclasses.field(repr=False)

    def raise_if_wrong(self) -> None:
        """Raises FindingsError, with the table, unless the verdict is clean."""
        __tracebackhide__ = True
        if self.verdict != "clean":
            raise FindingsError(self.text)


def _unlike_honest_kernels(errors: Mapping[str, Any], where: str) -> list[Finding]:
    """A finding for each output that errs more than honest kernels do."""
    explanation = errors.get("explanation", {})
    found: dict[str, Finding] = {}
    for each in errors.get("outputs", ()):
        output, times = each["output"], max(each["rms"], each["median"], each["largest"])
        if each["verdict"] != "suspect" or output in found:
            continue
        explained = output in explanation.get("explains", ())
        entry = {"kind": "magnitude", "suspect": True, "output": output, "tightness": times / 8}
        entry["what"] = f"{output}{where} errs {times:.3g} times what honest kernels of this contract err"
        entry["shortcut"] = "; and ".join(explanation["shortcuts"]) if explained else ""
        found[output] = findings.finding_of(entry, "dump")
    return list(found.values())


def _checked(result: Mapping[str, Any], text: str) -> Check:
    dump = result["dumps"][0] if result.get("dumps") else {}
    found = []
    for output in dump.get("outputs", []):
        worst = output.get("worst", {})
        if not (output.get("fail") or output.get("suspect")) or not worst:
            continue
        place = output["output"] + ("" if output["output"] == "loss" else f"[{worst.get('row')}]")
        entry = dict(worst) | {"output": output["output"], "kind": worst.get("failure", "bound")}
        entry |= {"suspect": not output.get("fail"), "tightness": output.get("tightness", 0.0)}
        entry["what"] = f"{place} = {worst.get('got')} where {worst.get('required')} is required"
        found.append(findings.finding_of(entry, "dump"))
    found += _unlike_honest_kernels(dump.get("honest_errors", {}), "")
    found += _unlike_honest_kernels(dump.get("grad_weight_over_all_rows", {}), " over all rows")
    found += [
        findings.finding_of(
            {"kind": "consistency", "relation": each["name"], "output": each["output"], "what": each.get("what", "")}
            | {"suspect": each["verdict"] == "suspect"},
            "dump",
        )
        for each in dump.get("consistency", {}).get("checks", ())
        if each["verdict"] in ("wrong", "suspect")
    ]
    found += [findings.finding_of({"kind": "check", "what": line}, "dump") for line in dump.get("findings", [])]
    diagnosis = tuple(d if isinstance(d, str) else d.get("what", str(d)) for d in dump.get("diagnosis", []))
    return Check(
        result["verdict"],
        result["status"],
        text.replace(str(dump.get("file", "")), "this call"),
        tuple(found),
        diagnosis,
        tuple(dump.get("wrong_rows", ())),
        dump,
    )


def check(
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    contract: str | Contract | Mapping[str, Any] | os.PathLike[str] | None = None,
    *,
    rows: int | str | None = None,
    options: Sequence[str] = (),
) -> Check:
    """Judges the outputs of one call by its inputs; no kernel is run.

    inputs: hidden [N, H], weight [V, H], labels [N]; optionally temperature, grad_logprob, grad_entropy,
        ignore_index, vocabulary_size, reduction, rollout_logprob, old_logprob. NumPy arrays, torch tensors or what
        NumPy takes for an array.
    outputs: some of logprob, entropy, lse, loss, grad_hidden, grad_weight.
    rows: how many are judged, or "all" [64].
    """
    tensors, metadata = arrays.dump_of(inputs, outputs)
    with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
        folder = pathlib.Path(scratch)
        path = folder / "dump.safetensors"
        stored.write_safetensors(path, tensors, metadata)
        words = ["check", str(path), *_contract(contract, folder)]
        words += _option("rows", rows, (int, str), "a number or 'all'") + _words(options)
        return _checked(*running.run(words))
