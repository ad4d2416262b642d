# SPDX-License-Identifier: Apache-2.0
"""Measures how many blind mutants of the operator plumb finds. README.md in this folder says what is measured."""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from report.command_line import Refused, refusing
from store import builds, plumb, stored, trees

from measure import draw, report
from measure.build import TARGETS, CannotBuildError, Workshop
from measure.examine import SURVIVED, Hunting, comparisons, examine, hunt

ROOT = trees.ROOT
HERE = Path(__file__).resolve().parent.parent
RESULT = ROOT / "bench/results/blind-mutants.json"
REVIEWED = HERE / "reviewed.json"
CONTROLS = 5  # hunts of each original, which must find nothing


def say(text: str) -> None:
    print(text, flush=True)


def seconds(text: str) -> str:
    """A time of whole seconds, as plumb reads it; the type of an argument of argparse."""
    if not re.fullmatch(r"[1-9]\d*s", text):
        raise argparse.ArgumentTypeError(f"'{text}': whole seconds, such as 20s")
    return text


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/blind_mutants/run", description=__doc__,
        epilog="Interrupt it and call it again: it goes on. Exit status: 0 all examined, 1 fewer than 97 %% of the "
        "mutants not shown to be equivalent were killed, 2 usage, 3 a fault.")
    parser.add_argument("--mutants", type=int, default=300, metavar="N", help="how many to examine (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the draw and the hunts (%(default)s)")
    parser.add_argument("--budget", type=seconds, default="20s", metavar="T", help="of a hunt (%(default)s)")
    parser.add_argument("--case-timeout", type=seconds, default="5s", metavar="T",
                        help="a case that takes longer hangs (%(default)s)")
    parser.add_argument("--recipes", type=int, default=10_000, metavar="N",
                        help="on which a survivor is compared with the original (%(default)s)")
    parser.add_argument("--report", action="store_true", help="only say how those that were examined ended")
    parser.add_argument("--store", action="store_true", help=f"keep the result as {RESULT.relative_to(ROOT)}")
    parser.add_argument("--again", action="append", default=[], metavar="NAME",
                        help="only examine this mutant once more, and print all")
    parser.add_argument("--fresh", action="store_true", help="forget what was examined")
    return parser.parse_args(words)


