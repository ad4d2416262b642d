#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No function of the tree is longer than MOST lines, from its signature to its closing brace.

Universal Ctags says where a function begins and ends. Lambdas count as part of the function that they are in."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = ("kernel", "oracle", "fuzz", "bench", "tests")
SUFFIXES = {".c", ".cc", ".cu", ".cuh", ".h", ".py"}
MOST = 80


def lengths(files: list[Path]) -> dict[str, int]:
    """Returns the lines of every function of the files, by "FILE:LINE NAME"."""
    made = subprocess.run(
        ["ctags", "--langmap=C++:+.cu.cuh.h", "--kinds-C++=f", "--kinds-C=f", "--kinds-Python=fm", "--fields=+ne",
         "--output-format=json", "-L", "-", "-f", "-"],
        input="\n".join(map(str, files)), text=True, check=True, stdout=subprocess.PIPE).stdout
    tags = [json.loads(line) for line in made.splitlines()]
    return {f"{tag['path']}:{tag['line']} {tag['name']}": tag["end"] - tag["line"] + 1 for tag in tags if "end" in tag}


class FunctionsTest(unittest.TestCase):
    """A function can be read at once."""

    # Fails if ctags no longer sees functions, or their ends, in one of the languages.
    def test_ends_are_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("a.cc", "int f(int x) {\n  return x;\n}\n"), ("b.py", "def f(x):\n    return x\n"),
                               ("c.cuh", "template <class T>\n__global__ void f(T* x) {\n  *x = 0;\n\n}\n")):
                file = Path(folder) / name
                file.write_text(text)
                found = {key.split()[1]: value for key, value in lengths([file]).items()}
                self.assertEqual(found, {"f": {"a.cc": 3, "b.py": 2, "c.cuh": 4}[name]}, name)

    # Fails if a function of more than MOST lines is added.
    def test_no_function_is_longer(self) -> None:
        files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*")) if file.suffix in SUFFIXES]
        found = lengths(files)
        self.assertGreater(len(found), 5000)  # 5 977 when this was written
        self.assertEqual({name: lines for name, lines in found.items() if lines > MOST}, {})


if __name__ == "__main__":
    unittest.main()
