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

__version__ = "0.1.0"
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
