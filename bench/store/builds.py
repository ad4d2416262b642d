# SPDX-License-Identifier: Apache-2.0
"""Brings a build folder up to date before a result is stored: what ran must be what the keys say."""

import re
import subprocess
from pathlib import Path


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
