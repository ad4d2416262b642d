#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package before it is built: what it names, what it imports, and that its files agree.

Needs the standard library alone, and scikit-build-core for the source distribution. wheel_test.py looks at the wheel.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / "fuzz" / "python"
PACKAGE = PYTHON / "plumbline"
FRAMEWORKS = ("torch", "jax", "numpy")
# Modules and folders whose modules are imported where an array library is in use already.
BESIDE_ONE = {"autograd", "vjp", "frameworks", "probing"}
# A part of the C library, which is not brought.
NOT_BROUGHT = {"Threads"}
# Packages whose targets have another name before the colons.
PACKAGE_OF = {"CUDA": "CUDAToolkit"}
# The index has projects of both names, which are not this one.
FOREIGN = re.compile(r"pip3? install (?:-\S+ )*plumbline(?![\w-])|pipx (?:run|install) plumb(?:line)?(?![\w-])")


def cmake_files() -> list[Path]:
    """Returns the files that say what the program and the library are linked with."""
    rooms = [path for room in ("kernel", "oracle", "fuzz") for path in sorted((ROOT / room).rglob("*"))]
    return [ROOT / "CMakeLists.txt"] + [p for p in rooms if p.name == "CMakeLists.txt" or p.suffix == ".cmake"]


def cmake_text() -> str:
    """Returns those files without their comments."""
    return re.sub(r"#.*", "", "\n".join(path.read_text() for path in cmake_files()))


def pages() -> list[Path]:
    """Returns the files of this tree in which a person or a tool reads how to install."""
    found: list[Path] = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith((".", "plumb-out", "__pycache__"))]
        if Path(folder) == ROOT:
            folders[:] = [f for f in folders if f not in ("build", "stage", "shared")]
        found += [Path(folder) / n for n in names if n.endswith((".md", ".toml", ".py", ".yml", ".yaml", ".cc", ".h"))]
    return found


def modules() -> list[str]:
    """Returns the package's modules that are imported before an array library is."""
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PYTHON).with_suffix("").parts
        if parts[-1] != "__main__" and (parts[1] not in BESIDE_ONE or parts[1:] == ("frameworks", "__init__")):
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def run(code: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code that finds the package."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PLUMBLINE_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX")}
    return subprocess.run(
        [sys.executable, "-B", "-c", code, *words], capture_output=True, text=True, check=False, timeout=60,
        env=kept | {"PYTHONPATH": str(PYTHON)} | environment)


