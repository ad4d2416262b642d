# SPDX-License-Identifier: Apache-2.0
"""What the commands that judge functions of tests/fuzz/python/targets have in common."""

import argparse
import ast
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from report.command_line import Refused, refusing

from store import builds, plumb, stored, trees

ROOT = trees.ROOT
TARGETS = ROOT / "tests/fuzz/python/targets"
# Targets that results are about, by the name of their key: what they are made of.
FILES = {"planted_triton": ("planted_triton.py", "planted_triton_kernels.py"),
         "shortcut_and_bug": ("shortcut_and_bug.py", "shortcut_and_bug_kernels.py")}
# What PYTHON says of itself.
ASK = """
import json, numpy, platform, torch, triton
gpu = torch.cuda.is_available()
print(json.dumps({"device": torch.cuda.get_device_name() if gpu else "", "python": platform.python_version(),
                  "torch": torch.__version__, "triton": triton.__version__, "numpy": numpy.__version__}))
"""


def platform_of(python: str) -> dict[str, str]:
    """Versions and the device of an interpreter; Refused where it lacks torch or triton."""
    asked = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
    if asked.returncode:
        why = (asked.stderr.strip().splitlines() or ["no word"])[-1]
        raise Refused(f"{python}: {why}", 4)
    with refusing(f"{python}", 4):
        said = stored.last_object(asked.stdout)
        return said | {"device": said["device"] or "CPU, Triton's interpreter"}


def planted_in(module: Path) -> Any:
    """What PLANTED is in a module that is not imported. IndexError where there is none."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    found = [ast.literal_eval(node.value) for node in tree.body
             if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PLANTED"]
    return found[0]


def key_of(name: str, folder: Path = TARGETS) -> str:
    """What the files of a target are, as the keys of rooms say it."""
    digest = hashlib.sha256()
    for file in FILES[name]:
        digest.update((folder / file).read_bytes())
    return trees.MARK + digest.hexdigest()[:12]


def begin(out: Path, about: dict[str, str], machine: dict[str, str], at_once: int) -> None:
    """Makes the folder of resumable campaigns; Refused where it was begun with other files or on another machine. What is
    free of disk and memory changes while they run."""
    lasting = {key: value for key, value in machine.items() if key not in ("disk", "memory")}
    stored.begin(out, about | lasting | {"at_once": str(at_once)})


def add_options(parser: argparse.ArgumentParser) -> None:
    """--python and --as-built."""
    parser.add_argument("--python", required=True, help="an interpreter with torch and triton")
    parser.add_argument("--as-built", type=Path, metavar="KEYS", help="takes the programs as they are built")


def start(given: argparse.Namespace) -> tuple[Path, dict[str, str], dict[str, str]]:
    """(plumb of the release build, the keys of its rooms, this machine with its device and the versions in Python).

    given.python becomes a path. Triton's interpreter is switched on where there is no GPU, else off. Refused: status 4
    where the interpreter lacks torch or triton.
    """
    given.python = shutil.which(given.python) or given.python
    program = builds.release(ROOT, *(() if given.as_built else ("plumb", "plumbline_worker")))
    about = trees.keys_in(given.as_built) if given.as_built else trees.committed_keys(ROOT)
    with refusing("nothing stored", 4):
        on = platform_of(given.python)
    os.environ.pop("TRITON_INTERPRET", None)
    os.environ |= {"TRITON_INTERPRET": "1"} if on["device"].startswith("CPU") else {}
    with refusing("nothing stored", 3):
        return program, about, plumb.machine(program) | on
