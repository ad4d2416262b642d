# SPDX-License-Identifier: Apache-2.0
"""A virtual environment for one release of a package, on top of one that has PyTorch."""

import json
import os
import shutil
import subprocess
from pathlib import Path

# The folders of packages of an interpreter, and the names there that belong to a distribution.
ASK = """
import importlib.metadata, json, re, sys, sysconfig
plain = lambda name: re.sub("[-_.]+", "-", name).lower()
own = {file.parts[0] for each in importlib.metadata.distributions() if plain(each.metadata["Name"]) == plain(sys.argv[1])
       for file in each.files or ()}
folders = sorted({sysconfig.get_paths()[key] for key in ("purelib", "platlib")})
print(json.dumps({"folders": folders, "own": sorted(own)}))
"""
VERSIONS = """
import importlib.metadata, json, platform
names = ("torch", "triton", "numpy")
print(json.dumps({"python": platform.python_version()} | {n: importlib.metadata.version(n) for n in names}))
"""
NOT_LINKED = ("pip", "setuptools", "_distutils_hack", "distutils-precedence.pth", "__pycache__")


class Unavailable(Exception):
    """There is no such environment; the text is the last line of what failed."""


def last_line(text: str) -> str:
    """The last line that says anything."""
    return (text.strip().splitlines() or ["no word"])[-1]


def _run(*words: str | Path) -> str:
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode:
        lines = [line for line in (ended.stderr or ended.stdout).splitlines() if not line.startswith(("hint", "[notice]"))]
        raise Unavailable(last_line("\n".join(lines)))
    return ended.stdout


def _link(python: str, package: str, folder: Path) -> None:
    """Links to the packages of `python` but those of `package`: another release of it that lies on the path would
    stand for what the older one holds in folders without `__init__.py`."""
    said = json.loads(last_line(_run(python, "-c", ASK, package)))
    folder.mkdir()
    for place in map(Path, said["folders"]):
        for entry in place.iterdir():
            if entry.name not in NOT_LINKED and entry.name not in said["own"] and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)


def interpreter(python: str, package: str, version: str, requires: tuple[str, ...], folder: Path) -> str:
    """The interpreter of an environment with `package`==`version` and `requires`, made in `folder` where it is not there.

    Raises Unavailable. The links lie outside of the environment, so that pip installs beside them and removes none.
    """
    made, own, links = folder / "made.json", folder / "own", folder / "links"
    wanted = [package, version, *requires, os.path.realpath(python)]
    if made.exists() and json.loads(made.read_text(encoding="utf-8")) == wanted:
        return str(own / "bin/python")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _link(python, package, links)
    _run(python, "-m", "venv", own)
    site = Path(last_line(_run(own / "bin/python", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])")))
    (site / "links.pth").write_text(f"{links}\n", encoding="utf-8")
    pip = (own / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    if requires:
        _run(*pip, *requires)
    _run(*pip, "--no-deps", f"{package}=={version}")
    made.write_text(json.dumps(wanted) + "\n", encoding="utf-8")
    return str(own / "bin/python")


def versions(python: str) -> dict[str, str]:
    """Versions of Python, PyTorch, Triton and NumPy there."""
    return json.loads(last_line(_run(python, "-c", VERSIONS)))
