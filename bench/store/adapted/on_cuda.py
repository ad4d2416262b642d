# SPDX-License-Identifier: Apache-2.0
"""Public kernels that take tensors of either kind, called on a GPU: what declares no device is tried on the CPU first."""

import importlib

try:
    import plumbline
except ImportError:  # a script of a finding has the functions alone
    plumbline = None

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


def liger_scaled(hidden, weight, labels, temperature=1.0, ignore_index=-100):
    """Minus the log-probability and the entropy by row. `apply` itself takes no declaration."""
    module, _, path = KERNELS["liger_scaled"].partition(":")
    function = getattr(importlib.import_module(module), path.removesuffix(".apply"))
    return function.apply(hidden, weight, labels, temperature, ignore_index, return_entropy=True)


if plumbline:
    plumbline.target(liger_scaled, framework="torch", device="cuda", returns=("nll", "entropy"))


def __getattr__(name: str) -> object:
    if name not in KERNELS:
        raise AttributeError(f"{__name__} has no {name!r}; it has {', '.join(KERNELS)}")
    module, _, path = KERNELS[name].partition(":")
    found: object = importlib.import_module(module)
    for part in path.split("."):
        if not hasattr(found, part):
            raise ImportError(f"{module} has no {path}")
        found = getattr(found, part)
    globals()[name] = plumbline.target(found, device="cuda") if plumbline else found
    return globals()[name]
