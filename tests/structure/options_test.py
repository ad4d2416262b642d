#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every long option of `plumb` is documented.

    options_test.py PLUMB

PLUMB is the built program. Its commands and their options are read from their --help; each option must stand in
README.md or in a page of fuzz/. Hidden commands, which the program starts itself with, are not for people.
"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLUMB = ""
# CLI11 gives them to every command.
EVERYWHERE = {"--help", "--version"}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def help_of(*command: str) -> str:
    """Returns what a command says of itself."""
    return subprocess.run([PLUMB, *command, "--help"], check=True, capture_output=True, text=True).stdout


def commands() -> list[str]:
    """Returns the names under which `plumb --help` lists its commands."""
    _, _, listed = help_of().partition("\nSubcommands:\n")
    return re.findall(r"^  ([a-z-]+) ", listed, flags=re.MULTILINE)


def options_of(command: str) -> set[str]:
    """Returns the long options that a command lists, each at the start of its line."""
    lines = re.findall(r"^  (-.*)$", help_of(command), flags=re.MULTILINE)
    return {option for line in lines for option in OPTION.findall(line.split("  ")[0])} - EVERYWHERE


def documented() -> set[str]:
    """Returns the options that the pages for users name."""
    pages = [ROOT / "README.md", *(ROOT / "fuzz").rglob("*.md")]
    return {option for page in pages for option in OPTION.findall(page.read_text())}


class OptionsTest(unittest.TestCase):
    """What a person can pass is written down."""

    # Fails if --help is laid out otherwise than it is read here, which would leave nothing to look for.
    def test_help_is_read(self) -> None:
        self.assertGreaterEqual(set(commands()), {"fuzz", "replay", "check", "selftest", "doctor"})
        self.assertGreaterEqual(options_of("fuzz"), {"--target", "--budget", "--seed", "--resume", "--json"})
        self.assertEqual(options_of("merge"), {"--out", "--target", "--per-bucket", "--case-timeout", "--python", "--json"})

    # Fails if an option is added that no page names, or a page loses the only mention of one.
    def test_every_option_is_in_a_page(self) -> None:
        there = documented()
        for command in commands():
            for option in sorted(options_of(command)):
                with self.subTest(f"plumb {command} {option}"):
                    self.assertIn(option, there)


if __name__ == "__main__":
    PLUMB = sys.argv.pop()
    unittest.main()
