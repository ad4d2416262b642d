#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/PUBLIC.md and bench/public/judged.json: every own finding is judged once, and every bug has its files."""

import copy
import json
import re
import struct
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from report import public_page
from report.command_line import load
from report.stored import RESULTS, ROOT

GPU, CPU = load(RESULTS / "public-kernels.json"), load(RESULTS / "public-kernels-cpu.json")
LATER = tuple(load(path) for path in sorted(RESULTS.glob("public-kernels-later*.json")))
DATA = public_page.joined(GPU, CPU, *LATER)
JUDGED = load(public_page.JUDGED)
CASE_BYTES = 64 << 10
FILES = {"case.safetensors", "repro.py", "report.md"}
SAID = ("# ", "**Versions:**", "**What is wrong:**", "**Least input:**", "| | expected | got |", "**Why it matters:**",
        "**Where the symptom points:**")
OF_A_MACHINE = re.compile(r"(?<![\w.\"'])/(tmp|work|root|home|usr|opt|mnt)/|https?://")


def folders():
    return {each["bug"]["folder"]: ROOT / public_page.FOLDER / each["bug"]["folder"] for each in public_page.bugs(JUDGED)}


class Public(unittest.TestCase):
    # Fails if the page shows a version of a kernel that packages.txt does not install.
    def test_packages_are_those_that_were_judged(self):
        def named(name):
            return re.sub("[-_.]+", "-", name).lower()
        lines = (ROOT / "bench/public/packages.txt").read_text(encoding="utf-8").splitlines()
        lines = [re.split("[;#]", line)[0].strip() for line in lines]
        pinned = dict(line.split("==") for line in lines if line)
        pinned = {named(name): version for name, version in pinned.items()}
        for each in (each for data in (GPU, *LATER) for each in data["kernels"]):
            for name, version in each.get("versions", {}).items():
                if name not in ("python", "torch", "triton"):
                    self.assertEqual(pinned.get(named(name)), version, (each["kernel"], name))

    # Fails if a finding is judged by nobody or twice, a kernel is left out, or a verdict or state is another word.
    def test_every_finding_is_judged_once(self):
        self.assertEqual(public_page.disagreements(DATA, JUDGED), [])

    # Fails if a finding that nobody judged, an unknown state, or a bug without its record is taken.
    def test_what_does_not_fit_is_named(self):
        for change, named in [(lambda causes: causes.pop(0), "judged 0 times"),
                              (lambda causes: causes[0]["bug"].update(state="closed"), "state closed"),
                              (lambda causes: causes[0].pop("bug"), "verdict bug"),
                              (lambda causes: causes[0].update(parts=["none"]), "no part none"),
                              (lambda causes: causes.append(copy.deepcopy(causes[0])), "judged 2 times")]:
            judged = copy.deepcopy(JUDGED)
            change(judged["causes"])
            self.assertIn(named, "; ".join(public_page.disagreements(DATA, judged)))
            with mock.patch.object(public_page, "load", return_value=judged), self.assertRaises(ValueError):
                public_page.values(GPU, CPU, *LATER)

    # Fails if a bug lacks its case, script or report, or a folder belongs to no bug.
    def test_every_bug_has_its_files(self):
        self.assertEqual({each.name for each in (ROOT / public_page.FOLDER).iterdir() if each.is_dir()}, set(folders()))
        for name, folder in folders().items():
            with self.subTest(name):
                self.assertEqual({each.name for each in folder.iterdir()}, FILES)
                self.assertLessEqual((folder / "case.safetensors").stat().st_size, CASE_BYTES)

    # Fails if a case is of another kernel than its bug, or is no case.
    def test_a_case_is_of_its_kernel(self):
        targets = {each["kernel"]: each["target"] for each in DATA["kernels"]}
        for each in public_page.folders(JUDGED).values():
            raw = (folders()[each["bug"]["folder"]] / "case.safetensors").read_bytes()
            length, = struct.unpack("<Q", raw[:8])
            case = json.loads(json.loads(raw[8:8 + length])["__metadata__"]["case"])
            self.assertEqual(case["target"].split("@")[0], targets[each["kernel"]])

    # Fails if a script needs this harness, does not compile, or names a path of one machine.
    def test_scripts_stand_alone(self):
        for name, folder in folders().items():
            with self.subTest(name):
                text = (folder / "repro.py").read_text(encoding="utf-8")
                compile(text, name, "exec")
                self.assertNotRegex(text, r"plumb|sys\.path")
                self.assertNotRegex(text, OF_A_MACHINE)
                self.assertIn("sys.exit(1 if wrong", text.replace("second != before or after != before", "wrong"))

    # Fails if a report leaves out what a maintainer of the other project needs, or names a path of one machine.
    def test_reports_say_all(self):
        for name, folder in folders().items():
            text = (folder / "report.md").read_text(encoding="utf-8")
            for each in SAID:
                self.assertIn(each, text, name)
            self.assertNotRegex(text, OF_A_MACHINE)

    # Fails if a state that is edited by hand does not reach the page.
    def test_the_page_follows_the_state(self):
        judged = copy.deepcopy(JUDGED)
        public_page.bugs(judged)[1]["bug"]["state"] = "confirmed"
        with mock.patch.object(public_page, "load", return_value=judged):
            self.assertIn("(confirmed)", public_page.values(GPU, CPU, *LATER)["table"])
        self.assertNotIn("(confirmed)", public_page.values(GPU, CPU, *LATER)["table"])

    # Fails if a kernel that was called on both is one row, a hunt that was stopped is one, or a bug of both is counted twice.
    def test_what_was_called_on_both(self):
        names = [each["kernel"] for each in public_page.tried(DATA)]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("PyTorch, eager" + public_page.ON_A_CPU, names)
        later = [each["kernel"] for data in LATER for each in public_page.tried(data)]
        stopped = [each["kernel"] for each in GPU["kernels"] if each.get("verdict") == "interrupted"]
        self.assertTrue(stopped and not (set(stopped) - set(later)) & set(names))
        self.assertLess(len(folders()), len(public_page.bugs(JUDGED)))
        self.assertEqual(public_page.values(GPU, CPU, *LATER)["bugs"], str(len(folders())))

    # Fails if a later hunt is no row, stands for one that came to its end, or its machine is not said.
    def test_later_hunts_take_the_places_of_those_that_did_not_end(self):
        self.assertTrue(LATER)
        shown = public_page.values(GPU, CPU, *LATER)
        for data in LATER:
            for each in public_page.tried(data):
                self.assertIn(each, DATA["kernels"])
                self.assertIn(f"\n| {each['kernel']} | ", shown["table"])
                self.assertIn(f'"{each["kernel"]}"', shown["later"])
            self.assertIn(data["machine"]["device"], shown["later"])
        self.assertEqual(public_page.where(()), "")
        with self.assertRaisesRegex(ValueError, "another hunt of it"):
            public_page.joined(GPU, CPU, *LATER, *LATER)
        with self.assertRaisesRegex(ValueError, "another hunt of it"):
            public_page.joined(GPU, CPU, {"kernels": public_page.tried(GPU)[:1]})

    # Fails if our own operator is no row, or causes are counted that no own finding has.
    def test_what_is_counted(self):
        shown = public_page.values(GPU, CPU, *LATER)
        self.assertIn("| plumbline, cuda |", shown["table"])
        own = sum(len(public_page.own(kernel)) for kernel in public_page.tried(DATA))
        self.assertEqual(shown["findings"], str(own))
        self.assertEqual(float(shown["per_cause"]), round(own / int(shown["cause_count"]), 2))


if __name__ == "__main__":
    unittest.main()
