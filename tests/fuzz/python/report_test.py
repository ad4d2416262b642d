# SPDX-License-Identifier: Apache-2.0
"""plumb report: Markdown and the page of a campaign and of a check, and inputs that cannot be read."""

import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np
from large_campaign import REGIMES, large_campaign
from support import PACKAGE, PLUMB

sys.path.insert(0, str(PACKAGE))

from plumbline import arrays, findings, stored
from plumbline.report import __main__ as report_program
from plumbline.report.journal import read_journal
from plumbline.report.markdown import markdown
from plumbline.report.page import page
from plumbline.report.shapes import told
from plumbline.report.source import read

ROOT = pathlib.Path(__file__).resolve().parents[3]
HAS_PAGE = all(importlib.util.find_spec(name) for name in ("jinja2", "matplotlib"))


def run(*words, folder, **environment):
    """Status and what was printed."""
    ended = subprocess.run([PLUMB, *map(str, words)], cwd=folder, capture_output=True, timeout=300, check=False,
                           env={**os.environ, "PLUMBLINE_PYTHON": sys.executable, **environment})  # fmt: skip
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        status, text, _ = run("fuzz", "--target", "mutant:plain-logprob", "--regime", "common-offset", "--stop-after", 1, "--seed", 1,
                              "--jobs", 1, "--out", "hunt", folder=cls.folder)  # fmt: skip
        assert status == 1, text
        status, text, _ = run("check", ROOT / "corpus/real/minilm-64.safetensors", "--rows", 8, "--json", folder=cls.folder)
        assert status == 0, text
        (cls.folder / "check.json").write_text(text, encoding="utf-8")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    # Fails if the verdict, the finding or its replay is left out, or a page's worth of lines is printed.
    def test_markdown(self):
        status, text, _ = run("report", "hunt", "check.json", "--markdown", folder=self.folder)
        self.assertEqual(status, 0)
        for said in ("## findings: mutant:plain-logprob", "wrong: `bound:logprob`", "/hunt/findings/mutant-plain", "--seed 1 --regime common-offset", "Needs: V: 2 alone",
                     "## clean: ", "| grad_weight |"):  # fmt: skip
            self.assertTrue(said in text, said)
        self.assertLessEqual(len(text.splitlines()), 60)
        status, _, _ = run("report", *["hunt"] * 9, "--markdown", "--out", "many.md", folder=self.folder)
        lines = (self.folder / "many.md").read_text(encoding="utf-8").splitlines()
        self.assertEqual((status, len(lines)), (0, 60))
        self.assertRegex(lines[-1], r"^… \d+ more lines")

    # Fails if a gate is said to be run again by another command.
    def test_gate(self):
        self.assertEqual(run("gate", "mutant:plain-logprob", "--cases", 60, "--out", "gated", folder=self.folder)[0], 1)
        _, text, _ = run("report", "gated", "--markdown", folder=self.folder)
        self.assertTrue("    plumb gate mutant:plain-logprob --cases 60 --seed 1\n" in text, text)

    # Fails if a finding counts as accepted while some of its signatures are not, if it is not said which, if one whose signatures
    # all are counts as wrong, or if the command does not say that findings were accepted.
    def test_accepted_in_part(self):
        entry = {"reason": "planted", "link": "https://example.org/1", "date": "2025-01-31"}
        (self.folder / "known.json").write_text(json.dumps({"known": [entry | {"signature": "bound:lse"}]}), encoding="utf-8")
        status, text, _ = run("gate", "mutant:logits-rounded", "--known", "known.json", "--cases", 40, "--out", "part",
                              folder=self.folder)  # fmt: skip
        self.assertEqual(status, 1, text)
        campaign = findings.read_campaign(self.folder / "part")
        found = campaign.findings[0]
        self.assertEqual((found.signature, found.state, campaign.wrong), ("bound:lse", "wrong", (found,)))
        self.assertIsNotNone(found.known)
        but_for = "accepted but for " + ", ".join(found.also)
        self.assertTrue("bound:entropy" in but_for and but_for in campaign.text(), campaign.text())
        text = markdown(read([self.folder / "part"]))
        for said in ("### wrong: `bound:lse`", f"It is {but_for}.", " --cases 40 --seed 1 --known FILE\n"):
            self.assertTrue(said in text, text)
        if HAS_PAGE:
            text = page(read([self.folder / "part"]), "")
            self.assertTrue('<span class="wrong">wrong</span>: bound:lse' in text and f"It is {but_for}." in text)
        summary = json.loads((self.folder / "part/summary.json").read_text(encoding="utf-8"))
        for each in summary["parts"]:
            each["known"] = entry
        whole = findings.campaign_of(summary | {"out": str(self.folder / "part")}, "")
        self.assertEqual((whole.findings[0].state, whole.findings[0].accepted_in_part, whole.wrong), ("accepted", "", ()))
        # The gravest signature alone is not accepted.
        del summary["sightings"][0]["known"]
        lead = findings.campaign_of(summary | {"out": str(self.folder / "part")}, "").findings[0]
        self.assertEqual((lead.state, lead.accepted_in_part), ("wrong", "accepted but for bound:lse"))

    # Fails if a word with a blank is not quoted in a command, or the corpus of a campaign is left out of its command.
    def test_commands_are_quoted(self):
        spaced = self.folder / "a b"
        shutil.copytree(self.folder / "hunt", spaced / "hunt")
        found = findings.read_campaign(spaced / "hunt").findings[0]
        self.assertEqual(shlex.split(found.again), ["plumb", "replay", str(found.case_path)])
        summary = json.loads((spaced / "hunt/summary.json").read_text(encoding="utf-8"))
        summary["campaign"] |= {"targets": ["plugin:./a b.so"], "corpus": "my cases"}
        for gate, words in ((False, ["plumb", "fuzz", "--target", "plugin:./a b.so", "--budget"]),
                            (True, ["plumb", "gate", "plugin:./a b.so", "--cases", "7", "--seed", "1"])):  # fmt: skip
            summary["campaign"] |= {"gate": gate} | ({"budget": "7cases"} if gate else {})
            (spaced / "hunt/summary.json").write_text(json.dumps(summary), encoding="utf-8")
            again = shlex.split(read([spaced / "hunt"])[0].again)
            self.assertEqual((again[: len(words)], again[-2:]), (words, ["--corpus", "my cases"]))
        said = json.loads((self.folder / "check.json").read_text(encoding="utf-8").splitlines()[-1])
        said["dumps"][0]["file"] = "a b/call.safetensors"
        (spaced / "check.json").write_text(json.dumps(said), encoding="utf-8")
        self.assertEqual(shlex.split(read([spaced / "check.json"])[0].again), ["plumb", "check", "a b/call.safetensors"])

    # Fails if no cases, or no problems, are left out of a command, which has other numbers by default, or a gate of no cases is
    # run again by a number that there is not.
    def test_commands_of_no_cases(self):
        run("compare", "host", "mutant:logits-rounded", "--cases", 0, "--problems", 0, "--out", "none", folder=self.folder)
        commands = [each.again for each in read([self.folder / "none"])]
        self.assertIn(" --cases 0 --problems 0 --seed 1 --yardstick", commands[0])
        self.assertEqual(commands[1], "plumb gate host --cases 0 --seed 1")

    # Fails if a wrong dump is called clean beside a clean one, or its cause and its worst element are left out.
    def test_wrong_dump(self):
        rng = np.random.default_rng(0)
        hidden, weight = (rng.standard_normal((rows, 16)).astype(np.float32) for rows in (40, 300))
        labels = rng.integers(0, 300, 40)
        logits = hidden.astype(float) @ weight.T.astype(float)
        logprob = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        for name, moved in (("right", labels), ("moved", np.roll(labels, 1))):
            outputs = {"logprob": logprob[np.arange(40), moved].astype(np.float32)}
            tensors, metadata = arrays.dump_of({"hidden": hidden, "weight": weight, "labels": labels}, outputs)
            stored.write_safetensors(self.folder / f"{name}.safetensors", tensors, metadata)
        status, text, _ = run("check", "right.safetensors", "moved.safetensors", "--json", folder=self.folder)
        self.assertEqual(status, 1)
        (self.folder / "two.json").write_text(text, encoding="utf-8")
        status, text, _ = run("report", "two.json", "--markdown", folder=self.folder)
        self.assertEqual(status, 0)
        self.assertLess(text.index("## wrong: moved.safetensors"), text.index("## clean: right.safetensors"))
        self.assertTrue("the previous row's label" in text and " where -" in text, text)

    # Fails if a target, its finding or its errors are left out of a comparison's report, if the campaigns below it are, or if a
    # file that is no comparison is read past.
    def test_comparison(self):
        status, text, _ = run("compare", "host", "mutant:plain-logprob", "plugin:./none.so", "--cases", 60, "--problems", 1, "--jobs", 2,
                              "--out", "compared", folder=self.folder)  # fmt: skip
        self.assertEqual(status, 1, text)
        status, text, _ = run("report", "compared", "--markdown", folder=self.folder)
        self.assertEqual(status, 0)
        for said in ("## findings: comparison of compared", "| host | clean | 60 of 60 | 0 | 0 | 0 | yes | yes | as defined | 1 |",
                     "| plugin:./none.so | unavailable |", "* plugin:./none.so: unavailable: ",
                     "* mutant:plain-logprob: wrong: bound:logprob", "## findings: mutant:plain-logprob",
                     "    plumb compare host mutant:plain-logprob plugin:./none.so --cases 60 --problems 1 --seed 1 --yardstick"):  # fmt: skip
            self.assertTrue(said in text, said)
        self.assertRegex(text, r"\| host \| 1 of 1 \| [0-9.e-]+ / [0-9.e-]+ / ")
        if HAS_PAGE:
            self.assertEqual(run("report", "compared", "--out", "compared.html", folder=self.folder)[0], 0)
            page = (self.folder / "compared.html").read_text(encoding="utf-8")
            self.assertTrue("Errors in units of what honest kernels of tensor-core-fp32" in page)
        path = self.folder / "compared/comparison.json"
        stored_text = path.read_text(encoding="utf-8")
        for was, becomes, said in (('"verdict": "findings"', '"verdict": "fault"', "## fault: comparison of compared"),
                                   ('"changed": 0', '"changed": 1', "errors on 1 of 1 problems that are changed"),
                                   ('"judged": 1,', '"judged": 1, "failed": [{"reason": "crash: it died", "cases": 2}],',
                                    "fails on 2 problems: crash: it died")):  # fmt: skip
            self.assertTrue(was in stored_text, was)
            path.write_text(stored_text.replace(was, becomes), encoding="utf-8")
            self.assertTrue(said in run("report", "compared", "--markdown", folder=self.folder)[1], said)
        path.write_text('{"targets": [{}]}', encoding="utf-8")
        status, _, error = run("report", "compared", "--markdown", folder=self.folder)
        self.assertEqual(status, 2)
        self.assertIn("comparison.json: no comparison", error)

    # Fails if an error in honest units is not counted, or in a bin of its neighbour.
    def test_honest_errors_of_a_journal(self):
        path = self.folder / "honest.jsonl"
        path.write_text('{"kind":0,"regime":"r","class":["a","sharp","bf16","bf16"]}\n'
                        '{"done":[0,1,1,0],"u":{"p":9.5,"w":0.0,"s":"inf"}}\n', encoding="utf-8")  # fmt: skip
        self.assertEqual(read_journal(path).honest, {"logprob": {3: 1}, "grad_weight": {-6: 1}, "lse": {12: 1}})

    # Fails if an output of which no element was judged counts as without error, or its count of elements as an error.
    def test_outputs_that_are_not_judged(self):
        path = self.folder / "unjudged.jsonl"
        path.write_text('{"done":[0,1,1,0],"o":{"p":[0],"e":[0,0,3,5],"s":[4,0.0],"h":[0,1,0,0,8.5]}}', encoding="utf-8")
        journal = read_journal(path)
        self.assertEqual((journal.tightness, journal.exact), ({"grad_hidden": {3: 1}}, {"lse": 1}))

    # Fails if the harness counts elements so that they no longer tell a case's N, V and H, or one is taken for another.
    def test_shapes_are_those_of_the_recipes(self):
        lines = [json.loads(line) for line in (self.folder / "hunt/journal.jsonl").read_text(encoding="utf-8").splitlines()]
        done = {line["done"][0]: line for line in lines if "done" in line}
        recipes = {line["sighting"]["item"]: line["sighting"]["recipe"] for line in lines if "sighting" in line}
        self.assertTrue(recipes)
        for item, recipe in recipes.items():
            named = dict(word.split("=") for word in recipe.split()[1:])
            self.assertEqual(told(done[item]), tuple(int(named[extent]) for extent in "nvh"), recipe)

    # Fails if results of two devices are one history, if they are not in the order of their dates, if one that failed or
    # was skipped counts, or if the last of three repetitions stands for their median.
    def test_benchmarks(self):
        for name, date, device, ms in (("b", "2026-02-01T00:00:00+00:00", "A", 2.5), ("a", "2026-01-01T02:00:00+02:00", "A", 5), ("c", "2026-01-15", "B", 7)):
            entries = [{"name": "forward/8", "real_time": ms, "time_unit": "ms", "ratio": ms / 4},
                       {"name": "forward/8", "real_time": 90, "time_unit": "ms", "ratio": 90},
                       {"name": "forward/8", "real_time": 0.1, "time_unit": "ms", "ratio": 0.1},
                       {"name": "skipped", "real_time": 0, "time_unit": "ms", "skipped": True},
                       {"name": "broken", "real_time": 1, "time_unit": "ms", "error_occurred": True}]  # fmt: skip
            (self.folder / f"bench-{name}.json").write_text(json.dumps({"context": {"date": date, "device": device}, "benchmarks": entries}))
        files = [f"bench-{name}.json" for name in "bac"]
        status, text, error = run("report", *files, "--markdown", folder=self.folder)
        self.assertEqual(status, 0, error)
        for said in ("## benchmarks on A", "| benchmark | 2026-01-01 00:00 | 2026-02-01 00:00 |", "| forward/8 | 1.25 | 0.625 |", "| forward/8 | 5 | 2.5 |",
                     "## benchmarks on B", "| forward/8 | 1.75 |"):  # fmt: skip
            self.assertTrue(said in text, said)
        self.assertFalse("broken" in text or "skipped" in text)
        (self.folder / "bench-a.json").write_text('{"context": {}, "benchmarks": [{}]}')
        self.assertEqual(run("report", "bench-a.json", "--markdown", folder=self.folder)[0], 2)

    # Fails if a fault in an input is read past, or named without its file and line.
    def test_malformed(self):
        for name, spoil, said in (
            ("summary.json", lambda text: text[:100], r"spoilt/summary.json: no summary of a campaign"),
            ("summary.json", lambda text: "[]", r"spoilt/summary.json: no summary of a campaign"),
            ("journal.jsonl", lambda text: text.replace('"done":[', '"done":{[', 1), r"spoilt/journal.jsonl: line \d+: no line"),
        ):
            spoilt = self.folder / "spoilt"
            spoilt.mkdir(exist_ok=True)
            for each in ("summary.json", "journal.jsonl"):
                text = (self.folder / "hunt" / each).read_text(encoding="utf-8")
                (spoilt / each).write_text(spoil(text) if each == name else text, encoding="utf-8")
            with self.subTest(said):
                status, _, error = run("report", "spoilt", "--markdown", folder=self.folder)
                self.assertEqual(status, 2, error)
                self.assertRegex(error, said)
        (self.folder / "other.json").write_text('{"dumps": [{}]}', encoding="utf-8")
        (self.folder / "none.json").write_text('{"cases": 0, "dumps": []}', encoding="utf-8")
        (self.folder / "binary.safetensors").write_bytes(bytes(range(256)))
        for path in ("other.json", "none.json", "binary.safetensors", "nothing"):
            for options in ((), ("--markdown",)) if HAS_PAGE else (("--markdown",),):
                status, _, error = run("report", path, *options, folder=self.folder)
                self.assertEqual(status, 2, error)
                self.assertIn(path, error)
                self.assertEqual(len(error.splitlines()), 1, error)

    # Fails if a file that lacks what is shown, or has it in another form, ends the report in an exception that does not name it.
    def test_values_of_another_form(self):
        spoilt = self.folder / "form"
        shutil.copytree(self.folder / "hunt", spoilt)
        run("compare", "host", "mutant:logits-rounded", "--cases", 0, "--problems", 0, "--out", "form/compared",
            folder=self.folder)  # fmt: skip
        bench = {"context": {"date": "2026-01-01"}, "benchmarks": [{"name": "a", "real_time": 1, "time_unit": "ms"}]}
        (spoilt / "bench.json").write_text(json.dumps(bench), encoding="utf-8")
        check = (self.folder / "check.json").read_text(encoding="utf-8").splitlines()[-1]
        (spoilt / "check.json").write_text(check, encoding="utf-8")

        def output(said):
            return said["dumps"][0]["outputs"][0]

        for number, (name, spoil) in enumerate((
            ("summary.json", lambda said: said.update(elapsed_seconds=None)),
            ("summary.json", lambda said: said.pop("targets")),
            ("summary.json", lambda said: said["targets"][0]["tightness"].update(lse=None)),
            ("summary.json", lambda said: said.update(sightings=[3])),
            ("summary.json", lambda said: said.update(verdict=[])),
            ("summary.json", lambda said: said["campaign"].update(budget=None, gate=True)),
            ("check.json", lambda said: said["dumps"][0].update(cannot_show=None)),
            ("check.json", lambda said: said["dumps"][0].update(diagnosis=None)),
            ("check.json", lambda said: output(said).update(fail=1, worst={"row": 0})),
            ("check.json", lambda said: output(said).update(tightness="large")),
            ("check.json", lambda said: output(said).update(tightness=10**400)),
            ("check.json", lambda said: said["dumps"][0].update(file=3)),
            ("compared/comparison.json", lambda said: said["targets"][0]["accuracy"].update(seconds=10**400)),
            ("bench.json", lambda said: said["benchmarks"][0].update(real_time=10**400)),
        )):
            path = spoilt / name
            text = path.read_text(encoding="utf-8")
            said = json.loads(text)
            spoil(said)
            path.write_text(json.dumps(said), encoding="utf-8")
            given = [path.parent if name in ("summary.json", "compared/comparison.json") else path]
            for show in (markdown, lambda reports: page(reports, "")) if HAS_PAGE else (markdown,):
                with self.subTest(name, spoilt=number), self.assertRaisesRegex(stored.FormatError, f"form/{name}: no"):
                    show(read(given))
            path.write_text(text, encoding="utf-8")

    # Fails if a fault of the report is status 1, which says that something was found, or status 2, which blames an input.
    def test_fault(self):
        words = ["plumb report", str(self.folder / "hunt"), "--markdown"]
        broken = unittest.mock.patch.object(report_program, "read", side_effect=ZeroDivisionError)
        with broken, unittest.mock.patch.object(sys, "argv", words), unittest.mock.patch("sys.stderr"):
            self.assertEqual(report_program.main(), 3)

    # Fails if a torn last line, which a crash leaves, is taken for damage.
    def test_torn_journal(self):
        torn = self.folder / "torn"
        torn.mkdir()
        (torn / "summary.json").write_bytes((self.folder / "hunt/summary.json").read_bytes())
        whole = (self.folder / "hunt/journal.jsonl").read_bytes()
        for rest in (b'{"done":[7', '{"sighting":{"signature":"é'.encode()[:-1]):
            (torn / "journal.jsonl").write_bytes(whole + rest)
            self.assertEqual(run("report", "torn", "--markdown", folder=self.folder)[0], 0)
        (torn / "journal.jsonl").write_bytes(whole + b'"\xc3"\n' + whole)
        with self.assertRaisesRegex(stored.FormatError, f"journal.jsonl: line {len(whole.splitlines()) + 1}: no line"):
            read_journal(torn / "journal.jsonl")

    # Fails if a machine without Python, or without a package, is told nothing or something else than status 4.
    def test_unavailable(self):
        status, _, error = run("report", "hunt", folder=self.folder, PLUMBLINE_PYTHON="/nowhere/python")
        self.assertEqual(status, 4)
        self.assertIn("/nowhere/python", error)
        without = self.folder / "without"
        without.mkdir()
        (without / "jinja2.py").write_text("raise ImportError('No module named jinja2')", encoding="utf-8")
        status, _, error = run("report", "hunt", folder=self.folder, PYTHONPATH=str(without))
        self.assertEqual(status, 4)
        self.assertIn("pip install jinja2", error)

    # Fails if text from a campaign is markup on the page, the page asks for a file, or the verdict is not first.
    @unittest.skipUnless(HAS_PAGE, "Jinja and Matplotlib are not installed")
    def test_page(self):
        hostile = self.folder / "hostile"
        hostile.mkdir()
        for each in ("summary.json", "journal.jsonl"):
            (hostile / each).write_bytes((self.folder / "hunt" / each).read_bytes())
        summary = json.loads((hostile / "summary.json").read_text(encoding="utf-8"))
        summary["sightings"][0]["kept"]["finding"]["what"] = "<script>alert(1)</script>"
        (hostile / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
        status, _, error = run("report", "check.json", "hostile", "hunt", "--out", "page.html", folder=self.folder)
        self.assertEqual(status, 0, error)
        text = (self.folder / "page.html").read_text(encoding="utf-8")
        self.assertFalse("<script>alert" in text)
        self.assertTrue("&lt;script&gt;alert" in text)
        self.assertEqual(re.findall(r'(?:src|href)="(?!#|data:|http://(?:www\.w3|purl|creativecommons|matplotlib))[^"]*"', text), [])
        self.assertLess(len(text), 2_000_000)
        self.assertTrue('<span class="verdict findings">findings</span>' in text[: text.index("<main>")])
        self.assertEqual(text.count('role="img"'), 4)
        for said in ("/hunt/findings/mutant-plain", "Bug report, ready to be sent", "common-offset", "V: 2 alone"):
            self.assertTrue(said in text, said)

    # Fails if the page of a campaign of hours is 2 MB or more, or it leaves findings out and does not say how many.
    @unittest.skipUnless(HAS_PAGE, "Jinja and Matplotlib are not installed")
    def test_page_of_a_large_campaign(self):
        large_campaign(self.folder / "large", self.folder / "hunt")
        text = page(read([self.folder / "large"]), "")
        self.assertLess(len(text.encode()), 2_000_000)
        self.assertEqual((text.count("<article"), text.count('role="img"')), (80, 2))
        for said in ("300 findings, and 300 more signs", "and 260 more findings, which ", "and 260 more signs, which ",
                     "large/summary.json lists", "Cases by regime and shape"):  # fmt: skip
            self.assertTrue(said in text, said)
        self.assertEqual([text.count(f'<th scope="row">{regime}</th>') for regime in REGIMES], [2] * len(REGIMES))

    # Fails if a page grows with the length of its texts, the rows of its tables or the number of its reports, or it leaves some
    # of them out and does not say how many.
    @unittest.skipUnless(HAS_PAGE, "Jinja and Matplotlib are not installed")
    def test_page_is_bounded(self):
        large_campaign(self.folder / "wordy", self.folder / "hunt", findings=45, cases=1, what="<" * 60_000)
        check = json.loads((self.folder / "check.json").read_text(encoding="utf-8").splitlines()[-1])
        dump = check["dumps"][0]
        dump |= {"cannot_show": ["nothing"] * 700, "not_looked_at": []}
        dump["outputs"] = [dump["outputs"][0] | {"output": "lse"}] * 700
        (self.folder / "long.json").write_text(json.dumps(check), encoding="utf-8")
        with unittest.mock.patch("plumbline.report.page._figures", return_value=["<svg>" + "x" * 60_000 + "</svg>"]):
            for names, said in ((["wordy"], r"and \d+ more characters.*and \d+ more findings"),
                                (["wordy"] * 20, r"and \d+ more reports"), (["hunt"] * 60, r"and \d+ more reports"),
                                (["long.json"], "and 200 more rows.*and 200 more lines")):  # fmt: skip
                text = page(read([self.folder / name for name in names]), "")
                self.assertLess(len(text.encode()), 2_000_000, names[0])
                self.assertTrue(re.search(said, text, re.DOTALL) and "</html>" in text, said)
        self.assertEqual((text.count('<th scope="row">lse</th>'), text.count("<li>nothing</li>")), (500, 500))

    # Fails if the package's version of a report differs from the program's package.
    def test_is_this_package(self):
        self.assertTrue((PACKAGE / "plumbline/report/page.html").is_file())


if __name__ == "__main__":
    unittest.main()
