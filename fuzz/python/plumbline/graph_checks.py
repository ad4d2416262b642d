# SPDX-License-Identifier: Apache-2.0
"""What further calls on a graph must agree in, and the words of a finding where they do not.

Words name no output before their end, so that both gradients of one defect have one signature.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .call import Misfit

WORDS = {
    "after": "after a second backward has run, what the first one returned is another",
    "again": "a second backward on the same graph returns another gradient",
    "alone": "a gradient is another where one input alone needs one",
    "no_grad": "forward under no_grad returns another value than with a graph",
}
REPEATS = 8  # further calls at most, where a check finds other bits
# What a function that is not deterministic may be off by, in units of what it differs by from call to call: the largest
# difference, and the root mean square over all elements, which a loss in many places raises.
WITHIN, WITHIN_RMS = 4.0, 2.0
# PyTorch's own words where backward has changed, or freed, what it had saved: it returns nothing wrong.
_REFUSED = ("has been modified by an inplace operation", "Trying to backward through the graph a second time")


def said(what: str) -> tuple[str, str]:
    """(the check, the output) that a finding's words are of; ("", "") where they are of none."""
    for check, words in WORDS.items():
        found = re.search(re.escape(words) + r": (?:element \d+|shape|dtype) of (\w+)", what)
        if found:
            return check, found[1]
    return "", ""


def is_refused(error: RuntimeError) -> bool:
    """Whether PyTorch refused to run backward a second time."""
    return any(words in str(error) for words in _REFUSED)


def _differing(first: Any, second: Any) -> Any:
    """Whether the bits of each element differ, of two tensors of one shape and dtype."""
    import torch

    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[first.element_size()]
    a, b = (each.contiguous().view(integers) for each in (first, second))
    return a != b


def _differences(first: Any, second: Any) -> Any:
    """The magnitudes of the differences in fp64: 0 where the bits are the same, infinite where one is no number."""
    apart = (first.double() - second.double()).abs().nan_to_num(nan=float("inf"))
    return apart.where(_differing(first, second), 0.0)


def _largest_and_rms(first: Any, second: Any) -> tuple[float, float]:
    """Returns both of the differences between two tensors."""
    apart = _differences(first, second)
    return float(apart.max()), float(apart.square().mean().sqrt())


def _is_noise(first: Any, second: Any, repeat: Callable[[], Any]) -> bool:
    """Whether calls of the function, which `repeat` makes, differ from `first` as much as `second` does."""
    largest, rms = _largest_and_rms(first, second)
    of_calls, rms_of_calls = 0.0, 0.0
    for _ in range(REPEATS):
        again = repeat().detach()
        if not bool(_differing(first, again).any()):
            continue
        of_call, rms_of_call = _largest_and_rms(first, again)
        of_calls, rms_of_calls = max(of_calls, of_call), max(rms_of_calls, rms_of_call)
        if largest <= WITHIN * of_calls and rms <= WITHIN_RMS * rms_of_calls < float("inf"):
            return True
    return False


def require_same(check: str, name: str, first: Any, second: Any, repeat: Callable[[], Any] | None = None) -> None:
    """Raises Misfit unless two tensors have the same bits.

    repeat: makes the first one again, by a call of its own. Where its bits differ from call to call as well, a difference
    within WITHIN and WITHIN_RMS of theirs is no misfit: that the function is not deterministic is a finding of its own.
    """
    first, second = first.detach(), second.detach()
    for what, before, now in (("shape", list(first.shape), list(second.shape)), ("dtype", first.dtype, second.dtype)):
        if before != now:
            raise Misfit(f"{WORDS[check]}: {what} of {name} is {now}, and {before} before")
    if not bool(_differing(first, second).any()) or repeat and _is_noise(first, second, repeat):
        return
    # The words name the largest difference, or the first element of other bits where values are the same.
    apart = _differences(first, second).flatten()
    at = int(apart.argmax()) if float(apart.max()) > 0 else int(_differing(first, second).flatten().int().argmax())
    raise Misfit(f"{WORDS[check]}: element {at} of {name} is {float(second.flatten()[at])!r}, "
                 f"and {float(first.flatten()[at])!r} before")
