# SPDX-License-Identifier: Apache-2.0
"""Asks plumb, and takes the JSON object that it says last."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from store import stored


def ask(plumb: Path, *words: str | Path, environment: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """(status, the object that `plumb words… --json` says last); ValueError where it says none. `environment` is added
    to this process's own."""
    run = subprocess.run([plumb, *words, "--json"], capture_output=True, check=False,
                         env={**os.environ, **(environment or {})})
    try:
        return run.returncode, stored.last_object(run.stdout.decode(errors="replace"))
    except ValueError as fault:
        said = run.stderr.decode(errors="replace").strip().splitlines() or ["no word"]
        raise ValueError(f"{plumb} {words[0]}: status {run.returncode}, no result ({fault}): {said[-1]}") from None


def machine(plumb: Path) -> dict[str, str]:
    """What plumb doctor says of this machine."""
    return ask(plumb, "doctor")[1]["machine"]
