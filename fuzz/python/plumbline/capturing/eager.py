# SPDX-License-Identifier: Apache-2.0
"""A head that is no fused function: hidden and weight of a call of F.cross_entropy, read from the graph of its logits.

Between the product and the loss there may be views, conversions and a division by one number. The gradients are those of
the product.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any

from .arguments import Call, NotOneError, RefusedError, neutral, temperature_of, told
from .recognise import Place

# Nodes that leave every logit where it is, but for its rounding.
_KEPT = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "ToCopyBackward0", "CloneBackward0",
         "AliasBackward0", "UnsqueezeBackward0", "SqueezeBackward0", "SqueezeBackward1")
_MOST = 64  # nodes between the loss and the product


def place(owner: Any, name: str, function: Any) -> Place:
    """F.cross_entropy, whose parameters are not those of a fused function."""
    return Place(owner, name, function, inspect.signature(function), {}, "torch.nn.functional.cross_entropy", binds=bind)


def _product(logits: Any) -> tuple[Any, Any]:
    """The node of hidden @ weight.T behind logits, and what they were divided by. Raises NotOneError, RefusedError."""
    node, temperature = logits.grad_fn, None
    for _ in range(_MOST):
        name = "nothing" if node is None else node.name()
        if name == "MmBackward0":
            return node, temperature
        if name == "DivBackward0" and temperature is None and node._saved_other.numel() == 1:
            temperature = float(node._saved_other)
        elif name not in _KEPT:
            break
        node = node.next_functions[0][0]
    if name == "AddmmBackward0":
        raise RefusedError("the head has a bias, and a dump has no place for it")
    raise NotOneError(f"logits {list(logits.shape)} come from {name}, no product of hidden and weight")


def bind(place: Place, args: Sequence[Any], given: dict[str, Any]) -> Call:
    """The tensors of a call. Raises NotOneError, RefusedError."""
    torch = sys.modules["torch"]
    bound = place.reads.bind(*args, **given)
    bound.apply_defaults()
    options = bound.arguments
    logits, labels = options["input"], options["target"]
    if not all(isinstance(each, torch.Tensor) for each in (logits, labels)) or labels.is_floating_point():
        raise NotOneError("the labels are no classes")
    if logits.dim() != labels.dim() + 1 or labels.dim() != 1:
        raise NotOneError(f"logits {list(logits.shape)} of labels {list(labels.shape)}: rows are not flattened")
    for name in ("weight", "label_smoothing", "size_average", "reduce"):
        if not neutral(name, options[name]):
            raise RefusedError(f"{name} is {told(options[name])}, and a dump has no place for it")
    node, temperature = _product(logits)
    hidden, weight = node._saved_self, node._saved_mat2
    if hidden is None or weight is None:
        raise RefusedError("hidden or weight needs no gradient, and autograd kept no product of them")
    if hidden.shape[0] != labels.numel() or weight.shape[1] != logits.shape[1]:
        raise NotOneError(f"logits {list(logits.shape)} are not the product of {list(hidden.shape)} and {list(weight.shape)}")
    return Call(hidden, weight, labels, temperature_of(temperature), options["ignore_index"], options["reduction"], True, False,
                None, (hidden, weight), False, edges=[node.next_functions[0], node.next_functions[1]])
