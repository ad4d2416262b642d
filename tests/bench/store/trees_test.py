#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store/trees.py: what makes a key another one, and that every source of a staged program counts."""

import re
import subprocess
import unittest
from pathlib import Path

from scratch import BENCH, Tree
from store import trees

REAL = BENCH.parent
# Targets of tests/CMakeLists.txt that the acceptance takes to another machine, or that those are made of.
STAGED = {"hopper_tests", "cuda_tests", "corpus_once", "oracle_tests", "oracle_test_objects", "fuzz_tests",
          "harness_test_objects", "on_cuda"}


class Keys(Tree):
    def keys(self):
        return trees.keys(self.root)

    def differs(self, room, path, text="x"):
        """Whether a file of that text changes the key of the room."""
        before = self.keys()
        self.write(path, text)
        changed = [name for name, key in self.keys().items() if key != before[name]]
        self.assertLessEqual(set(changed), {room})
        return changed == [room]

    # Fails if a source may change without its room's key, or a key differs by anything but files.
    def test_what_counts(self):
        for room, path in [("kernel", "kernel/a.cu"), ("kernel", "kernel/cuda/b.cuh"),
                           ("kernel", "kernel/CMakeLists.txt"),
                           ("oracle", "oracle/budget/c.h"), ("fuzz", "fuzz/x.c"), ("fuzz", "fuzz/x.cmake"),
                           ("tests", "tests/kernel/cuda/a_test.cc"), ("tests", "tests/gpu/corpus_once.cc"),
                           ("tests", "tests/CMakeLists.txt"), ("corpus", "corpus/a.safetensors"),
                           ("corpus", "corpus/real/a.safetensors"), ("cmake", "CMakeLists.txt"),
                           ("cmake", "CMakePresets.json")]:
            self.assertTrue(self.differs(room, path), path)
            self.assertTrue(self.differs(room, path, "y"), path)

    # Fails if a page, a script, a test that is not staged or a new case makes a result stale.
    def test_what_does_not_count(self):
        for path in ["kernel/README.md", "kernel/cuda/hopper/refuse_serialised", "fuzz/run", "fuzz/examples/plugin.c",
                     "tests/bench/x_test.py", "tests/gpu/accept", "tests/gpu/acceptance/stages.py", "tests/run",
                     "tests/structure/structure_test.cc", "tests/kernel/dtype_test.cc", "tests/consumer/all.cc",
                     "tests/fuzz/mutants.cmake", "corpus/README.md", "corpus/new/a.safetensors", "bench/x.cc",
                     "README.md", "oracle/.gitignore"]:
            self.assertFalse(self.differs("", path), path)

    # Fails if a comment, or how it is laid out, makes a result stale; or if code that only looks like a comment, white
    # space in a string or a separator of digits is taken for one.
    def test_comments_do_not_count(self):
        plain = b'const char* a = "x // y";\nint b = 1\'000;  // one\nint c = \'"\'; /* two\n three */ int d;\n'
        self.assertEqual(trees.code(plain), b'const char* a = "x // y"; int b = 1\'000; int c = \'"\'; int d;')
        for before, after in [(b"int a;  // x\n", b"// y y\n\nint a;\n"), (b"int a; /* x */\n", b"int  a;\n")]:
            self.assertEqual(trees.code(before), trees.code(after))
        for before, after in [(b'f("a  b");', b'f("a b");'), (b'f("//a");', b'f("//b");'), (b'f(R"(//a)");', b'f(R"(//b)");'),
                              (b"int a = 1'000; int b = 2'000;", b"int a = 1'000; int b = 3'000;"),
                              (b"a = '\\'' + 1; // '", b"a = '\\'' + 2; // '"),
                              (b"a = '//'; b = 1;", b"a = '//'; b = 2;"),
                              (b"#error a \"b\nf(\"//c\"); int a = 1;", b"#error a \"b\nf(\"//c\"); int a = 2;"),
                              (b"#error it's \"b\n// c\nf(\"a  b\");", b"#error it's \"b\n// c\nf(\"a b\");"),
                              (b"// a \\\nint b;", b"// a\nint b;"),
                              (b'x = LR"d(" // )d" + 1;', b'x = LR"d(" // )d" + 2;')]:
            self.assertNotEqual(trees.code(before), trees.code(after))

    # Fails if a key depends on what is committed, on an ignored file, or on the order in which files came.
    def test_a_key_is_of_the_working_tree(self):
        self.write("kernel/z.cc", "z")
        self.write("kernel/a.cc", "a")
        before = self.keys()
        self.commit()
        self.assertEqual(self.keys(), before)
        self.write(".gitignore", "*.tmp.cc\n")
        self.write("kernel/x.tmp.cc", "x")
        self.assertEqual(self.keys(), before)
        (self.root / "kernel/z.cc").unlink()
        self.assertNotEqual(self.keys()["kernel"], before["kernel"])

    # Fails if a renamed file or an executable one is the same.
    def test_names_and_modes_count(self):
        before = self.keys()["kernel"]
        path = self.root / "kernel/file.cc"
        path.chmod(0o755)
        executable = self.keys()["kernel"]
        path.chmod(0o644)
        path.rename(self.root / "kernel/other.cc")
        self.assertEqual(len({before, executable, self.keys()["kernel"]}), 3)

    # Fails if -modified is missing where a file that counts is not committed, or is said because of one that does not.
    def test_modified(self):
        def said():
            return [key.removeprefix(trees.key(self.root, room)) for room, key in
                    trees.committed_keys(self.root).items()]
        self.write("kernel/README.md", "page")
        self.assertEqual(said(), ["", "", ""])
        self.write("oracle/new.cc", "not known to git yet")
        (self.root / "fuzz/file.cc").unlink()
        self.assertEqual(said(), ["", "-modified", "-modified"])
        self.commit()
        self.assertEqual(said(), ["", "", ""])

    # Fails if a key could be taken for the name of a git tree, or the other way round.
    def test_old_keys(self):
        self.assertTrue(all(map(trees.is_old, ["a4790d19cfab", "a4790d19cfabfd16873e6fa461a497cab60c44f0",
                                               "a4790d19cfab-modified"])))
        self.assertFalse(any(map(trees.is_old, [*self.keys().values(), "", "unknown"])))

    # Fails if a tree without git is given a key.
    def test_no_checkout(self):
        with self.assertRaises((subprocess.CalledProcessError, OSError)):
            trees.keys(Path("/"))

    # Fails if the command prints another key, or takes a room that there is not.
    def test_command(self):
        status, out, _ = self.run_store("trees", "oracle", "kernel")
        self.assertEqual((status, out), (0, f"oracle {self.keys()['oracle']}\nkernel {self.keys()['kernel']}\n"))
        self.assertEqual(self.run_store("trees", "nothing")[0], 2)


