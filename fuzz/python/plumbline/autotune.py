# SPDX-License-Identifier: Apache-2.0
"""Triton's autotuner: which configuration it runs is timing's choice, so that two runs may differ.

A worker fixes the choice: `$PLUMBLINE_AUTOTUNE` is the number of a configuration (0 unless it is set), or
`free` for the tuner's own. `plumbline.fuzz_configurations` hunts with each in turn.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

VARIABLE = "PLUMBLINE_AUTOTUNE"


class AutotuneError(ValueError):
    """There is no configuration of this number."""


def tuners() -> list[Any]:
    """The autotuned kernels of every module that has been imported, in the order of their names."""
    module = sys.modules.get("triton.runtime.autotuner")
    if module is None:
        return []
    # The type, and not isinstance, which asks objects for attributes that warn.
    found = [thing for thing in gc.get_objects() if issubclass(type(thing), module.Autotuner)]
    return sorted(found, key=_name)


def _name(tuner: Any) -> str:
    function = getattr(tuner, "base_fn", None) or getattr(tuner, "fn", None)
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', '')}"


def configurations() -> list[str]:
    """What each number stands for, as text; numbers run over all kernels together."""
    listed = tuners()
    count = max((len(tuner.configs) for tuner in listed), default=0)
    return ["; ".join(f"{_name(t)}: {t.configs[min(i, len(t.configs) - 1)]}" for t in listed) for i in range(count)]


def fix() -> str | None:
    """Fixes the configuration that the environment names; what cannot be seen then, or None."""
    wanted = os.environ.get(VARIABLE, "0")
    listed = tuners()
    if not listed:
        return None
    most = max(len(tuner.configs) for tuner in listed)
    if wanted == "free":
        return "which configuration ran: the autotuner chose by timing"
    if not wanted.isdigit() or int(wanted) >= most:
        raise AutotuneError(f"{VARIABLE} is {wanted!r}: a number from 0 to {most - 1}, or free")
    number = int(wanted)
    for tuner in listed:
        tuner.configs = [tuner.configs[min(number, len(tuner.configs) - 1)]]
        tuner.cache.clear()
    if most == 1:
        return None
    return f"autotuned configurations other than number {number} of {most} ({VARIABLE}; fuzz_configurations tries all)"


def fuzz_configurations(function: Any, cases: int = 20, **options: Any) -> dict[str, Any]:
    """One campaign of so many cases for each configuration: its text, and the campaign.

    function: an imported function that runs autotuned kernels. options: as those of `plumbline.fuzz`, but
    `out`, under which each campaign has a folder of its number. Raises AutotuneError where nothing is tuned.
    """
    from .api import fuzz

    listed = configurations()
    if not listed:
        raise AutotuneError("no autotuned Triton kernel has been imported")
    out = options.pop("out", None)
    before = os.environ.get(VARIABLE)
    campaigns = {}
    try:
        for number, text in enumerate(listed):
            os.environ[VARIABLE] = str(number)
            folder = {} if out is None else {"out": os.path.join(out, str(number))}
            campaigns[text] = fuzz(function, f"{cases}cases", **folder, **options)
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before
    return campaigns
