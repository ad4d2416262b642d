# SPDX-License-Identifier: Apache-2.0
"""The functions of planted_triton, as targets of a worker that notes each launch in which Triton compiled.

A line of $COMPILE_LOG has the seconds of one, loading and the launcher's build included, and 1 where the kernel came from
the compiler's cache. Any other launch returns before the device has run it.
"""

import os
import time

from planted_triton import *
from triton import knobs
from triton.runtime.jit import JITFunction

HITS = []  # of the launch that is under way: whether each kernel came from the cache
launch = JITFunction.run


def timed(self, *arguments, **options):
    """A launch, noted where Triton's listener heard of a compilation."""
    HITS.clear()
    begun = time.perf_counter()
    try:
        return launch(self, *arguments, **options)
    finally:
        if HITS:
            with open(os.environ["COMPILE_LOG"], "a", encoding="utf-8") as log:
                log.write(f"{time.perf_counter() - begun:.6f} {int(all(HITS))}\n")


def listen(cache_hit=False, **_):
    """Triton's listener of compilations."""
    HITS.append(cache_hit)


knobs.compilation.listener = listen
JITFunction.run = timed