class Run:
    """What was examined so far, a file a mutant under build/, and what it is about."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen = chosen
        self.folder = ROOT / "build/blind_mutants" / f"seed-{chosen.seed}"
        self.about = {"budget": chosen.budget, "case timeout": chosen.case_timeout, "recipes": chosen.recipes,
                      "trees": trees.keys(ROOT, trees.PLUMB)}

    def open(self) -> None:
        """Refused where what lies there is of another tree or was examined otherwise."""
        if self.chosen.fresh:
            shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "mutants").mkdir(parents=True, exist_ok=True)
        path = self.folder / "about.json"
        if path.is_file() and (was := json.loads(path.read_text(encoding="utf-8"))) != self.about:
            changed = [key for key in self.about if was.get(key) != self.about[key]]
            where = self.folder.relative_to(ROOT)
            raise Refused(f"{where} is of another run ({', '.join(changed)}); --fresh forgets it")
        stored.put(path, self.about)

    def path(self, name: str) -> Path:
        return self.folder / "mutants" / f"{name}.json"

    def read(self, name: str) -> dict[str, Any] | None:
        path = self.path(name)
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def records(self) -> list[dict[str, Any]]:
        found = (json.loads(path.read_text(encoding="utf-8")) for path in (self.folder / "mutants").glob("*.json"))
        return sorted(found, key=lambda record: record["at"])

    def controls(self) -> list[dict[str, Any]]:
        path = self.folder / "controls.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def control(run: Run, workshop: Workshop, how: Hunting) -> None:
    """Hunts the originals as mutants are hunted: what is found there is no kill."""
    found = run.controls()
    for target in TARGETS:
        for nth in range(sum(each["target"] == target for each in found), CONTROLS):
            seed = how.seed * 1000 + nth
            found.append({"target": target, "seed": seed} | hunt(how, workshop.originals[target], seed,
                                                                workshop.folder / "out"))
            say(f"original {target}, seed {seed}: {found[-1]['verdict']} in {found[-1].get('cases')} cases")
            stored.put(run.folder / "controls.json", found)


def line(number: int, record: dict[str, Any]) -> str:
    last = list(record["hunts"].items())[-1]
    how = f"{last[0]} {last[1].get('check', last[1]['verdict'])}, {last[1].get('cases')} cases, {last[1]['wall']} s"
    return f"{number:4} {record['name']:28} {record['file']}:{record['line']} {record['outcome']}: {how}"


def go_on(run: Run, workshop: Workshop, how: Hunting) -> None:
    """Draws and examines until there are enough mutants."""
    pool = draw.in_order(draw.every(ROOT, ROOT / "build/blind_mutants/tools"), run.chosen.seed)
    say(f"{len(pool)} mutants of {len(draw.sources(ROOT))} files to draw from")
    seen: dict[str, str] = {}
    number = 0
    for at, mutant in enumerate(pool):
        if number == run.chosen.mutants:
            return
        record = run.read(mutant.name)
        if record is None:
            record = {"at": at, "name": mutant.name, "file": mutant.file, "line": mutant.line,
                      "was": mutant.was.strip(), "now": mutant.now.strip(), "rule": mutant.rule}
            record |= examine(mutant, workshop, how, seen)
            stored.put(run.path(mutant.name), record)
            if report.is_mutant(record):
                say(line(number + 1, record))
        if report.is_mutant(record):
            number += 1
            seen[record["code"]] = record["name"]


def compare_survivors(run: Run, workshop: Workshop, how: Hunting) -> None:
    """Compares with the original what was not yet."""
    for record in run.records():
        if record["outcome"] == SURVIVED and "comparisons" not in record:
            record["comparisons"] = comparisons(record, workshop, how)
            stored.put(run.path(record["name"]), record)
            say(f"{record['name']} {record['file']}:{record['line']}: " + ", ".join(
                f"{target} {its['different']} of {its['cases']} differ"
                for target, its in record["comparisons"].items()))


def again(run: Run, workshop: Workshop, how: Hunting) -> None:
    """Examines the mutants that are named, whatever was found before."""
    pool = {each.name: each for each in draw.every(ROOT, ROOT / "build/blind_mutants/tools")}
    for name in run.chosen.again:
        if name not in pool:
            raise Refused(f"--again {name}: no mutant of this tree")
        found = {"name": name} | examine(pool[name], workshop, how, {})
        if found["outcome"] == SURVIVED:
            found["comparisons"] = comparisons(found, workshop, how)
        say(f"{name} {pool[name].file}:{pool[name].line}\n  - {pool[name].was.strip()}\n  + {pool[name].now.strip()}")
        say(json.dumps(found, indent=1, ensure_ascii=False))


def summary(run: Run) -> dict[str, Any]:
    """Says how those that were examined ended; the numbers."""
    reviewed = report.read_reviewed(REVIEWED)
    records = run.records()
    numbers = report.count(records, reviewed)
    for its in report.by_file(records, reviewed):
        say("  ".join(f"{value:32}" if key == "file" else f"{key} {value:3}" for key, value in its.items()))
    say(", ".join(f"{key} {value:.4f}" if isinstance(value, float) else f"{key} {value}"
                  for key, value in numbers.items()))
    return numbers


def store(run: Run, program: Path) -> None:
    """Stores the result; Refused where something is missing."""
    chosen, reviewed, records = run.chosen, report.read_reviewed(REVIEWED), run.records()
    keys = trees.committed_keys(ROOT)
    if why := report.why_not_stored(records, reviewed, chosen.mutants, run.controls(), keys):
        raise Refused(f"nothing stored: {why}", 3)
    command = (f"tests/blind_mutants/run --mutants {chosen.mutants} --seed {chosen.seed} --budget {chosen.budget} "
               f"--case-timeout {chosen.case_timeout} --recipes {chosen.recipes} --store")
    compiler = json.loads((run.folder / "compiler.json").read_text(encoding="utf-8"))
    stored.write(RESULT, command, keys, plumb.machine(program),
                 versions={draw.TOOL: draw.VERSION} | compiler, seed=chosen.seed,
                 numbers=report.count(records, reviewed), controls=run.controls(),
                 files=report.by_file(records, reviewed),
                 mutants=[report.row(record, reviewed) for record in records if report.is_mutant(record)])
    say(f"{RESULT.relative_to(ROOT)}: stored")


def do(chosen: argparse.Namespace) -> int:
    run = Run(chosen)
    program = builds.release(ROOT, "plumb", "same_outputs") if not chosen.report else ROOT / "build/release/fuzz/plumb"
    run.open()
    if not chosen.report:
        with refusing("universalmutator is not to be installed", 3):
            draw.install(ROOT / "build/blind_mutants/tools")
        how = Hunting(program, program.parents[1] / "tests/blind_mutants/same_outputs", chosen.budget,
                      chosen.case_timeout, chosen.recipes, chosen.seed)
        workshop = Workshop(ROOT, ROOT / "build/release", run.folder)
        workshop.prepare()
        stored.put(run.folder / "compiler.json", workshop.versions())
        if chosen.again:
            again(run, workshop, how)
            return 0
        control(run, workshop, how)
        go_on(run, workshop, how)
        compare_survivors(run, workshop, how)
    numbers = summary(run)
    if chosen.store:
        store(run, program)
    return 0 if numbers["killed of those not equivalent"] >= report.TARGET else 1


def main(words: list[str]) -> int:
    try:
        return do(parse(words))
    except Refused as why:
        print(f"tests/blind_mutants/run: {why}", file=sys.stderr)
        return why.status
    except CannotBuildError as fault:
        print(f"tests/blind_mutants/run: the original does not build: {fault}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 5
