# SPDX-License-Identifier: Apache-2.0
"""Scalars that the operator reads from memory: a temperature, an upstream gradient of 1."""

from __future__ import annotations

import torch

_MOST = 64
_made: dict[tuple[float, torch.device, int], torch.Tensor] = {}


def _filled(value: float, device: torch.device) -> torch.Tensor:
    return torch.full((), value, dtype=torch.float32, device=device)


def scalar(value: float, device: torch.device) -> torch.Tensor:
    """A tensor of rank 0 in fp32, made once: its fill is a launch of its own, and kernels have no such argument by value.

    Each stream has its own, because another stream would not wait for the fill. A CUDA graph fills one of its own at each
    replay: it may outlive what is held here. Registered operators take none: a compiler's graph runs them in a pool of
    memory in which nothing may stay. No caller may hand the tensor on to anyone who could write it.
    """
    stream = 0
    if device.type == "cuda":
        if device.index != torch.cuda.current_device() or torch.cuda.is_current_stream_capturing():
            return _filled(value, device)
        stream = torch.cuda.current_stream(device).cuda_stream
    key = value, device, stream
    found = _made.get(key)
    if found is None:
        if len(_made) >= _MOST:  # a temperature that changes with each step
            _made.clear()
        found = _made[key] = _filled(value, device)
    return found
