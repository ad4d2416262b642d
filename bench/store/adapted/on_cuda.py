# SPDX-License-Identifier: Apache-2.0
"""Public kernels that take tensors of either kind, called on a GPU: what declares no device is tried on the CPU first."""

import functools
import importlib
import inspect

KERNELS = {
    "pytorch_eager": "pytorch_functions:eager",
    "pytorch_compiled": "pytorch_functions:compiled",
    "pytorch_linear_cross_entropy": "torch.nn.functional:linear_cross_entropy",
    "verl_for_ppo": "verl.utils.experimental.torch_functional:FusedLinearForPPO",
    "liger_scaled": "liger_kernel.ops.fused_linear_scaled_cross_entropy:LigerFusedLinearScaledCrossEntropyFunction.apply",
    "trl_chunked": "trl_functions:chunked_log_prob",
    "unsloth_fused": "unsloth_functions:fused_ce",
    "unsloth_log_probs": "unsloth_functions:log_probs",
    "cce_torch_compile": "cce_functions:torch_compile",
}


def __getattr__(name: str) -> object:
    if name not in KERNELS:
        raise AttributeError(f"{__name__} has no {name!r}; it has {', '.join(KERNELS)}")
    import plumbline  # the table is read where there is none

    module, _, path = KERNELS[name].partition(":")
    found: object = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    if inspect.ismethod(found):  # `apply` of an autograd function, which takes no attribute
        apply = found

        @functools.wraps(apply)
        def found(*arguments: object, **named: object) -> object:
            return apply(*arguments, **named)

    globals()[name] = plumbline.target(device="cuda")(found)
    return globals()[name]