class Staged(unittest.TestCase):
    """The real tree's table of files that count, against what CMake builds the staged programs from."""

    def sources(self):
        """Files that tests/CMakeLists.txt names for the staged programs."""
        text = (REAL / "tests/CMakeLists.txt").read_text(encoding="utf-8")
        listed = (REAL / "tests/fuzz_sources.cmake").read_text(encoding="utf-8")
        text = text.replace("${fuzz_test_sources}", listed.partition("set(fuzz_test_sources")[2].rstrip().rstrip(")"))
        calls = r"(?:plumbline_add_tests|add_library|add_executable|target_sources)\((\w+)([^)]*)\)"
        for name, rest in re.findall(calls, text):
            if name in STAGED:
                for path in re.findall(r"(\$\{PROJECT_SOURCE_DIR\}/)?([\w/]+\.(?:cc|cu|c))\b", rest):
                    yield path[1] if path[0] else f"tests/{path[1]}"

    # Fails if a file that a staged program is built from, headers included, does not count: a result would stay
    # "current" though its program changed.
    def test_every_source_counts(self):
        waiting, seen = set(self.sources()), set()
        self.assertGreater(len(waiting), 100)
        while waiting:
            path = waiting.pop()
            seen.add(path)
            room = path.partition("/")[0]
            self.assertTrue(trees.counts(room, path), path)
            text = (REAL / path).read_text(encoding="utf-8")
            included = re.findall(r'^[ \t]*#[ \t]*include[ \t]*["<]([\w/.+-]+)[">]', text, re.MULTILINE)
            waiting |= {name for name in included if (REAL / name).is_file()} - seen

    # Fails if the second tier includes a file of fuzz/ that is not in its room.
    def test_the_second_tier_includes_nothing_else(self):
        paths = trees.files(REAL, "second_tier")
        self.assertIn("fuzz/baseline/floors.cc", paths)
        for path in paths:
            text = (REAL / path).read_text(encoding="utf-8")
            for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*["<](fuzz/[\w/.+-]+)[">]', text, re.MULTILINE):
                self.assertTrue(trees.counts("second_tier", name), (path, name))


if __name__ == "__main__":
    unittest.main()
