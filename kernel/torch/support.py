# SPDX-License-Identifier: Apache-2.0
"""Whether the operator runs somewhere, and what else can where it does not."""

from __future__ import annotations

from typing import NamedTuple

import torch

from . import _library

_ELSE = "alternatives: a CPU tensor (slow), or F.linear and F.cross_entropy in chunks of rows"


class Support(NamedTuple):
    """Truthy where the operator runs; `reason` says why where it does not."""

    ok: bool
    reason: str

    def __bool__(self) -> bool:
        return self.ok


def supported(device: torch.device | str | int | None = None) -> Support:
    """Says whether linear_cross_entropy runs on a device (None: the current CUDA device, else the CPU). Never raises."""
    try:
        asked = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device is None else device)
    except Exception as error:  # noqa: BLE001 - a number beyond 64 bits is a ValueError, and a fault of a driver anything
        return Support(False, f"device = {_shown(device)}: {error}")
    reason = _reason(asked)
    if reason or asked.type == "cpu":
        return Support(not reason, reason)
    try:
        capability = torch.cuda.get_device_capability(asked)
    except Exception as error:  # noqa: BLE001 - no driver, no such device, or a fault of a call that PyTorch had put off
        return Support(False, f"device = {asked}: {error}; {_ELSE}")
    if capability < (7, 5):
        return Support(False, f"device = {asked}: compute capability {capability[0]}.{capability[1]}, not 7.5; {_ELSE}")
    return Support(True, "")


def _shown(device: object) -> str:
    try:
        return f"{device!r:.80}"
    except Exception:  # noqa: BLE001 - its own repr() fails
        return f"a {type(device).__name__}"


def _reason(device: torch.device) -> str:
    """What can be told without asking a driver; empty if nothing speaks against the device."""
    if device.type == "cpu":
        return ""
    if device.type != "cuda":
        return f"device = {device}: only CPU tensors and CUDA devices are supported; {_ELSE}"
    if torch.version.hip:
        return f"device = {device}: PyTorch for ROCm, and the operator is CUDA's; {_ELSE}"
    if not _library.HAS_CUDA:
        return f"device = {device}: this plumbline was built without CUDA; {_ELSE}"
    return ""


def check_device(device: torch.device) -> None:
    """Refuses a device of which it is known without its driver that nothing runs there."""
    reason = "" if device.type == "meta" else _reason(device)
    if reason:
        raise _library.UnsupportedDevice(f"hidden.{reason}")
