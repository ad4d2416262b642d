#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store old-bugs: which finding is a known defect, what the control says, and the environments of two releases."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from scratch import Tree

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from store.old_environments import Unavailable, interpreter

KNOWN = """
from store.old_bugs_known_class import Bug
BUGS = {
    "first": Bug("one", "1.0", "2.0", "one/one#1", "It is wrong.", "m:f", r"bound:grad_hidden: "),
    "second": Bug("two", "1.0", "2.0", "two/two#2", "It fails.", "n:f", r"status: .*KeyError", interpreted=True),
    "on-a-gpu": Bug("two", "1.0", "2.0", "two/two#3", "It is slow.", "n:g", r"x", gpu=True),
}
"""
# Says of a hunt and of a replay what the files say that are named after the release, and notes its arguments.
PLUMB = r"""
here=$(dirname "$0")
release=$(printf '%s\n' "$@" | sed -n 's,.*/environments/\([^/]*\)/.*,\1,p' | head -1)
case $1 in
  doctor) echo '{"machine": {"cpu": "x"}, "verdict": "clean"}' ;;
  fuzz) echo "$TRITON_INTERPRET $*" >>"$here/calls"
        out=$(printf '%s\n' "$@" | sed -n '/^--out$/{n;p}')/findings
        mkdir -p "$out"
        case "$*" in *--recipe*) touch "$out/m-f-bound-grad_hidden-0-0.safetensors" ;; esac
        cat "$here/said-$release"
        exit "$(cat "$here/status" 2>/dev/null || echo 1)" ;;
  replay) case $2 in */again/*) release=again-$release ;; esac
          exit "$(cat "$here/replay-$release" 2>/dev/null || echo 0)" ;;
esac
"""
PYTHON = r"""
here=$(dirname "$0")
case "$*" in
  *"import importlib.metadata, json, platform"*) echo '{"python": "3", "torch": "2", "triton": "3", "numpy": "2"}' ;;
  *read_finding*) echo 'a script' ;;
  *.repro.py) echo "says $(basename "$(dirname "$(dirname "$here")")")"; [[ $here != *1.0* ]] ;;
  "-c import "*) [[ ! -e $here/broken ]] || { echo 'ImportError: no such name' >&2; exit 1; } ;;
esac
"""


def said(*found, parts=()):
    """What a hunt says that found these, each a signature, words and seconds."""
    entries = [{"signature": signature, "regime": "r", "seconds": seconds, "finding": {"what": words}, "part_of": None,
                "kept": {"values_after": 4, "file": f"findings/{i}.safetensors"}}
               for i, (signature, words, seconds) in enumerate([*found, *parts])]
    target = {"cases": 9, "pass": 5, "fail": 2, "suspect": 1}
    return {"verdict": "findings" if found else "clean", "findings": len(found), "elapsed_seconds": 1e9,
            "targets": [target], "sightings": entries[: len(found)], "parts": entries[len(found) :]}


