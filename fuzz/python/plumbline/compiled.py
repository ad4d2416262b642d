# SPDX-License-Identifier: Apache-2.0
"""torch.compile: what a worker sets, so that what is judged is compiled code, called as the harness must call it."""

from __future__ import annotations

import sys

# Variants of one function: dtype, layout, reduction, which input needs a gradient, and each extent that is 1 has its own.
MOST_VARIANTS = 4096


def allow() -> None:
    """Sets PyTorch's compiler, if the target's import has loaded it.

    * A graph is differentiated twice by one of the checks, which compiled code refuses once its buffers are donated.
    * After 8 variants PyTorch runs a function uncompiled without a word to the caller.
    * A worker compiles in its own process: there is a worker on every core, and a pool of compilers starts slowly.
    """
    if "torch._dynamo" not in sys.modules:
        return
    import torch._dynamo.config as dynamo
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    functorch.donated_buffer = False
    inductor.compile_threads = 1
    for name in ("recompile_limit", "accumulated_recompile_limit"):
        if hasattr(dynamo, name):
            setattr(dynamo, name, max(getattr(dynamo, name), MOST_VARIANTS))
