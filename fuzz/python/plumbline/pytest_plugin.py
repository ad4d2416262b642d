# SPDX-License-Identifier: Apache-2.0
"""The pytest plug-in: a gate and campaigns as tests. Neither torch nor NumPy is imported here.

    def test_gate(assert_linear_cross_entropy):
        assert_linear_cross_entropy(my_package.linear_cross_entropy, cases=500)

    @pytest.mark.plumbline(budget="20s", regimes=["ignored-rows", "masked-tiles"])
    def test_hunt(plumbline_campaign):
        plumbline_campaign(my_package.linear_cross_entropy)

Cases that fail are kept in .plumbline/failures/TEST/ of the root folder. The next run replays them first and
fails if one of them still does; those that pass are removed. Campaigns lie in .plumbline/runs/ and are
removed if they are clean.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

from . import api, findings
from .api import assert_linear_cross_entropy  # noqa: F401  re-exported: it works without the fixture, too
from .findings import Campaign, FindingsError

MARKER = "plumbline"
_DEFAULT_BUDGET = "20s"
_KEYWORDS = ("budget", "regimes", "seed", "contract", "known", "jobs", "options")


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(budget={_DEFAULT_BUDGET!r}, regimes=None, seed=None, contract=None, known=None, jobs=None, "
        "options=()): how the fixture plumbline_campaign hunts",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuses a marker that nothing reads, and keywords that it does not have."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return
    for key in marker.kwargs:
        if key not in _KEYWORDS:
            pytest.fail(f"@pytest.mark.{MARKER} has no {key!r}; it has {', '.join(_KEYWORDS)}", pytrace=False)
    if marker.args:
        pytest.fail(f"@pytest.mark.{MARKER} takes keywords alone, not {marker.args!r}", pytrace=False)
    if "plumbline_campaign" not in getattr(item, "fixturenames", ()):
        pytest.fail(
            f"@pytest.mark.{MARKER} is on a test that does not take the fixture plumbline_campaign: nothing would run",
            pytrace=False,
        )


def _jobs() -> int | None:
    """Under xdist, this worker's share of the hardware threads; else None: as plumb chooses."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return max(1, (os.cpu_count() or 1) // workers) if workers > 1 else None


class Keeper:
    """What is kept of one test: the cases that failed, and a new folder for each run."""

    def __init__(self, root: pathlib.Path, test: str) -> None:
        label = re.sub(r"\W+", "-", test).strip("-")[-60:]
        self._slug = f"{label}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
        self._root = root / ".plumbline"
        self.failures = self._root / "failures" / self._slug

    def new_run(self) -> pathlib.Path:
        """A folder that no other process has."""
        runs = self._root / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        ignore = runs / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        return pathlib.Path(tempfile.mkdtemp(prefix=self._slug + "-", dir=runs))

    def kept(self) -> list[pathlib.Path]:
        return sorted(self.failures.glob("*.safetensors"))

    def keep(self, campaign: Campaign) -> None:
        """Copies the cases of findings, each whole or not at all."""
        for finding in (*campaign.wrong, *campaign.parts):
            if finding.case_path is None or not finding.case_path.exists() or finding.known is not None:
                continue
            self.failures.mkdir(parents=True, exist_ok=True)
            for path in (finding.case_path, *map(finding.case_path.with_suffix, (".repro.py", ".md"))):
                if path.exists():
                    handle, scratch = tempfile.mkstemp(prefix=".", dir=self.failures)
                    os.close(handle)
                    shutil.copyfile(path, scratch)
                    os.replace(scratch, self.failures / path.name)

    def forget(self, case: pathlib.Path) -> None:
        """Removes a case that passes; another process may have done so."""
        for path in (case, case.with_suffix(".repro.py"), case.with_suffix(".md")):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.failures.rmdir()


