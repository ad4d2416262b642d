# SPDX-License-Identifier: Apache-2.0
"""The operator in Triton, right and with one defect planted: on a GPU, or under TRITON_INTERPRET=1 on the CPU.

`right` has no defect. Each key of PLANTED is a function of this module too, with that defect alone.
"""

import planted_triton_kernels as kernels

try:
    import plumbline
except ImportError:  # the script of a finding runs without it
    plumbline = None

# What each defect changes; planted_triton_kernels.py changes it.
PLANTED = {
    "phantom_columns": "The tail of the last block is not masked: its columns count as logits of 0.",
    "no_shift": "No maximum is subtracted before the exponential.",
    "label_in_last_tile": "The label's logit is not looked for in a last, partial tile.",
    "ignored_rows": "Ignored rows have a part in both gradients.",
    "temperature_in_backward": "Backward does not divide by the temperature.",
    "entropy_gradient": "The gradient of the entropy lacks the entropy itself.",
    "overwritten_sum": "grad_weight holds the last block of rows alone: it is stored, not added.",
    "sum_not_rescaled": "The running sum is not rescaled where the maximum moves.",
    "assumed_stride": "Upstream gradients are read as if they lay without gaps, and no stride were 0.",
    "rows_past_a_block": "Rows behind the last whole block are not stored, where there is a whole one.",
    "rounded_probability": "The probability is rounded to fp16 before it is subtracted from 1.",
    "narrow_labels": "ignore_index and labels are compared in 32 bits.",
}

DECLARED = {
    "framework": "torch",
    "form": "autograd",
    "device": kernels.DEVICE,
    "returns": ("logprob", "entropy", "lse"),
    "reductions": ["none"],
    "temperature": "scalar",
    "fp32_grads": False,
    "first_invalid_row": False,
    "invalid_labels": False,
    "special_values": False,
    "empty_extents": False,
    "batch_invariant": False,
    # Exponential and logarithm are those of NumPy under the interpreter, and of ex2.approx and lg2.approx on a GPU.
    "contract": {
        "accumulate": "fp32",
        "scale_roundings": 4,
        "scale_exact_powers": True,
        "shift": "exact_max",
        "exp_error": 6,
        "log_error_absolute": 6,
        "log_error_relative": 8,
        "tile": 16,
        "tile_depth": 15,
        "d_logits": "fp32",
    },
}


def _target(name: str, defect: str, words: str):
    def function(hidden, weight, labels, temperature=1.0, ignore_index=-100):
        return kernels.LinearCrossEntropy.apply(hidden, weight, labels, float(temperature), ignore_index, defect)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = words
    return plumbline.target(function, **DECLARED) if plumbline else function


right = _target("right", "", "No defect is planted.")
globals().update({name: _target(name, name, words) for name, words in PLANTED.items()})