class Files(unittest.TestCase):
    """What the files say agrees."""

    def setUp(self) -> None:
        self.project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    # Fails if a library is linked that THIRD_PARTY.md does not name, or it names one that no longer is.
    def test_third_party_names_what_is_linked(self) -> None:
        text = cmake_text()
        found = set(re.findall(r"find_package\((\w+)", text))
        linked = {PACKAGE_OF.get(name, name) for name in re.findall(r"\b(\w+)::\w+", text)} - {"plumbline"}
        self.assertLessEqual(linked, found, "linked without find_package")
        static = {"lib" + name for name in re.findall(r"-static-lib(stdc\+\+|gcc)", text)}
        named = re.findall(r"^\| `([^`]+)` \|", (ROOT / "THIRD_PARTY.md").read_text(), flags=re.MULTILINE)
        self.assertEqual(sorted(named), sorted((found | static) - NOT_BROUGHT))

    # Fails if a licence that a binary must come with has no text in THIRD_PARTY.md.
    def test_third_party_holds_the_texts(self) -> None:
        text = (ROOT / "THIRD_PARTY.md").read_text()
        titles = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
        headings = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
        links = set(re.findall(r"\]\(#([\w-]+)\)", text))
        self.assertEqual(links, headings)
        self.assertEqual(len(links), 4)

    # Fails if a page sends a person to another project of the index.
    def test_no_page_names_a_foreign_project(self) -> None:
        looked_at = pages()
        self.assertGreater(len(looked_at), 100)
        for path in looked_at:
            found = FOREIGN.search(path.read_text(errors="replace"))
            self.assertIsNone(found, f"{path.relative_to(ROOT)}: {found[0] if found else ''}")

    # Fails if the expression of the last test takes a right command for a wrong one, or a wrong one for right.
    def test_foreign_projects_are_recognised(self) -> None:
        pip, pipx = "pip install", "pipx run"
        for wrong in (f"{pip} plumbline", f"{pip} -U plumbline[pytest]", f"{pipx} plumb targets", f"{pipx} plumbline"):
            self.assertRegex(wrong, FOREIGN)
        for right in (f"{pip} plumbline-lce", f"{pip} plumbline_lce-1.whl", f"{pipx} --spec plumbline-lce plumb"):
            self.assertNotRegex(right, FOREIGN)

    # Fails if a release is numbered in one place and not in the others.
    def test_one_version(self) -> None:
        version = re.search(r"project\(plumbline VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
        assert version is not None
        asked = "import plumbline; print(plumbline.__version__)"
        self.assertEqual(run(asked).stdout, f"{version[1]}\n")
        self.assertIn(f"\nversion: {version[1]}\n", (ROOT / "CITATION.cff").read_text())
        self.assertRegex((ROOT / "CHANGELOG.md").read_text(), rf"(?m)^## {re.escape(version[1])}\b")
        provider = self.project["tool"]["scikit-build"]["metadata"]["version"]
        matched = re.search(provider["regex"], (ROOT / provider["input"]).read_text())
        assert matched is not None
        self.assertEqual(matched["value"], version[1])

    # Fails if a package says another version than the distribution that it lies beside, or that of one elsewhere.
    def test_installed_version(self) -> None:
        asked = "import plumbline; print(plumbline.__version__)"
        with tempfile.TemporaryDirectory() as folder:
            own, other = Path(folder) / "own", Path(folder) / "other"
            shutil.copytree(PACKAGE, own / "plumbline", ignore=shutil.ignore_patterns("__pycache__"))
            for site, number in ((own, "7.8"), (other, "9.9")):
                (site / f"plumbline_lce-{number}.dist-info").mkdir(parents=True)
                (site / f"plumbline_lce-{number}.dist-info/METADATA").write_text(f"Name: plumbline-lce\nVersion: {number}\n")
            self.assertEqual(run(asked, PYTHONPATH=f"{own}:{other}").stdout, "7.8\n")
            in_tree = run(asked, PYTHONPATH=f"{other}:{PYTHON}").stdout
            self.assertEqual(in_tree, run(asked).stdout)

    # Fails if the wheel would lack a licence, or an entry point would name a module that there is not.
    def test_project_names_what_is_there(self) -> None:
        project = self.project["project"]
        self.assertEqual(project["name"], "plumbline-lce")
        packages = self.project["tool"]["scikit-build"]["wheel"]["packages"]
        for name in [project["readme"], *project["license-files"], *packages.values()]:
            self.assertTrue((ROOT / name).exists(), name)
        points = [*project["scripts"].values(), *project["entry-points"]["pytest11"].values()]
        self.assertEqual(len(points), 2)
        for point in points:
            path = PYTHON / (point.split(":")[0].replace(".", "/") + ".py")
            self.assertTrue(path.is_file(), f"{point}: no {path.relative_to(ROOT)}")


class Sdist(unittest.TestCase):
    """The source distribution, made of a copy of the files that git lists."""

    def backend(self, folder: Path) -> dict[str, str]:
        """Returns the environment in which Python finds scikit-build-core, which pip puts into the folder if need be."""
        if importlib.util.find_spec("scikit_build_core") is None:
            requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
            words = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *requires]
            if subprocess.run(words, capture_output=True, check=False, timeout=120).returncode:
                self.skipTest("scikit-build-core is not installed, and no index gives it")
        return os.environ | {"PYTHONPATH": str(folder)}

    # Fails if a file is left out that a wheel is built of or must come with, one that is run there loses its mode, tests or
    # results are in it, or it has another name or version than the wheel.
    def test_holds_what_a_wheel_is_built_of(self) -> None:
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=False)
        if listed.returncode != 0:
            self.skipTest("git lists no files here")
        files = [name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]
        with tempfile.TemporaryDirectory() as folder:
            tree, out = Path(folder) / "tree", Path(folder) / "out"
            for name in files:
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, tree / name)
            code = f"import scikit_build_core.build as backend; backend.build_sdist({str(out)!r})"
            subprocess.run([sys.executable, "-c", code], cwd=tree, env=self.backend(Path(folder) / "site"), check=True,
                           capture_output=True, timeout=120)
            (made,) = out.iterdir()
            version = re.search(r"project\(plumbline VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
            assert version is not None
            root = f"plumbline_lce-{version[1]}"
            self.assertEqual(made.name, f"{root}.tar.gz")
            with tarfile.open(made) as archive:
                modes = {member.name: member.mode for member in archive.getmembers()}
                metadata = archive.extractfile(f"{root}/PKG-INFO")
                assert metadata is not None
                said = metadata.read().decode().splitlines()
        self.assertLessEqual({"Name: plumbline-lce", f"Version: {version[1]}"}, set(said))
        needed = ["CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE", "THIRD_PARTY.md"]
        needed += [name for name in files if name.startswith(("kernel/", "oracle/", "fuzz/"))]
        self.assertGreater(len(needed), 500)
        for name in needed:
            self.assertIn(f"{root}/{name}", modes)
            self.assertEqual(bool(modes[f"{root}/{name}"] & 0o100), os.access(ROOT / name, os.X_OK), name)
        self.assertEqual({name.split("/")[1] for name in modes} & {".ci", "bench", "corpus", "tests"}, set())


class Imports(unittest.TestCase):
    """What an import costs: pytest loads the plug-in in every project, whether it is used or not."""

    def loaded(self, *names: str) -> list[str]:
        code = ("import importlib, json, sys\n[importlib.import_module(n) for n in sys.argv[2:]]\n"
                "print(json.dumps([n for n in json.loads(sys.argv[1]) if n in sys.modules]))")
        done = run(code, json.dumps(FRAMEWORKS), *names)
        self.assertEqual(done.returncode, 0, f"{names}: {done.stderr}")
        return list(json.loads(done.stdout.splitlines()[-1]))

    # Fails if `import plumbline` imports an array library.
    def test_the_package_is_light(self) -> None:
        self.assertEqual(self.loaded("plumbline"), [])

    # Fails if a module cannot be imported by itself, or imports an array library before it is asked to.
    def test_every_module_is_light(self) -> None:
        names = [name for name in modules() if name != "plumbline.pytest_plugin"]  # needs pytest
        self.assertIn("plumbline.console", names)
        self.assertEqual(self.loaded(*names), [])

    # Fails if the pytest plug-in imports an array library, which would slow every test run of its environment.
    def test_the_plugin_is_light(self) -> None:
        if not (PACKAGE / "pytest_plugin.py").is_file():
            self.skipTest("the package has no pytest_plugin.py")
        if importlib.util.find_spec("pytest") is None:
            self.skipTest("pytest is not installed")
        self.assertEqual(self.loaded("plumbline.pytest_plugin"), [])


class AfterImport(unittest.TestCase):
    """Calls after an import, in an interpreter of its own: the allocator of device memory is put in place so."""

    SCRIPT = """
import importlib, sys
from plumbline.worker.after_import import after_import
seen = []
after_import("waited_for", lambda module: seen.append(module.VALUE))
after_import("sys", lambda module: seen.append(module is sys))
import json
assert seen == [True], seen
from waited_for.part import OTHER
import waited_for
assert seen == [True, 7] and OTHER == 8, seen
assert type(waited_for.__loader__).__name__ == "SourceFileLoader", waited_for.__loader__
importlib.reload(waited_for)
assert seen == [True, 7], seen
after_import("never_there", print)
try:
    import never_there
except ModuleNotFoundError as error:
    assert error.name == "never_there"
"""

    # Fails if the call is made for another module, before the module's code has run or twice, or if the module
    # looks otherwise than without it.
    def test_is_called_once_with_the_module(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "waited_for"
            package.mkdir()
            (package / "__init__.py").write_text("VALUE = 7\n")
            (package / "part.py").write_text("from . import VALUE\nOTHER = VALUE + 1\n")
            environment = {**os.environ, "PYTHONPATH": f"{PYTHON}:{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
            ended = subprocess.run(
                [sys.executable, "-c", self.SCRIPT], env=environment, capture_output=True, text=True, check=False
            )
            self.assertEqual(ended.returncode, 0, ended.stderr)


class Console(unittest.TestCase):
    """The command `plumb` of the wheel."""

    START = ("import sys; from plumbline import console\n"
             "console.program = lambda: {!r}; sys.argv[1:] = {!r}; console.main()")

    def program(self) -> str:
        """Returns a program that says what it was called with."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "plumb"
        path.write_text('#!/bin/sh\nprintf "%s|" "$@"\necho "$PLUMBLINE_PYTHON"\nexit 6\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    # Fails if words or the exit status are lost between the command and the program.
    def test_becomes_the_program(self) -> None:
        done = run(self.START.format(self.program(), ["fuzz", "--target", "a b"]))
        self.assertEqual((done.returncode, done.stdout), (6, f"fuzz|--target|a b|{sys.executable}\n"), done.stderr)

    # Fails if the command takes its own interpreter where the person named or activated another.
    def test_keeps_the_named_interpreter(self) -> None:
        named = (("PLUMBLINE_PYTHON", "py", "py"), ("VIRTUAL_ENV", "/v", ""), ("CONDA_PREFIX", "/c", ""))
        for name, value, seen in named:
            done = run(self.START.format(self.program(), []), **{name: value})
            self.assertEqual(done.stdout, f"|{seen}\n", name)

    # Fails if another system, or a wheel that lost its program, gives a traceback instead of one sentence.
    def test_says_what_is_wrong_in_one_line(self) -> None:
        other = run("import sys; from plumbline import console; sys.platform = 'darwin'; console.main()")
        self.assertEqual((other.returncode, other.stderr), (1, "plumb: runs on Linux only, and this is darwin\n"))
        lost = run(
            "from plumbline import console, library; library._FOLDER = library.pathlib.Path('/nowhere/a/b/c/d')\n"
            "console.main()")
        self.assertEqual((lost.returncode, lost.stderr.count("\n")), (1, 1), lost.stderr)
        self.assertTrue(lost.stderr.startswith("plumb: the program plumb is not beside "), lost.stderr)


if __name__ == "__main__":
    unittest.main()
