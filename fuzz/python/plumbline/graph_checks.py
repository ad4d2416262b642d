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
REPEATS = 8  # further calls, where a check finds other bits
WITHIN = 4.0  # times the largest difference between them: what a function that is not deterministic may be off by
# PyTorch's own words where backward has changed, or freed, what it had saved: it returns nothing wrong.
_REFUSED = ("has been modified by an inplace operation", "Trying to backward through the graph a second time")


def said(what: str) -> tuple[str, str]:
    """(the check, the output) that a finding's words are of; ("", "") where they are of none."""
    for check, words in WORDS.items():
        found = re.search(re.escape(words) + r": element \d+ of (\w+)", what)
        if found:
            return check, found[1]
    return "", ""


def is_refused(error: RuntimeError) -> bool:
    """Whether PyTorch refused to run backward a second time."""
    return any(words in str(error) for words in _REFUSED)


def _differing(first: Any, second: Any) -> list[int]:
    """Indices of the elements whose bits differ, of two tensors of one shape."""
    import torch

    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[first.element_size()]
    a, b = (each.contiguous().view(integers).flatten() for each in (first, second))
    return (a != b).nonzero().flatten().tolist()


def _apart(first: Any, second: Any) -> float:
    """The largest difference; NaN where one is not finite."""
    return float((first.double() - second.double()).abs().max())


def require_same(check: str, name: str, first: Any, second: Any, repeat: Callable[[], Any] | None = None) -> None:
    """Raises Misfit unless two tensors have the same bits.

    repeat: makes the first one again, by a call of its own. Where its bits differ from call to call as well, a difference
    of at most WITHIN times theirs is no misfit: that the function is not deterministic is a finding of its own.
    """
    first, second = first.detach(), second.detach()
    if first.shape != second.shape:
        raise Misfit(f"{WORDS[check]}: {name} has shape {list(second.shape)}, and {list(first.shape)} before")
    differ = _differing(first, second)
    if not differ:
        return
    varying = [again for again in (repeat().detach() for _ in range(REPEATS)) if _differing(first, again)] if repeat else []
    if varying and _apart(first, second) <= WITHIN * max(_apart(first, again) for again in varying):
        return
    at = differ[0]
    raise Misfit(f"{WORDS[check]}: element {at} of {name} is {float(second.flatten()[at])!r}, "
                 f"and {float(first.flatten()[at])!r} before")