class OldBugs(Tree):
    def setUp(self):
        super().setUp()
        self.program("build/release/fuzz/plumb", PLUMB)
        self.program("bin/cmake", "")
        listed = (self.root / "bench/store/old_bugs_known.py").read_text(encoding="utf-8")
        self.write("bench/store/old_bugs_known_class.py", listed.partition("\n# What these")[0])
        self.write("bench/store/old_bugs_known.py", KNOWN)
        self.write(".gitignore", "build/\nenvironments/\n")
        self.commit()
        self.python = self.program("python", "")
        for package in ("one", "two"):
            for release in ("1.0", "2.0"):
                folder = f"environments/{package}-{release}"
                self.program(f"{folder}/own/bin/python", PYTHON)
                self.write(f"{folder}/made.json", json.dumps([package, release, os.path.realpath(self.root / "python")]))
                self.says(f"{package}-{release}", said())
            self.write(f"build/release/fuzz/replay-{package}-1.0", "1")

    def says(self, release, result):
        self.write(f"build/release/fuzz/said-{release}", result if isinstance(result, str) else json.dumps(result) + "\n")

    def hunt(self, *words):
        """(status, what it printed)."""
        path = f"{self.root}/bin:{os.environ['PATH']}"
        status, out, error = self.run_store("old-bugs", "--python", self.root / "python", "--environments",
                                            self.root / "environments", *words, PATH=path)
        return status, out + error

    def defects(self):
        result = json.loads((self.root / "bench/results/old-bugs.json").read_text(encoding="utf-8"))
        return {each["defect"]: each for each in result["defects"]}

    def both_are_found(self):
        self.says("one-1.0", said(("bound:logprob", "logprob[0] = 1", 5.0), parts=[("bound:grad_hidden", "x", 9.0)]))
        self.says("two-1.0", said(("status", "the target failed: KeyError: 1", 2.0)))

    def calls(self):
        return (self.root / "build/release/fuzz/calls").read_text(encoding="utf-8").splitlines()

    # Fails if a defect that is seen as a part of another finding is not found, one that takes a GPU is hunted, a hunt is
    # given more than the documented options, or the scripts' words of the two releases are not stored.
    def test_a_defect_is_found_in_a_part(self):
        self.both_are_found()
        status, text = self.hunt("--budget", "7s")
        self.assertEqual(status, 0, text)
        found = self.defects()
        self.assertEqual(list(found), ["first", "second"])
        first = found["first"]["first"]
        self.assertEqual((first["signature"], first["seconds"]), ("bound:grad_hidden", 9.0))
        self.assertEqual(first["replay_fails"], {"has": True, "mends": False})
        self.assertEqual({name: (each["status"], each["says"]) for name, each in first["script"].items()},
                         {"has": (1, "says one-1.0"), "mends": (0, "says one-2.0")})
        self.assertEqual(found["first"]["release_has"]["torch"], "2")
        calls = self.calls()
        self.assertRegex(calls[0], r"^0 fuzz --target python:m:f --python \S*/one-1\.0/own/bin/python --budget 7s --seed 1 "
                                   r"--jobs 1 --out \S* --json$")
        self.assertRegex(calls[2], r"^1 fuzz .*--jobs 1 --case-timeout 300s --out ")

    # Fails if a finding that has other words, or that the mended release shows as well, counts as the defect.
    def test_another_finding_is_not_the_defect(self):
        self.both_are_found()
        for change in ("words", "mended"):
            with self.subTest(change):
                for path in (self.root / "build/campaigns").rglob("*.json"):
                    path.unlink()
                self.says("one-1.0", said(("bound:grad_weight" if change == "words" else "bound:grad_hidden", "x", 9.0)))
                self.write("build/release/fuzz/replay-one-2.0", "1" if change == "mended" else "0")
                status, text = self.hunt()
                self.assertEqual(status, 1, text)
                self.assertIsNone(self.defects()["first"]["first"])

    # Fails if a defect is given up because the first case of its finding shows another one besides.
    def test_later_cases_are_asked(self):
        self.both_are_found()
        result = said(("bound:grad_hidden", "x", 9.0))
        result["sightings"][0]["more"] = ["v1 regime=other"]
        self.says("one-1.0", result)
        for release, status in (("one-2.0", 1), ("again-one-1.0", 1), ("again-one-2.0", 0)):
            self.write(f"build/release/fuzz/replay-{release}", str(status))
        self.assertEqual(self.hunt()[0], 0)
        self.assertEqual(self.defects()["first"]["first"]["case"],
                         "again/bound-grad_hidden-0/findings/m-f-bound-grad_hidden-0-0.safetensors")
        self.assertTrue(any("--recipe v1 regime=other" in call for call in self.calls()))

    # Fails if a mended release that shows the defect's words passes for clean.
    def test_the_control_is_looked_at(self):
        self.both_are_found()
        self.says("two-2.0", said(("status", "the target failed: KeyError: 1", 2.0)))
        status, text = self.hunt()
        self.assertEqual(status, 1, text)
        self.assertIn("second: found after 2.0 s; 2.0 shows the same words", text)

    # Fails if a release that cannot be imported has no reason, or one without its control counts as not found.
    def test_what_is_not_there_says_why(self):
        self.both_are_found()
        self.write("environments/one-1.0/own/bin/broken", "")
        self.write("environments/two-2.0/own/bin/broken", "")
        status, text = self.hunt()
        self.assertEqual(status, 0, text)
        found = self.defects()
        self.assertEqual(found["first"]["release_has"]["unavailable"], "ImportError: no such name")
        self.assertEqual(found["second"]["first"]["replay_fails"], {"has": True, "mends": None})
        self.assertIsNone(found["second"]["mended_shows"])

    # Fails if what was interrupted is stored, a hunt that is through runs again, or `--only` stores.
    def test_it_goes_on(self):
        self.both_are_found()
        self.assertEqual(self.hunt("--only", "first")[0], 0)
        self.write("build/release/fuzz/status", "5")
        self.assertEqual(self.hunt()[0], 5)
        self.assertFalse((self.root / "bench/results/old-bugs.json").exists())
        self.write("build/release/fuzz/status", "1")
        self.assertEqual(self.hunt()[0], 0)
        self.assertEqual(sum("python:m:f" in call for call in self.calls()), 2)
        status, text = self.hunt("--list")
        self.assertEqual((status, len(text.splitlines())), (0, 4))
        self.assertEqual(self.hunt("--only", "third")[0], 2)


