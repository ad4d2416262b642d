# SPDX-License-Identifier: Apache-2.0
"""plumbline: judges fused linear cross-entropy kernels written in Python. fuzz/PYTHON.md is its guide."""

from .api import Check, Replayed, assert_linear_cross_entropy, check, fuzz, gate, replay
from .autotune import AutotuneError, fuzz_configurations
from .capturing.context import capture
from .contract import Contract
from .declaration import target
from .errors import Unsupported
from .findings import (
    Campaign,
    Finding,
    FindingsError,
    PlumbError,
    Shortcut,
    read_campaign,
    read_finding,
)

__all__ = [
    "AutotuneError",
    "Campaign",
    "Check",
    "Contract",
    "Finding",
    "FindingsError",
    "PlumbError",
    "Replayed",
    "Shortcut",
    "Unsupported",
    "assert_linear_cross_entropy",
    "capture",
    "check",
    "fuzz",
    "fuzz_configurations",
    "gate",
    "read_campaign",
    "read_finding",
    "replay",
    "target",
]


def __getattr__(name: str) -> str:
    """Reads __version__ where it is asked for: of the distribution that lies beside this package, else of the tree that it
    is in. The number stands in CMakeLists.txt alone."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib.metadata
    import pathlib
    import re

    folder = pathlib.Path(__file__).resolve().parent
    for installed in importlib.metadata.distributions(name="plumbline-lce", path=[str(folder.parent)]):
        return installed.version
    for project in (above / "CMakeLists.txt" for above in folder.parents):
        text = project.read_text(encoding="utf-8") if project.is_file() else ""
        if found := re.search(r"^project\(plumbline VERSION ([0-9.]+)", text, re.MULTILINE):
            return found[1]
    return "unknown"