def _replay_kept(keeper: Keeper, function: Any) -> None:
    """Fails if a kept case still does; removes those that pass."""
    __tracebackhide__ = True
    kept = keeper.kept()
    if not kept:
        return
    replayed = api.replay(function, kept)
    failing = [r for r in replayed if r.fails]
    for result in replayed:
        if result.outcome == "passes":
            keeper.forget(result.file)
    if failing:
        lines = [f"{len(failing)} of {len(kept)} cases that failed before still fail:"]
        for result in failing:
            lines += [f"{f.signature}: {f.what}" for f in result.findings]
            lines.append(f"  case     {result.file}")
            script = result.file.with_suffix(".repro.py")
            lines += [f"  script   {script}"] if script.exists() else []
        raise FindingsError("\n".join(lines))


def _judge(keeper: Keeper, function: Any, hunts: list[Callable[[pathlib.Path], Campaign]], check: bool) -> Campaign:
    """Replays what is kept, then runs each hunt in a folder of its own; keeps what fails."""
    __tracebackhide__ = True
    _replay_kept(keeper, function)
    campaigns = []
    for hunt in hunts:
        folder = keeper.new_run()
        campaign = hunt(folder)
        campaigns.append(campaign)
        keeper.keep(campaign)
        if campaign.verdict == "clean":
            shutil.rmtree(folder, ignore_errors=True)
    campaign = findings.joined(campaigns)
    if check:
        campaign.raise_if_wrong()
    return campaign


def _keeper(request: pytest.FixtureRequest) -> Keeper:
    return Keeper(request.config.rootpath, request.node.nodeid)


@pytest.fixture(name="assert_linear_cross_entropy")
def _assert_linear_cross_entropy(request: pytest.FixtureRequest) -> Callable[..., Campaign]:
    """assert_linear_cross_entropy(function, cases=2000, ...): fails with the findings' text unless the gate is clean.

    Its further keywords are those of plumbline.gate. A corpus and accepted findings are looked for in
    .plumbline of the root folder.
    """
    keeper = _keeper(request)
    home = request.config.rootpath / ".plumbline"

    def assert_it(function: Any, cases: int = 2000, **options: Any) -> Campaign:
        __tracebackhide__ = True
        for key, path in (("corpus", home / "corpus"), ("known", home / "known.json")):
            if options.get(key) is None and path.exists():
                options[key] = path
        options.setdefault("jobs", _jobs())
        return _judge(keeper, function, [lambda out: api.gate(function, cases, out=out, **options)], True)

    return assert_it


def share(budget: str | float, parts: int) -> str | float:
    """A budget divided among so many campaigns; one that is not understood here stays as it is."""
    if parts == 1:
        return budget
    if isinstance(budget, (int, float)):
        return budget / parts
    number = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|cases)", budget)
    if number is None:
        return budget
    if number[2] == "cases":
        return f"{max(1, int(number[1]) // parts)}cases"
    seconds = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}[number[2]]
    return float(number[1]) * seconds / parts


@pytest.fixture
def plumbline_campaign(request: pytest.FixtureRequest) -> Callable[..., Campaign]:
    """plumbline_campaign(function): hunts as the test's marker says, and fails with the findings' text.

    Keywords go before the marker's. check=False returns a campaign with findings, too. With several
    regimes each has its share of the budget.
    """
    keeper = _keeper(request)
    marker = request.node.get_closest_marker(MARKER)
    marked = dict(marker.kwargs) if marker is not None else {}

    def run(function: Any, *, check: bool = True, **options: Any) -> Campaign:
        __tracebackhide__ = True
        for key in options:
            if key not in _KEYWORDS:
                raise TypeError(f"plumbline_campaign has no {key!r}; it has {', '.join(_KEYWORDS)}")
        chosen = {"budget": _DEFAULT_BUDGET, "jobs": _jobs()} | marked | options
        regimes = chosen.pop("regimes", None)
        regimes = [regimes] if isinstance(regimes, str) else list(regimes or [None])
        budget = share(chosen.pop("budget"), len(regimes))

        def hunt(regime: str | None) -> Callable[[pathlib.Path], Campaign]:
            return lambda out: api.fuzz(function, budget, regime=regime, out=out, **chosen)

        return _judge(keeper, function, [hunt(regime) for regime in regimes], check)

    return run
