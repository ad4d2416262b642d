# SPDX-License-Identifier: Apache-2.0
"""Kernels in NumPy that declare nothing of their arithmetic and have one shortcut and one bug each.

`right` has neither. Each key of PLANTED is a function of this module too, and with `_without_bug` the shortcut alone.
"""

import shortcut_and_bug_kernels as kernels

try:
    import plumbline
except ImportError:  # the script of a finding runs without it
    plumbline = None

# By name: the shortcut, the words of a contract that declare it, the bug, and the outputs that the bug shows in.
PLANTED = {
    "padding_label": ("logits_bf16", "logits=bf16", "label_zero_ignored", ("lse", "logprob", "entropy", "loss")),
    "tail": ("logits_fp16", "logits=fp16", "tail_dropped", ("lse", "logprob", "entropy", "loss")),
    "phantom": ("scaled_logits_bf16", "scaled_logits=bf16", "phantom_columns", ("lse", "logprob", "entropy", "loss")),
    "temperature": ("log_probs_bf16", "log_probs=bf16", "temperature_in_backward", ("grad_hidden", "grad_weight")),
    "rebased": ("probabilities_bf16", "probabilities=bf16", "entropy_not_rebased", ("entropy",)),
    "mean": ("d_logits_bf16", "d_logits=bf16", "mean_of_all_rows", ("loss",)),
    "rescaled": ("d_logits_fp16", "d_logits=fp16", "sum_not_rescaled", ("lse", "logprob", "loss")),
    "entropy_gradient": (
        "loss_bf16", "outputs.loss=bf16", "entropy_gradient_dropped", ("grad_hidden", "grad_weight")
    ),
    "last_label": (
        "grad_hidden_bf16", "accumulator=bf16,vocab_chunk=64", "label_in_last_tile", ("logprob", "loss")
    ),
    "ignored": ("grad_weight_bf16", "accumulator=bf16,row_chunk=16", "ignored_rows", ("grad_weight",)),
    "negative": ("filter", "filter=0.000244140625", "negative_label", ("lse", "logprob", "entropy", "grad_weight")),
    "overwritten": ("inputs_tf32", "matmul=tf32", "tile_overwritten", ("grad_hidden",)),
}  # fmt: skip

DECLARED = {
    "framework": "numpy",
    "form": "returned",
    "dtypes": ["fp16", "fp32"],
    "fp32_grads": False,
    "first_invalid_row": False,
    "special_values": False,
    "empty_extents": False,
    "batch_invariant": False,
}


def _target(name: str, shortcut: str, bug: str):
    def function(
        hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none", grad_logprob=None, grad_entropy=None
    ):
        options = temperature, ignore_index, reduction, grad_logprob, grad_entropy
        return kernels.linear_cross_entropy(hidden, weight, labels, options, shortcut, bug)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{shortcut or 'No shortcut'} and {bug or 'no bug'}."
    return plumbline.target(function, **DECLARED) if plumbline else function


right = _target("right", "", "")
for _name, (_shortcut, _words, _bug, _outputs) in PLANTED.items():
    globals()[_name] = _target(_name, _shortcut, _bug)
    globals()[f"{_name}_without_bug"] = _target(f"{_name}_without_bug", _shortcut, "")
