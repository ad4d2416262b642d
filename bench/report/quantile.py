# SPDX-License-Identifier: Apache-2.0
"""Quantiles of times to something that may not have come, by nearest ranks."""

import math
from collections.abc import Sequence


def quantile(values: Sequence[float | None], part: float) -> float | None:
    """The smallest value that this part of them does not pass. None is above all numbers."""
    ordered = sorted(math.inf if value is None else value for value in values)
    found = ordered[max(math.ceil(part * len(ordered)) - 1, 0)]
    return None if math.isinf(found) else found
