# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store trees [ROOM…]     rooms: kernel, oracle, fuzz, second_tier, tests, honest, false_alarms,
python, corpus, cmake

Keys of what a stored result is about: a hash of the files that count, room by room.

A key is `v2-` and 12 hex digits: the SHA-256 over mode, content and path of every file that counts, as the working tree
has them, in the order of their paths. Equal files give equal keys, committed or not. What git ignores does not count.
Pages (*.md) never count; of a room with programs only sources and CMake files do, so that a README, a Python test or a
shell script makes no result stale. Nor do comments of sources, and white space outside of their strings: programs are
the same without them. Line ends are among that white space, so that one thing is not seen: that the end of a directive
(#define, #if) moved within the same words. Not seen either are what programs are built with (compiler, system libraries
and their headers) and, in a result that names no key "cmake", the flags in the root's CMake files.

Results stored before these keys name git trees (12 or 40 hex digits and no `v2-`), in which every file counted.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from report.command_line import refusing

ROOT = Path(__file__).resolve().parents[2]
MARK = "v2-"
SOURCES = re.compile(r".*\.(c|cc|cpp|cu|cuh|h|cmake)|(.*/)?(CMakeLists|table)\.txt")
# Rooms by name: (where its files lie, which of them count, which of those do not after all). Patterns match whole
# paths from the root of the tree.
ROOMS = {
    "kernel": (["kernel"], SOURCES, re.compile(r"kernel/torch/.*")),  # without its interface for PyTorch
    "oracle": (["oracle"], SOURCES, None),
    "fuzz": (["fuzz"], SOURCES, re.compile(r"fuzz/examples/.*")),
    # What the second tier is made of, and all that it includes of fuzz/.
    "second_tier": (["fuzz/base", "fuzz/baseline", "fuzz/builtin", "fuzz/problem", "fuzz/target", "fuzz/target_abi.h"],
                    SOURCES, None),
    # What the programs of the GPU acceptance are built from. The others: the host operator's tests, same_bits, the
    # tests of the benchmarks, of the tree's structure and of the installed package, and the mutants of oracle and
    # harness.
    "tests": (["tests"], SOURCES, re.compile(
        r"tests/kernel/[^/]*_test\.cc|tests/(bench|blind_mutants|compatibility|consumer|same_bits|structure)/.*"
        r"|tests/(fuzz|oracle)/mutants\.cmake|tests/fuzz/(honest|false_alarms)/.*")),
    # The foreign kernels' plug-ins, without their tests.
    "honest": (["tests/fuzz/honest"], re.compile(
        r".*/((arithmetic|kernel|products|softmax)\.h|(kernels|limited|operator|plugin|products|softmax)\.cc)"), None),
    # What counts the second tier's false alarms, without its tests.
    "false_alarms": (["tests/fuzz/false_alarms"], re.compile(r".*\.(cc|h)"), re.compile(r".*_test\.cc")),
    # The package of targets in Python, and what public kernels are called by.
    "python": (["fuzz/python/plumbline", "bench/store/adapted"], re.compile(r".*\.py"), None),
    "corpus": (["corpus"], re.compile(r".*\.safetensors"), re.compile(r"corpus/(new|public)/.*")),
    "cmake": (["CMakeLists.txt", "CMakePresets.json"], re.compile(r".*"), None),
}
C_FAMILY = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h")
# A raw string, a string, a character, a comment, or white space. Whatever is not told apart stays in the key, which is
# then more sensitive than it need be. An apostrophe behind a letter or digit separates digits, as in 1'000, or belongs to
# a prefix as in u8'a'; a character has several letters, as '//', only behind anything else.
TOKEN = re.compile(rb"""R"([^()\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)'[^'\\\n]*'|'(?:\\[^\n]{1,8}?|[^'\\\n])'"""
                   rb"""|//(?:\\\n|[^\n])*|/\*.*?\*/|\s+""", re.DOTALL)
PLUMB = ("kernel", "oracle", "fuzz")  # what a result of `plumb` is about
# What the GPU acceptance is about.
ACCEPTANCE = tuple(room for room in ROOMS if room not in ("second_tier", "honest", "false_alarms", "python"))


def git(root: Path, *words: str) -> str:
    """What a git command prints; OSError or CalledProcessError where it fails."""
    done = subprocess.run(["git", "--no-optional-locks", "-C", str(root), *words], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    return os.fsdecode(done.stdout)


def counts(room: str, path: str) -> bool:
    """Whether a file, named from the root of the tree, is part of what a result about `room` is about."""
    folders, which, but = ROOMS[room]
    return (any(path == folder or path.startswith(folder + "/") for folder in folders)
            and not path.endswith(".md") and which.fullmatch(path) is not None
            and not (but and but.fullmatch(path)))


def files(root: Path, room: str) -> list[str]:
    """Files that count, as they lie in the working tree, those that git does not know yet among them."""
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *ROOMS[room][0])
    return sorted({path for path in listed.split("\0") if path and counts(room, path) and (root / path).is_file()})


def code(source: bytes) -> bytes:
    """A source of C's family without comments, each run of white space and comments one space.

    One pass: without its line ends a text is told apart otherwise, if it has a quote that is not closed on its line.
    """
    parts = [b" "]
    at = 0
    for token in TOKEN.finditer(source):
        keeps = token[0][:1] in b"R\"'"
        for part in (source[at:token.start()], token[0] if keeps else b" "):
            if part and (part, parts[-1]) != (b" ", b" "):
                parts.append(part)
        at = token.end()
    return b"".join([*parts, source[at:]]).strip()


def key(root: Path, room: str) -> str:
    """The key of a room; CalledProcessError where `root` is no git checkout."""
    digest = hashlib.sha256()
    for path in files(root, room):
        data = (root / path).read_bytes()
        if path.endswith(C_FAMILY):
            data = code(data)
        mode = "100755" if os.access(root / path, os.X_OK) else "100644"
        digest.update(os.fsencode(f"{mode} {hashlib.sha256(data).hexdigest()} {path}\0"))
    return MARK + digest.hexdigest()[:12]


def keys(root: Path, rooms: Iterable[str] = ACCEPTANCE) -> dict[str, str]:
    """The key of each room."""
    return {room: key(root, room) for room in rooms}


def committed_keys(root: Path, rooms: Iterable[str] = PLUMB) -> dict[str, str]:
    """The key of each room, with "-modified" where a file that counts is not committed as it is."""
    found = {}
    for room in rooms:
        changed = git(root, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--",
                      *ROOMS[room][0]).split("\0")
        found[room] = key(root, room) + ("-modified" if any(counts(room, entry[3:]) for entry in changed) else "")
    return found


def keys_in(path: Path, rooms: Iterable[str] = PLUMB) -> dict[str, str]:
    """The keys of these rooms in a file of what `python3 bench/store trees` printed; Refused where one is missing."""
    with refusing(f"{path}"):
        found = dict(line.split() for line in path.read_text(encoding="utf-8").splitlines())
        return {room: found[room] for room in rooms}


def is_old(stored: str) -> bool:
    """Whether `stored` is the name of a git tree, the key before this one."""
    return re.fullmatch(r"[0-9a-f]{7,40}(-modified)?", stored) is not None


def main(words: list[str]) -> int:
    """Prints the keys of rooms, those of all unless some are named: a line each, name and key."""
    unknown = [word for word in words if word not in ROOMS]
    if unknown:
        print(f"bench/store trees: no room {unknown[0]}; there are {', '.join(ROOMS)}", file=sys.stderr)
        return 2
    for room, named in committed_keys(ROOT, words or ROOMS).items():
        print(room, named)
    return 0
