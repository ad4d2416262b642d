# SPDX-License-Identifier: Apache-2.0
"""Functions of JAX: their gradients by jax.vjp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from .call import Call, Returned

if TYPE_CHECKING:
    from .call import Kernel


def call_vjp(kernel: Kernel, call: Call, values: dict[str, Any]) -> dict[str, Returned]:
    """Forward and, where gradients are asked for, the pull-back of the upstream gradients."""
    upstream = {role: values.pop(role, None) for role in ("grad_logprob", "grad_entropy")}
    negate: dict[str, bool] = {}

    def outputs(hidden: jax.Array, weight: jax.Array) -> dict[str, jax.Array]:
        taken = values | {"hidden": hidden, "weight": weight}
        named = kernel.named(kernel.signature.call(kernel.function, taken), call.reduction)
        negate.update({name: output.negate for name, output in named.items()})
        return {name: output.value for name, output in named.items()}

    if not call.gradients():
        found = outputs(values["hidden"], values["weight"])
        return {name: Returned(value, negate[name]) for name, value in found.items()}
    found, pull_back = jax.vjp(outputs, values["hidden"], values["weight"])
    roles = {"logprob": "grad_logprob", "loss": "grad_logprob", "entropy": "grad_entropy"}
    cotangents = {}
    for name, value in found.items():
        given = upstream.get(roles.get(name, ""))
        if given is None:
            cotangents[name] = jnp.zeros_like(value)
        else:
            cotangents[name] = (-given if negate[name] else given).astype(value.dtype)
    gradients = dict(zip(("grad_hidden", "grad_weight"), pull_back(cotangents)))
    named = {name: Returned(value, negate[name]) for name, value in found.items()}
    return named | {name: Returned(gradients[name]) for name in call.gradients()}
