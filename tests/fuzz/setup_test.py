#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests fuzz/setup.sh where packages are there without dpkg's knowledge, and where nobody can install them. Tests which
stages tests/run --all runs, with scripts that note their calls in place of its programs."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SAYS_ITS_NAME = 'echo "called: $(basename "$0") $*" >&2\n'


class Setup(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.work = Path(scratch.name)
        self.program("dpkg-query", "exit 1\n")  # knows of no package
        self.program("apt-get", SAYS_ITS_NAME)
        self.program("id", "echo 1000\n")

    def program(self, name: str, text: str) -> None:
        """Puts a program first on the path."""
        path = self.work / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/bash\n" + text)
        path.chmod(0o755)

    def install(self, *packages: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs InstallPackages, nobody at the terminal, with no folder of programs but those of the system."""
        script = 'set -euo pipefail; source "$1"; shift; InstallPackages "to test" "$@"; echo went on'
        return subprocess.run(
            ["/bin/bash", "-c", script, "-", ROOT / "fuzz/setup.sh", *packages],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            env={"PATH": f"{self.work}/bin:/usr/bin:/bin", **environment})

    # Fails if a conda environment, which dpkg does not know, is not enough, or if apt or sudo is called for it.
    def test_what_another_source_brought_is_there(self) -> None:
        self.program("sudo", SAYS_ITS_NAME)
        self.program("no-ninja", "")
        header = self.work / "env/include/no/such.h"
        header.parent.mkdir(parents=True)
        header.touch()
        for variable, value in [("CONDA_PREFIX", "env"), ("CMAKE_PREFIX_PATH", f"/nowhere:{self.work}/env")]:
            value = str(self.work / value)
            script = 'set -euo pipefail; source "$1"; shown_by[a]=no/such.h shown_by[b]=no-ninja; InstallPackages x a b'
            done = subprocess.run(["/bin/bash", "-c", script, "-", ROOT / "fuzz/setup.sh"], capture_output=True,
                                  text=True, check=False, stdin=subprocess.DEVNULL,
                                  env={"PATH": f"{self.work}/bin:/usr/bin:/bin", variable: value})
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), variable)

    # Fails if somebody without root is not told everything that is missing at once, or waits for a password.
    def test_what_cannot_be_installed_is_named(self) -> None:
        self.program("sudo", '[[ $1 == -n ]] && exit 1; echo "called: sudo $*" >&2\n')
        done = self.install("no-such-package", "libno-such-dev")
        self.assertEqual(done.returncode, 4)
        for words in ["no-such-package", "libno-such-dev", "sudo wants a password", "apt-get install", "conda install"]:
            self.assertIn(words, done.stderr)
        self.assertNotIn("called:", done.stderr)
        self.assertNotIn("went on", done.stdout)

    # Fails if root, or a sudo that asks for nothing, does not install what is missing.
    def test_what_can_be_installed_is(self) -> None:
        self.program("sudo", '[[ $1 == -n ]] && exit 0; echo "called: sudo $*" >&2; "$@"\n')
        done = self.install("no-such-package", "g++")
        self.assertIn("called: sudo apt-get update -q\n", done.stderr)
        self.assertIn("--no-install-recommends no-such-package\n", done.stderr)
        self.assertNotIn("g++", done.stderr)
        self.assertIn("went on", done.stdout)
        self.program("id", "echo 0\n")
        done = self.install("no-such-package")
        self.assertNotIn("sudo", done.stderr + done.stdout)
        self.assertIn("called: apt-get update -q\n", done.stderr)

    # Fails if the list of what shows a package lacks one that is installed by name.
    def test_every_package_is_known_by_a_sign(self) -> None:
        script = 'source "$1"; for p in "${build_packages[@]}" universal-ctags; do [[ -n ${shown_by[$p]-} ]] || echo "$p"; done'
        done = subprocess.run(["/bin/bash", "-c", script, "-", ROOT / "fuzz/setup.sh"], capture_output=True, text=True,
                              check=True, env=os.environ)
        self.assertEqual(done.stdout, "")


# In place of fuzz/setup.sh. FAILS names a package that cannot be installed or a preset that cannot be built.
STAGES = """root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_packages=() fuzzer_packages=(clang-19)
Say() { :; }
InstallPackages() { [[ " $* " != *" ${FAILS-} "* ]] || exit 4; }
BuildPreset() { echo "built $1" >>"$root/done"; [[ $1 != "${FAILS-}" ]]; }
"""


class Run(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        for program in ("tests/gpu/accept", "tests/fuzz/python/torch_environment", "build/release/fuzz/plumb",
                        "fuzz/fuzzers/run"):
            self.store(program, f'#!/bin/bash\necho "{Path(program).name} $*" >>"{self.root}/done"\n')
        # ctest leaves a log; a compiler its program.
        log = f'"{self.root}/build/$2/Testing/Temporary/LastTest.log"'
        self.store("bin/ctest", f'#!/bin/bash\necho "tested $2" >>"{self.root}/done"; mkdir -p "$(dirname {log})"; : >{log}\n')
        self.store("bin/clang++-19", '#!/bin/bash\nprintf "#!/bin/bash\\n" >"${@: -1}"; chmod +x "${@: -1}"\n')
        self.store("fuzz/setup.sh", STAGES)
        shutil.copy(ROOT / "tests/run", self.root / "tests/run")

    def store(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def all(self, *words: str, **environment: str) -> tuple[int, str, list[str]]:
        """Returns the status of tests/run --all, what it printed, and what was built and run."""
        (self.root / "done").unlink(missing_ok=True)
        done = subprocess.run([self.root / "tests/run", "--all", *words], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, env={"PATH": f"{self.root}/bin:/usr/bin:/bin", **environment})
        return done.returncode, done.stdout + done.stderr, (self.root / "done").read_text(encoding="utf-8").splitlines()

    # Fails if a stage is lost, or runs in another order.
    def test_every_stage_is_run(self) -> None:
        status, text, ran = self.all()
        self.assertEqual(status, 0, text)
        self.assertTrue(text.endswith("tests/run: passed\n"), text)
        self.assertEqual([each for each in ran if not each.startswith(("accept", "torch"))], [
            "built release", "built release", "tested release", "built warnings", "plumb selftest --budget 3000cases",
            "plumb selftest --hopper --budget 3000cases", "built asan", "tested asan", "built tsan", "tested tsan",
            "built release", "run --time 120"])

    # Fails if a stage is begun that would be cut off, one that fits is left out, or nobody is told. bash takes the seconds
    # that have passed from its environment.
    def test_what_does_not_fit_is_left_out(self) -> None:
        for seconds, omitted in [("1", []), ("3500", []), ("4300", ["asan"]), ("5190", [
                "selftest", "asan", "tsan", "benchmarks", "fuzzers"])]:
            status, text, ran = self.all("--within", "5200", SECONDS=seconds)
            self.assertEqual(status, 0, text)
            last = text.splitlines()[-1]
            self.assertEqual(last, "tests/run: passed" + (f", without {' '.join(omitted)}" if omitted else ""), seconds)
            self.assertEqual([each for each in ("asan", "tsan") if f"built {each}" not in ran],
                             [each for each in omitted if each in ("asan", "tsan")])

    # Fails if a stage that cannot be built ends the run, hides what came before it or counts as passed.
    def test_what_is_not_built_fails(self) -> None:
        for fails, last in [("asan", "asan (its build)"), ("clang-19", "asan, tsan, fuzzers (there is no clang-19)"),
                            ("warnings", "fuzz/ as in a wheel, every warning on")]:
            status, text, ran = self.all(FAILS=fails)
            self.assertEqual((status, text.splitlines()[-1]), (1, f"tests/run: FAILED: {last}"), text)
            self.assertIn("tests/run: release: passed", text)
            self.assertEqual("tested tsan" in ran, fails != "clang-19")

    # Fails if a folder of another compiler is built in as it is: CMake would configure it without the preset's variables.
    def test_a_folder_of_another_compiler_begins_anew(self) -> None:
        for compiler, stays in [("/usr/bin/c++", False), ("/usr/bin/clang++-19", True)]:
            self.store("build/asan/CMakeCache.txt", f"CMAKE_CXX_COMPILER:FILEPATH={compiler}\n")
            self.assertEqual(self.all()[0], 0)
            self.assertEqual((self.root / "build/asan/CMakeCache.txt").exists(), stays)


if __name__ == "__main__":
    unittest.main()
