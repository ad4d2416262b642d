# SPDX-License-Identifier: Apache-2.0
"""Brings a build folder up to date before a result is stored: what ran must be what the keys say."""

import os
import re
import subprocess
from pathlib import Path

from report.command_line import Refused


def is_configured(build: Path) -> bool:
    """Whether CMake made the folder; what lies in another one cannot be brought up to date."""
    return (build / "CMakeCache.txt").is_file()


def why_not_built(build: Path, root: Path, target: str) -> str | None:
    """Builds a target in a folder that CMake configured; why that is not possible, None where it is built."""
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    home = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache, re.MULTILINE)
    if home is None or Path(home[1]).resolve() != root:
        return f"{build} is of another source tree: {home[1] if home else 'none'}"
    built = subprocess.run(["cmake", "--build", build, "--target", target], stdout=subprocess.DEVNULL, check=False)
    return f"{build} does not build" if built.returncode else None


def release(root: Path, *targets: str) -> Path:
    """The plumb of the release build, after these targets were brought up to date; Refused where that is not possible."""
    build = root / "build/release"
    program = build / "fuzz/plumb"
    if not os.access(program, os.X_OK):
        raise Refused(f"no {program}; tests/run or fuzz/run builds it")
    for target in targets if is_configured(build) else ():
        if why := why_not_built(build, root, target):
            raise Refused(why)
    return program
