# SPDX-License-Identifier: Apache-2.0
"""The command `plumb` of an installed wheel: becomes the program that the wheel brings."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from .library import program

# The program takes the first that is set (fuzz/worker/command.h).
_INTERPRETER = ("PLUMBLINE_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX")


def main() -> NoReturn:
    """Runs `plumb` with this command's words. Python targets are loaded by this interpreter if no variable
    names another: an environment whose programs are called by path is not an activated one."""
    if sys.platform != "linux":
        sys.exit(f"plumb: runs on Linux only, and this is {sys.platform}")
    try:
        path = program()
    except FileNotFoundError as error:
        sys.exit(f"plumb: {error}")
    if sys.executable and not any(os.environ.get(name) for name in _INTERPRETER):
        os.environ["PLUMBLINE_PYTHON"] = sys.executable
    os.execv(path, ["plumb", *sys.argv[1:]])
