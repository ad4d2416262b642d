#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel, installs it into a fresh environment without an index, and uses it from an empty folder.

    wheel_test.py

Takes as long as a build of the program, on first use. Variables that change what it does:
PLUMBLINE_WHEEL: a wheel to look at instead of building one.
PLUMBLINE_WHEEL_CUDA: build it in build/wheel with the GPU's code, as one that is given away.
PLUMBLINE_PIP: a wheel of pip, for an interpreter that brings none into an environment.
PLUMBLINE_FIND_LINKS: a folder with a wheel of NumPy; without it this interpreter's NumPy is lent.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = "plumbline/libplumbline_worker.so"
OPERATOR = "plumbline/torch/libplumbline_operator.so"
PROGRAM = "plumbline/bin/plumb"
# The C library of the oldest system that the wheel runs on (fuzz/python/PACKAGE.md).
GLIBC = (2, 34)
# Variables with which a tree or an activated environment would stand in for what is installed.
NOT_PASSED = ("PLUMBLINE_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME")

KERNEL = '''# SPDX-License-Identifier: Apache-2.0
import numpy as np
import plumbline


@plumbline.target(returns=("logprob",), dtypes=["fp32"], temperature="none", entropy=False, lse=False,
                  grad_hidden=False, grad_weight=False, first_invalid_row=False, reductions=["none"],
                  ignore_index=False, invalid_labels=False, empty_extents=False, special_values=False)
def logprob(hidden, weight, labels):
    z = np.asarray(hidden, np.float64) @ np.asarray(weight, np.float64).T
    m = z.max(axis=-1, keepdims=True)
    lse = m[..., 0] + np.log(np.exp(z - m).sum(axis=-1))
    return {}(np.take_along_axis(z, labels[..., None].astype(np.int64), axis=-1)[..., 0] - lse).astype(np.float32)
'''


