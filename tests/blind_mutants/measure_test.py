#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The measurement's own logic: what is drawn, what counts as a kill or an equivalent, and what is not stored.

No compiler, no plumb and no universalmutator run here: programs that print what these print take their place."""

import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "bench")]

from measure import build, draw, examine, report
from report.command_line import Refused

SOURCE = "int f(int x) {\n  return x + 1;  // more\n}\nint g(int x) {\n  return x + 1;  // more\n}\n"
SAME = {"cases": 5, "computed": 5, "different": 0, "first": []}
EMPTY: dict[str, dict[str, str]] = {report.WITHIN: {}, report.SURVIVED: {}}


def survivor(name: str, *comparisons: dict) -> dict:
    return {"at": 0, "name": name, "file": "kernel/host/a.cc", "line": 3, "was": "a", "now": "b",
            "outcome": examine.SURVIVED, "hunts": {"host": {"verdict": "clean", "cases": 9}},
            "comparisons": dict(zip(build.TARGETS, comparisons, strict=False))}


def killed(name: str) -> dict:
    return {"at": 0, "name": name, "file": "kernel/host/b.cc", "line": 7, "was": "a", "now": "b",
            "outcome": examine.KILLED, "hunts": {"host": {"verdict": "findings", "cases": 2, "check": "bound:lse"}}}


class Draw(unittest.TestCase):
    def named(self, source: str, line: int, now: str) -> str:
        (made,) = draw.mutants_of("kernel/a.cc", source, [(line, now, "rule")])
        return made.name

    # Fails if a line that is added above renames a mutant, or two equal lines share one.
    def test_names_stay_where_lines_move(self) -> None:
        now = "  return x - 1;  // more\n"
        name = self.named(SOURCE, 2, now)
        self.assertEqual(self.named("\n" + SOURCE, 3, now), name)
        self.assertNotEqual(self.named(SOURCE, 5, now), name)
        self.assertRegex(name, r"^a\.cc-[0-9a-f]{8}$")

    # Fails if a mutant of a comment costs a compile, or a change of code counts as one of a comment.
    def test_comments_are_no_mutants(self) -> None:
        lines = ("  return x + 1;  // less\n", "  return  x + 1;\n", "  return x + 2;\n")
        changes = [(2, now, "rule") for now in lines]
        self.assertEqual([each.now for each in draw.mutants_of("a.cc", SOURCE, changes)], ["  return x + 2;\n"])
        self.assertEqual(draw.mutated(SOURCE, 2, "  return 0;\n"), SOURCE.replace("x + 1;  // more", "0;", 1))

    # Fails if the order depends on what else there is, or not on the seed.
    def test_a_seed_orders(self) -> None:
        pool = draw.mutants_of("a.cc", SOURCE, [(2, f"  return {i};\n", "r") for i in range(40)])
        first = draw.in_order(pool, 1)
        self.assertEqual(draw.in_order(reversed(pool), 1), first)
        self.assertEqual(draw.in_order(pool[::2], 1), [each for each in first if each in pool[::2]])
        self.assertNotEqual(draw.in_order(pool, 2), first)

    # Fails if a source that is left out is not there any more, or one of them is drawn from.
    def test_what_is_left_out_is_there(self) -> None:
        root = HERE.parents[1]
        for file in draw.LEFT_OUT:
            self.assertTrue((root / file).is_file(), file)
        drawn = draw.sources(root)
        self.assertTrue({"kernel/dtype.cc", "kernel/host/softmax.h", "kernel/host/tensor_core.cc"} <= set(drawn))
        self.assertFalse([file for file in drawn if file in draw.LEFT_OUT or "cuda" in file])


class Build(unittest.TestCase):
    # Fails if a flag that arithmetic depends on is lost, or a warning is an error.
    def test_flags(self) -> None:
        command = ("/usr/bin/c++ -DA=1 -I/tree -isystem '/a b/include' -O3 -g1 -Wall -Werror -Wno-restrict "
                   "-ffp-contract=off -std=c++20 -o kernel/host.cc.o -c /tree/kernel/host/host.cc")
        self.assertEqual(build.flags_of(command), ["/usr/bin/c++", "-DA=1", "-I/tree", "-isystem", "/a b/include",
                                                   "-O3", "-ffp-contract=off", "-std=c++20", "-w"])

    # Fails if a target is hunted whose calls do not reach the change, or one is not whose calls do.
    def test_targets(self) -> None:
        self.assertEqual(build.reaches({"kernel/host/tensor_core.cc"}), ["host-hopper"])
        self.assertEqual(build.reaches({"kernel/linear_cross_entropy.cc"}), ["host"])
        self.assertEqual(build.reaches({"kernel/host/tensor_core.cc", "kernel/dtype.cc"}), ["host", "host-hopper"])
        units = {each for its in build.UNREACHED.values() for each in its}
        for unit in [*units, *build.OTHER_UNITS, *map(build.plugin_unit, build.TARGETS)]:
            self.assertTrue((HERE.parents[1] / unit).is_file(), unit)


class FakeWorkshop:
    """A workshop whose mutant has these changed units; None: it does not build."""

    def __init__(self, root: Path, changed: dict[str, str] | None) -> None:
        self.root, self.folder, self.its = root, root / "work", changed
        self.originals = {target: root / f"original-{target}.so" for target in build.TARGETS}

    def mutate(self, file: str, text: str, into: Path) -> dict[str, Path]:
        if self.its is None:
            raise build.CannotBuildError("a.cc:2: error")
        self.text = text
        into.mkdir(parents=True)
        return {}

    def changed(self, objects: dict[str, Path]) -> dict[str, str]:
        return self.its or {}

    def link(self, target: str, objects: dict[str, Path], library: Path) -> Path:
        library.write_text(target)
        return library


class Examine(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="plumbline-blind-"))
        self.addCleanup(shutil.rmtree, self.root, True)
        (self.root / "a.cc").write_text(SOURCE)
        self.mutant = draw.Mutant("a.cc-1", "a.cc", 2, "  return x + 1;  // more\n", "  return x;\n", "rule")

    def program(self, name: str, script: str) -> Path:
        path = self.root / name
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        return path

    def run_on(self, changed: dict[str, str] | None, plumb: str = "", seen: dict[str, str] | None = None) -> dict:
        """The record of the mutant, plumb being a script that knows its library as $3."""
        self.workshop = FakeWorkshop(self.root, changed)
        self.how = examine.Hunting(self.program("plumb", plumb), self.program("same", "echo \"$@\" >&2; exit 3"), "1s",
                                   "1s", 10, 1)
        return examine.examine(self.mutant, self.workshop, self.how, {} if seen is None else seen)

    # Fails if what does not build, the original itself or a mutant seen before is hunted.
    def test_what_falls_out(self) -> None:
        self.assertEqual(self.run_on(None)["outcome"], examine.NO_BUILD)
        self.assertEqual(self.run_on({})["outcome"], examine.SAME_CODE)
        self.assertEqual(self.workshop.text, draw.mutated(SOURCE, 2, "  return x;\n"))
        clean = """echo '{"verdict": "clean", "cases": 3, "elapsed_seconds": 1.0, "sightings": []}'"""
        code = self.run_on({"kernel/dtype.cc": "0123"}, clean)["code"]
        again = self.run_on({"kernel/dtype.cc": "0123"}, clean, {code: "a.cc-0"})
        self.assertEqual(again, {"outcome": examine.DUPLICATE, "of": "a.cc-0"})

    # Fails if a target after the one that killed is hunted, or a second target's finding is no kill.
    def test_either_target_kills(self) -> None:
        found = ('case "$3" in *hopper*) echo \'{"verdict": "%s", "cases": 4, "elapsed_seconds": 0.5, "sightings": '
                 '[{"signature": "bound:lse", "regime": "ties"}]}\'; exit 1;; esac\n'
                 'echo \'{"verdict": "%s", "cases": 7, "elapsed_seconds": 2, "sightings": []}\'')
        record = self.run_on({"kernel/dtype.cc": "1"}, found % ("suspect", "clean"))
        self.assertEqual(record["outcome"], examine.KILLED)
        self.assertEqual(list(record["hunts"]), ["host", "host-hopper"])
        self.assertLessEqual({"check": "bound:lse", "regime": "ties"}.items(), record["hunts"]["host-hopper"].items())
        record = self.run_on({"kernel/dtype.cc": "1"}, found % ("findings", "findings"))
        self.assertEqual((record["outcome"], list(record["hunts"])), (examine.KILLED, ["host"]))

    # Fails if a plumb that says nothing, too little was judged, or a plug-in that does not load counts as a kill; or if
    # a comparison that died counts as the same bits.
    def test_what_is_no_kill(self) -> None:
        for said in ("", """echo '{"verdict": "thin", "cases": 3, "elapsed_seconds": 1.0}'; exit 6""",
                     """echo '{"verdict": "unavailable", "cases": 0, "elapsed_seconds": 0, "error": "no"}'; exit 4"""):
            record = {"name": "a.cc-1"} | self.run_on({"kernel/host/tensor_core.cc": "1"}, said)
            self.assertEqual((record["outcome"], list(record["hunts"])), (examine.SURVIVED, ["host-hopper"]), said)
            record["comparisons"] = examine.comparisons(record, self.workshop, self.how)
            self.assertFalse(examine.is_same(record["comparisons"]["host-hopper"]))
        self.assertEqual(examine.read_hunt(None, "")["verdict"], "did not end")


class Report(unittest.TestCase):
    # Fails if a survivor of which a bit differs on one target is an equivalent without being listed, or one that
    # nothing was computed of is; or if the recipes outweigh an input that is known to tell one apart.
    def test_kinds(self) -> None:
        different = SAME | {"different": 1}
        self.assertEqual(report.kind(survivor("a", SAME, SAME), EMPTY), report.SAME_BITS)
        for its in ((SAME, different), (SAME, SAME | {"computed": 0}), ()):
            self.assertEqual(report.kind(survivor("a", *its), EMPTY), report.SURVIVED)
        listed = {report.WITHIN: {"a": "another order of a sum"}, report.SURVIVED: {}}
        self.assertEqual(report.kind(survivor("a", SAME, different), listed), report.WITHIN)
        self.assertEqual(report.kind(killed("a"), listed), examine.KILLED)
        known = {report.WITHIN: {}, report.SURVIVED: {"a": "shown by one row"}}
        self.assertEqual(report.kind(survivor("a", SAME, SAME), known), report.SURVIVED)

    # Fails if equivalents count as survivors or as killed, or what does not build as a mutant.
    def test_numbers(self) -> None:
        records = [killed("a"), killed("b"), killed("c"), survivor("d", SAME), survivor("e", SAME | {"different": 2}),
                   {"outcome": examine.NO_BUILD}, {"outcome": examine.SAME_CODE}, {"outcome": examine.DUPLICATE}]
        numbers = report.count(records, EMPTY)
        self.assertEqual(numbers, {"drawn": 8, "built": 7, "same object code": 1, "object code of another": 1,
                                   "mutants": 5, "killed": 3, "same bits": 1, "within the contract": 0, "survived": 1,
                                   "killed of those not equivalent": 0.75})
        (a, b) = report.by_file(records, EMPTY)
        self.assertEqual((a["mutants"], a[report.SURVIVED], b[examine.KILLED]), (2, 1, 3))
        self.assertEqual(report.row(records[4], EMPTY)["different"], {"host": "2 of 5"})

    # Fails if a result is stored that is not whole, or whose list says what is not so.
    def test_what_is_not_stored(self) -> None:
        clean, keys = [{"verdict": "clean"}], {"kernel": "v2-0123"}
        records = [killed("a"), survivor("b", SAME | {"different": 1})]
        reviewed = {report.WITHIN: {}, report.SURVIVED: {"b": "rare"}}
        alone = {key: its for key, its in survivor("b").items() if key != "comparisons"}
        self.assertIsNone(report.why_not_stored(records, reviewed, 2, clean, keys))
        for why, words in {
                "2 of 3": (records, reviewed, 3, clean, keys),
                "not committed": (records, reviewed, 2, clean, {"fuzz": "v2-0123-modified"}),
                "original": (records, reviewed, 2, [{"verdict": "findings"}], keys),
                "without a reason": (records, EMPTY, 2, clean, keys),
                "not compared": ([killed("a"), alone], reviewed, 2, clean, keys),
                "not what it says": (records, reviewed | {report.WITHIN: {"a": "no"}}, 2, clean, keys)}.items():
            self.assertIn(why, str(report.why_not_stored(*words)))

    # Fails if a survivor may be listed without a reason, or twice.
    def test_the_list_is_read(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "reviewed.json"
            for bad in ({report.WITHIN: {}}, {report.WITHIN: {"a": " "}, report.SURVIVED: {}},
                        {report.WITHIN: {"a": "x"}, report.SURVIVED: {"a": "y"}}):
                path.write_text(json.dumps(bad))
                self.assertRaises(Refused, report.read_reviewed, path)
        report.read_reviewed(HERE / "reviewed.json")


if __name__ == "__main__":
    unittest.main()
