# SPDX-License-Identifier: Apache-2.0
"""Which flags an implementation of the kernel is compiled with in tests: the operator's own.

Fails if a file of tests/ that includes a header of kernel/host/ or kernel/cuda/, by whatever way, is compiled otherwise
(tests/CMakeLists.txt looks for such files when it is configured, and follows only what lies in tests/ itself).
Reads what ninja noted of the last build."""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(sys.argv.pop()).resolve()
IMPLEMENTATIONS = (ROOT / "kernel/host", ROOT / "kernel/cuda")


def word_after(option: str, command: str) -> str:
    """What the last such option of a command says, which is the one that counts."""
    return (re.findall(rf"\s{option}\s*(\S+)", command) or ["0"])[-1]


def includes_implementation(block: str) -> bool:
    """True if one of the files that ninja lists for an object is a header of an implementation. Paths may be relative
    to the build folder: a compiler cache makes them so."""
    paths = [Path(os.path.normpath(BUILD / line.strip())) for line in block.splitlines()[1:]]
    return any(path.suffix in (".h", ".cuh") and any(map(path.is_relative_to, IMPLEMENTATIONS)) for path in paths)


class Flags(unittest.TestCase):
    def test_no_header_of_an_implementation_is_compiled_otherwise_than_in_the_operator(self) -> None:
        commands = [(Path(entry["file"]), entry["command"])
                    for entry in json.loads((BUILD / "compile_commands.json").read_text())]
        operator = next(word_after("-O", command) for path, command in commands if path == ROOT / "kernel/host/rows.cc")
        tests = {word_after("-o", command): word_after("-O", command) for path, command in commands
                 if path.is_relative_to(ROOT / "tests") and path.suffix == ".cc"}
        listed = subprocess.run(["ninja", "-C", BUILD, "-t", "deps", *tests], text=True, check=True,
                                stdout=subprocess.PIPE).stdout
        includers = [block.partition(":")[0] for block in listed.split("\n\n") if includes_implementation(block)]
        self.assertGreater(len(includers), 5)  # 9 without CUDA, 16 with it
        for output in includers:
            with self.subTest(output):
                self.assertEqual(tests[output], operator)


if __name__ == "__main__":
    unittest.main()
