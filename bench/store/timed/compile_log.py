# SPDX-License-Identifier: Apache-2.0
"""The functions of planted_triton, as targets of a worker that notes each compilation of Triton's.

A line of $COMPILE_LOG has the seconds of one, and 1 where they went to reading the compiler's cache.
"""

import os

from planted_triton import *  # noqa: F403
from triton import knobs


def note(times=None, cache_hit=False, **_):
    """Triton's listener of compilations: times are in microseconds."""
    with open(os.environ["COMPILE_LOG"], "a", encoding="utf-8") as log:
        log.write(f"{times.total / 1e6:.6f} {int(cache_hit)}\n")


knobs.compilation.listener = note