class Environments(unittest.TestCase):
    """Releases of a package `demo` whose first has no `__init__.py`, on top of an environment that has the second."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.folder / "base"], check=True)
        self.base = self.folder / "base/bin/python"
        ask = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
        site = Path(subprocess.run([self.base, "-c", ask], check=True, capture_output=True, text=True).stdout.strip())
        (site / "demo").mkdir()
        (site / "demo/__init__.py").write_text("")
        (site / "demo/said.py").write_text("RELEASE = 2\n")
        (site / "beside.py").write_text("HERE = True\n")
        (site / "demo-2.0.dist-info").mkdir()
        (site / "demo-2.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 2.0\n")
        (site / "demo-2.0.dist-info/RECORD").write_text("demo/__init__.py,,\ndemo/said.py,,\ndemo-2.0.dist-info/RECORD,,\n")
        with zipfile.ZipFile(self.folder / "demo-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("demo/said.py", "RELEASE = 1\n")
            wheel.writestr("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
            wheel.writestr("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr("demo-1.0.dist-info/RECORD", "demo/said.py,,\n")
        settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder)}
        before = {name: os.environ.get(name) for name in settings}
        os.environ.update(settings)
        self.addCleanup(lambda: [os.environ.pop(n) if v is None else os.environ.__setitem__(n, v) for n, v in before.items()])

    # Fails if the environment's other release stands for the one that was asked for, the rest of it is missing, or what
    # was made is made again.
    def test_the_release_that_was_asked_for_is_imported(self):
        made = self.folder / "made"
        python = interpreter(str(self.base), "demo", "1.0", (), made)
        ask = "import beside, demo.said; print(demo.said.RELEASE, beside.HERE)"
        ran = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True)
        self.assertEqual(ran.stdout, "1 True\n")
        (made / "own/kept").touch()
        interpreter(str(self.base), "demo", "1.0", (), made)
        self.assertTrue((made / "own/kept").exists())
        interpreter(str(self.base), "demo", "1.0", ("demo",), made)
        self.assertFalse((made / "own/kept").exists())

    # Fails if a release that there is not is no reason, or leaves an environment that passes for one.
    def test_a_release_that_there_is_not(self):
        for _ in range(2):
            with self.assertRaisesRegex(Unavailable, "demo==3.0"):
                interpreter(str(self.base), "demo", "3.0", (), self.folder / "made")


if __name__ == "__main__":
    unittest.main()