def call(*words: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command, its error output with its output."""
    kept = {key: value for key, value in os.environ.items() if key not in NOT_PASSED}
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, env=kept | environment, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def preset(name: str) -> dict[str, str]:
    """What a preset of CMake sets, without what scikit-build-core sets itself."""
    presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
    return next(each["cacheVariables"] for each in presets if each["name"] == name)


def build(out: Path) -> Path:
    """Returns the wheel, built here without an index if the build's own packages are there, else with one."""
    if given := os.environ.get("PLUMBLINE_WHEEL"):
        return Path(given)
    settings = {"build-dir": ROOT / "build" / "wheel"}
    if not os.environ.get("PLUMBLINE_WHEEL_CUDA"):
        # As the preset `warnings` compiles it, without the GPU's code, which takes half the time: tests/run --all does not
        # compile it again.
        settings = {"build-dir": ROOT / "build" / "warnings"} | {
            f"cmake.define.{name}": value for name, value in preset("warnings").items()}
    # scikit-build-core begins anew in a folder that an isolated build of another time has configured.
    (Path(settings["build-dir"]) / ".skbuild-info.json").unlink(missing_ok=True)
    words = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", f"--wheel-dir={out}"]
    words += [f"--config-settings={key}={value}" for key, value in settings.items()]  # -C is pip 23.1's
    if importlib.util.find_spec("scikit_build_core") is not None:
        words.append("--no-build-isolation")
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    done = call(*words, CMAKE_BUILD_PARALLEL_LEVEL=jobs)
    if done.returncode != 0:
        if re.search(r"Could not find a version|No matching distribution|Temporary failure in name", done.stdout):
            raise unittest.SkipTest("scikit-build-core is not installed, and no index gives it")
        raise AssertionError(done.stdout[-8000:])
    (wheel,) = out.glob("*.whl")
    return wheel


def lend_numpy(site: Path) -> None:
    """Puts this interpreter's NumPy into another environment's packages: its folders and what says its version, which
    Debian has beside them and in no list."""
    at = Path(str(importlib.metadata.distribution("numpy").locate_file("")))
    for pattern in ("numpy", "numpy.libs", "numpy-*-info"):
        for path in at.glob(pattern):
            (site / path.name).symlink_to(path.resolve())


class Wheel(unittest.TestCase):
    """One wheel, built once, and one environment."""

    work: Path
    wheel: Path
    names: list[str]
    bin: Path
    site: Path

    @classmethod
    def setUpClass(cls) -> None:
        if sys.platform != "linux":
            raise unittest.SkipTest("the package is for Linux")
        find_links = os.environ.get("PLUMBLINE_FIND_LINKS")
        if find_links is None and importlib.util.find_spec("numpy") is None:
            raise unittest.SkipTest("NumPy is neither installed nor in $PLUMBLINE_FIND_LINKS")
        scratch = tempfile.TemporaryDirectory(prefix="plumbline-wheel-")
        cls.addClassCleanup(scratch.cleanup)
        cls.work = Path(scratch.name)
        cls.wheel = build(cls.work / "built")
        with zipfile.ZipFile(cls.wheel) as archive:
            cls.names = archive.namelist()
        pip = os.environ.get("PLUMBLINE_PIP")
        venv.create(cls.work / "venv", with_pip=not pip)
        cls.bin = cls.work / "venv" / "bin"
        place = {"base": str(cls.work / "venv"), "platbase": str(cls.work / "venv")}
        cls.site = Path(sysconfig.get_path("purelib", "venv", vars=place))
        if find_links is None:
            lend_numpy(cls.site)
        folders = [str(cls.wheel.parent), *([find_links] if find_links else [])]
        links = [f"--find-links={folder}" for folder in folders]
        run_pip = [f"{pip}/pip"] if pip else ["-m", "pip"]
        done = call(cls.bin / "python", *run_pip, "install", "--no-index", *links, cls.wheel)
        if done.returncode != 0:
            raise AssertionError(done.stdout)

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(dir=self.work)
        self.addCleanup(folder.cleanup)
        self.empty = Path(folder.name)

    def plumb(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs the installed command by its path, as nobody has activated the environment."""
        return call(self.bin / "plumb", *words, cwd=self.empty)

    def campaign(self, factor: str) -> subprocess.CompletedProcess[str]:
        """Hunts the function above for five seconds, its results multiplied."""
        (self.empty / "kernel.py").write_text(KERNEL.replace("{}", factor))
        return self.plumb("fuzz", "--target", "python:kernel:logprob", "--budget", "5s", "--seed", "1", "--jobs", "1",
                          "--out", "hunt")

    def binaries(self) -> list[Path]:
        return [self.site / PROGRAM, self.site / LIBRARY, self.site / OPERATOR]

    # Fails if the wheel lacks a licence, the program, the library or a header, or brings what is not its own.
    def test_holds_its_files(self) -> None:
        info = next(name.split("/")[0] for name in self.names if ".dist-info/" in name)
        for name in (f"{info}/licenses/LICENSE", f"{info}/licenses/THIRD_PARTY.md", PROGRAM, LIBRARY,
                     OPERATOR, "plumbline/worker/__main__.py", "plumbline/report/page.html",
                     "plumbline/torch/__init__.py", "plumbline/include/plumbline/fuzz/target_abi.h",
                     "plumbline/include/plumbline/dlpack/dlpack.h"):
            self.assertIn(name, self.names)
        self.assertEqual({name.split("/")[0] for name in self.names} - {info}, {"plumbline"})
        foreign = [n for n in self.names if n.endswith((".a", ".pyc", ".cmake", ".cc", ".map", "/CMakeLists.txt")) or "/share/" in n]
        self.assertEqual(foreign, [])

    # Fails if the wheel is bound to one version of Python, or to no architecture.
    def test_tag(self) -> None:
        self.assertRegex(self.wheel.name, r"^plumbline_lce-[0-9.]+-py3-none-(manylinux_2_\d+|linux)_\w+\.whl$")

    # Fails if the program or the library needs a newer C library than PACKAGE.md says, or any other library.
    def test_needs_the_c_library_alone(self) -> None:
        if shutil.which("objdump") is None:
            self.skipTest("objdump is not installed")
        for path in self.binaries():
            text = call("objdump", "-p", path).stdout
            needed = set(re.findall(r"NEEDED +(\S+)", text))
            allowed = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
            self.assertLessEqual(needed, allowed, path.name)
            versions = {(int(a), int(b)) for a, b in re.findall(r" GLIBC_(\d+)\.(\d+)", text)}
            self.assertLessEqual(max(versions), GLIBC, path.name)
            self.assertNotRegex(text, r"GLIBCXX|CXXABI|GCC_|RPATH|RUNPATH")

    # Fails if the library gives the process more names than its functions, or keeps its symbol table.
    def test_exports_its_functions(self) -> None:
        if shutil.which("nm") is None:
            self.skipTest("nm is not installed")
        heap = [f"plumbline_heap_{name}" for name in ("allocate", "begin", "end", "free", "is_built")]
        operator = [f"plumbline_operator_{name}" for name in (
            "backward", "call_size", "forward", "forward_backward", "forward_backward_sizes", "has_cuda", "message", "sizes")]
        for library, names in ((LIBRARY, [*heap, "plumbline_serve"]), (OPERATOR, operator)):
            printed = call("nm", "-D", "--defined-only", self.site / library).stdout
            self.assertEqual(sorted(line.split()[-1] for line in printed.splitlines()), names)
        for path in self.binaries():
            self.assertIn("no symbols", call("nm", path).stdout, path.name)

    # Fails if auditwheel grants no tag, a newer one than PACKAGE.md says, or wants to bring libraries.
    def test_auditwheel(self) -> None:
        if importlib.util.find_spec("auditwheel") is None:
            self.skipTest("auditwheel is not installed")
        shown = " ".join(call(sys.executable, "-m", "auditwheel", "show", self.wheel).stdout.split())
        granted = re.search(r'is consistent with the following platform tag: "manylinux_(\d+)_(\d+)_', shown)
        self.assertIsNotNone(granted, shown)
        assert granted is not None
        self.assertLessEqual((int(granted[1]), int(granted[2])), GLIBC, shown)

    # Fails if the installed command does not start, or is not the version that is installed.
    def test_targets(self) -> None:
        done = self.plumb("targets")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("mutant:plain-logprob", done.stdout)
        version = self.wheel.name.split("-")[1]
        self.assertIn(version, self.plumb("--version").stdout)
        said = call(self.bin / "python", "-c", "import plumbline; print(plumbline.__version__)", cwd=self.empty)
        self.assertEqual(said.stdout, f"{version}\n")

    # Fails if the function of a person's folder is not found, not judged, or called wrong without being so.
    def test_campaign_of_a_right_function(self) -> None:
        done = self.campaign("")
        self.assertIn(done.returncode, (0, 6), done.stdout)
        judged = re.search(r"\bjudged=(\d+)", done.stdout.splitlines()[-1])
        assert judged is not None, done.stdout
        self.assertGreater(int(judged[1]), 0, done.stdout)

    # Fails if a wrong function passes.
    def test_campaign_of_a_wrong_function(self) -> None:
        done = self.campaign("1.001 * ")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(self.plumb("replay", "hunt/findings").returncode, 1)

    # Fails if an exception of C++ is not caught where the runtime is linked in: in the program, and in the
    # library below an interpreter.
    def test_exceptions_are_caught(self) -> None:
        unknown = self.plumb("fuzz", "--no-such-option")
        self.assertEqual(unknown.returncode, 2, unknown.stdout)
        self.assertIn("--no-such-option", unknown.stdout)
        code = (
            "from plumbline.library import worker_library; import ctypes\n"
            "words = [b'plumb', b'worker', b'--no-such-option']\n"
            "serve = worker_library().plumbline_serve\n"
            "print(serve(None, b'python:m:f', b'why', len(words), (ctypes.c_char_p * 3)(*words)))")
        inside = call(self.bin / "python", "-c", code, cwd=self.empty)
        self.assertEqual(inside.returncode, 0, inside.stdout)
        self.assertIn("--target is required", inside.stdout)

    # Fails if a plug-in in C cannot be compiled with what the wheel brings.
    def test_plugin_flags(self) -> None:
        if shutil.which("cc") is None:
            self.skipTest("no C compiler is installed")
        flags = self.plumb("plugin-flags")
        self.assertEqual(flags.returncode, 0, flags.stdout)
        words = [word for word in flags.stdout.split() if word.startswith("-I")]
        source = ROOT / "fuzz" / "examples" / "plugin.c"
        made = call("cc", "-O2", "-shared", "-fPIC", *words, source, "-o", "plugin.so", "-lm", cwd=self.empty)
        self.assertEqual(made.returncode, 0, made.stdout)
        done = self.plumb("fuzz", "--target", "plugin:./plugin.so", "--budget", "2s", "--jobs", "1", "--out", "hunt")
        self.assertIn(done.returncode, (0, 1, 6), done.stdout)


if __name__ == "__main__":
    unittest.main()
