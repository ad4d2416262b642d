# SPDX-License-Identifier: Apache-2.0
"""Which mutants there are and in what order a seed draws them."""

import contextlib
import hashlib
import importlib
import io
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from store import trees

TOOL = "universalmutator"
VERSION = "1.14.1"
RULES = ["universal.rules", "c_like.rules", "cpp.rules"]  # those that it applies to C++
# Sources of the operator on the host of which no mutant is drawn, and why.
LEFT_OUT = {
    "kernel/checks.cc": "refuses arguments that no recipe has",
    "kernel/linear_cross_entropy.cc": "chooses the device",
    "kernel/linear_cross_entropy.h": "declares",
    "kernel/checks.h": "declares",
    "kernel/status.h": "declares",
    "kernel/host/convert.h": "declares",
    "kernel/host/forward_backward.cc": "neither target calls it",
    "kernel/host/highway.h": "names instruction sets",
    "kernel/host/hooks.h": "does nothing: where a harness may change a stage",
    "kernel/host/host.h": "declares",
    "kernel/host/natural_log.h": "declares",
    "kernel/host/parallel.h": "declares",
}


class Mutant(NamedTuple):
    """One line of a source changed."""

    name: str  # the same as long as the file has this line as often before it
    file: str  # from the root of the tree
    line: int  # from 1
    was: str
    now: str
    rule: str


def sources(root: Path) -> list[str]:
    """Files whose mutants are drawn, from the root of the tree."""
    found = [path.relative_to(root).as_posix() for folder in ("kernel", "kernel/host")
             for path in (root / folder).iterdir() if path.suffix in (".cc", ".h")]
    return sorted(set(found) - set(LEFT_OUT))


def name_of(file: str, nth: int, was: str, now: str) -> str:
    """A mutant's name: the file's, and a hash of the change and of how many equal lines come before it."""
    digest = hashlib.sha256("\0".join((file, str(nth), was.strip(), now.strip())).encode()).hexdigest()
    return f"{Path(file).name}-{digest[:8]}"


def mutated(source: str, line: int, now: str) -> str:
    """The source with another line."""
    lines = source.splitlines(keepends=True)
    lines[line - 1] = now
    return "".join(lines)


def changes_code(was: str, now: str) -> bool:
    """Whether more than comments and white space changes in a line, outside of what spans lines."""
    return trees.code(was.encode()) != trees.code(now.encode())


def mutants_of(file: str, source: str, changes: Iterable[tuple[int, str, str]]) -> list[Mutant]:
    """Mutants of a file, from (line, what stands there then, rule). A line may lie after an equal one."""
    seen: Counter[str] = Counter()
    nth: list[int] = []
    lines = source.splitlines(keepends=True)
    for text in lines:
        nth.append(seen[text.strip()])
        seen[text.strip()] += 1
    return [Mutant(name_of(file, nth[line - 1], lines[line - 1], now), file, line, lines[line - 1], now, rule)
            for line, now, rule in changes if changes_code(lines[line - 1], now)]


def install(folder: Path) -> None:
    """universalmutator, at its pinned version, in a folder of its own; SubprocessError where pip fails."""
    if not (folder / f"{TOOL}-{VERSION}.dist-info").is_dir():
        # Without what it depends on: the part that applies rules needs Python alone.
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                        "--root-user-action=ignore", "--no-deps", "--upgrade", "--target", folder,
                        f"{TOOL}=={VERSION}"], check=True, timeout=600)


def every(root: Path, tool: Path) -> list[Mutant]:
    """Every mutant that universalmutator, installed in `tool`, makes of the sources; those of comments left out."""
    sys.path.insert(0, str(tool))
    mutator = importlib.import_module(f"{TOOL}.mutator")
    found: dict[str, Mutant] = {}
    for file in sources(root):
        source = (root / file).read_text(encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()):
            made = mutator.mutants_regexp(source.splitlines(keepends=True), ruleFiles=RULES, ignorePatterns=[])
        for mutant in mutants_of(file, source, ((line, now, rule[0]) for line, now, rule, _ in made)):
            found.setdefault(mutant.name, mutant)  # some differ in white space alone
    return list(found.values())


def in_order(mutants: Iterable[Mutant], seed: int) -> list[Mutant]:
    """The order in which a seed draws: each is as likely to come next as any other, whatever others there are."""
    return sorted(mutants, key=lambda each: hashlib.sha256(f"{seed} {each.name}".encode()).hexdigest())
