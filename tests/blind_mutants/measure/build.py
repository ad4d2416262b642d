# SPDX-License-Identifier: Apache-2.0
"""Compiles the operator on the host, one line of it changed, and links it as plug-ins."""

import hashlib
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from report.command_line import Refused

HERE = Path(__file__).resolve().parent.parent
COMPILE_SECONDS = 120  # a unit takes 2; a constant expression may go on forever
# What a plug-in has beside kernel/ and its own source: the built-in targets and what they are made of.
OTHER_UNITS = ("kernel/cuda/not_built.cc", "fuzz/builtin/adapter.cc", "fuzz/builtin/host.cc",
               "fuzz/builtin/host_hopper.cc", "fuzz/target/interface/views.cc", "fuzz/base/json.cc",
               "fuzz/base/text.cc")
TARGETS = ("host", "host-hopper")
# Units that are in both plug-ins, and that only the other target's calls reach.
UNREACHED = {"host": {"fuzz/builtin/host_hopper.cc", "kernel/host/tensor_core.cc"},
             "host-hopper": {"kernel/linear_cross_entropy.cc", "kernel/host/forward_backward.cc"}}


def plugin_unit(target: str) -> str:
    """The source that exports a target."""
    return f"tests/blind_mutants/plugin/{target.replace('-', '_')}.cc"


def flags_of(command: str) -> list[str]:
    """The compiler and flags of a command of the build, without warnings, debug information, input and output."""
    words = shlex.split(command)
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or word == "-c" or word.endswith((".cc", ".o")):
            skip = False
        elif word == "-o":
            skip = True
        elif not re.fullmatch(r"-W(?!l,).*|-g\d?", word):
            kept.append(word)
    return [*kept, "-w"]


def build_flags(build: Path, root: Path) -> list[str]:
    """The build's own flags for the operator's sources; Refused where the build does not say them."""
    database = build / "compile_commands.json"
    wanted = root / "kernel/host/host.cc"
    for entry in json.loads(database.read_text(encoding="utf-8")) if database.is_file() else []:
        if Path(entry["file"]) == wanted:
            return flags_of(entry["command"])
    raise Refused(f"{database}: no command for {wanted}")


def reaches(changed: set[str]) -> list[str]:
    """Targets whose calls reach one of the units."""
    return [target for target in TARGETS if changed - UNREACHED[target]]


class CannotBuildError(Exception):
    """A unit that does not compile, or a library that does not link."""


class Workshop:
    """A copy of kernel/ in which a line is changed, the objects of the original, and those of the mutant at hand.

    A unit is compiled where the copy lies, the original's as the mutant's: no path tells them apart.
    """

    def __init__(self, root: Path, build: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.source, self.objects = folder / "source", folder / "objects"
        self.flags = build_flags(build, root)
        self.units = sorted(path.relative_to(root).as_posix() for where in ("kernel", "kernel/host")
                            for path in (root / where).glob("*.cc")) + list(OTHER_UNITS)
        self.needs: dict[str, set[str]] = {}  # files of the tree that a unit is compiled from
        self.digests: dict[str, str] = {}
        self.originals: dict[str, Path] = {}

    def prepare(self) -> None:
        """Copies the sources and builds the original's plug-ins."""
        for made in (self.source, self.objects):
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir(parents=True)
        for folder in ("kernel", "kernel/host"):
            (self.source / folder).mkdir(exist_ok=True)
            for path in (self.root / folder).glob("*.*"):
                if path.suffix in (".cc", ".h"):
                    shutil.copy(path, self.source / folder)
        for unit in [*self.units, *map(plugin_unit, TARGETS)]:
            made = self.compile(unit, self.objects)
            self.needs[unit] = self.needed(made.with_suffix(".d"))
            self.digests[unit] = digest(made)
        self.originals = {target: self.link(target, {}, self.folder / f"original-{target}.so") for target in TARGETS}

    def compile(self, unit: str, into: Path) -> Path:
        """The object of a unit; CannotBuildError."""
        path = unit if (self.source / unit).is_file() else str(self.root / unit)
        made = into / (unit.replace("/", "_") + ".o")
        words = [*self.flags[:1], "-I.", *self.flags[1:], "-MMD", "-MF", made.with_suffix(".d"), "-c", path, "-o", made]
        self.do(words, self.source)
        return made

    def needed(self, rule: Path) -> set[str]:
        """Files of the tree in a rule of make, from the root."""
        found = set()
        for word in rule.read_text(encoding="utf-8").replace("\\\n", " ").split()[1:]:
            path = (self.source / word).resolve()
            for base in (self.source, self.root):
                if path.is_relative_to(base):
                    found.add(path.relative_to(base).as_posix())
                    break
        return found

    def link(self, target: str, objects: dict[str, Path], library: Path) -> Path:
        """A target's plug-in, of these objects and otherwise the original's; CannotBuildError."""
        chosen = [objects.get(unit, self.objects / (unit.replace("/", "_") + ".o"))
                  for unit in [plugin_unit(target), *self.units]]
        self.do([self.flags[0], "-shared", *chosen, "-o", library, "-lhwy", "-pthread", "-Wl,-Bsymbolic", "-Wl,-z,defs",
                 f"-Wl,--version-script={HERE / 'plugin/exports.map'}"], self.folder)
        return library

    def mutate(self, file: str, text: str, into: Path) -> dict[str, Path]:
        """Objects of all units that are compiled from `file` if `text` stands in it; CannotBuildError."""
        into.mkdir(parents=True, exist_ok=True)
        (self.source / file).write_text(text, encoding="utf-8")
        try:
            # The quickest first: most mutants that do not compile are known by one unit.
            return {unit: self.compile(unit, into) for unit in self.units if file in self.needs[unit]}
        finally:
            shutil.copy(self.root / file, self.source / file)

    def changed(self, objects: dict[str, Path]) -> dict[str, str]:
        """Units whose object code is not the original's, and what it is instead, hashed."""
        found = {unit: digest(path) for unit, path in objects.items()}
        return {unit: its for unit, its in found.items() if its != self.digests[unit]}

    def versions(self) -> dict[str, str]:
        """What the objects are made by."""
        said = subprocess.run([self.flags[0], "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
        return {"compiler": said.splitlines()[0], "flags": " ".join(self.flags[1:]).replace(f"{self.root}", ".")}

    @staticmethod
    def do(words: list[str | Path], where: Path) -> None:
        try:
            done = subprocess.run(["nice", *map(str, words)], cwd=where, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, check=False, timeout=COMPILE_SECONDS)
        except subprocess.TimeoutExpired as fault:
            raise CannotBuildError(f"does not end in {COMPILE_SECONDS} s") from fault
        if done.returncode:
            raise CannotBuildError(done.stdout.decode(errors="replace")[-2000:])


def digest(path: Path) -> str:
    """An object's bytes, hashed: without -g they are code, data and symbols."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
