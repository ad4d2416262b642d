# SPDX-License-Identifier: Apache-2.0
"""JAX on the CPU. Its arrays are immutable and dense, so inputs are copied in; gradients are jax.vjp's."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..views import View
from .numpy_arrays import FRAMEWORK as NUMPY
from .numpy_arrays import array_of


class JaxFramework:
    """JAX's arrays."""

    name = "jax"
    negative_strides = True  # the copy has none
    differentiates = True

    def take(self, view: View) -> jax.Array:
        return jnp.asarray(np.array(array_of(view)))

    def held(self) -> int:
        return 0

    def on_stream(self, stream: int | None) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def lost(self) -> bool:
        return False

    def forget(self) -> None:
        pass

    def kind(self, value: Any) -> str | None:
        if isinstance(value, jax.Array):
            return None
        return f"a {type(value).__module__}.{type(value).__name__}, not a jax.Array"

    def dtype(self, value: jax.Array) -> str:
        return NUMPY.dtype(value)

    def shape(self, value: jax.Array) -> tuple[int, ...]:
        return tuple(value.shape)

    def device(self, value: jax.Array) -> str:
        return "cuda" if value.devices().pop().platform == "gpu" else "cpu"

    def address(self, value: jax.Array) -> int:
        return 0  # inputs were copied: a result can be no view of them

    def zeros(self, shape: tuple[int, ...], like: jax.Array) -> jax.Array:
        return jnp.zeros(shape, like.dtype)

    def give(self, value: jax.Array, view: View, negate: bool, unwritten: int | None) -> bool:
        return NUMPY.give(np.asarray(value), view, negate, unwritten)

    def state(self) -> dict[str, object]:
        return {"jax_enable_x64": jax.config.jax_enable_x64}

    def restore(self, state: dict[str, object]) -> None:
        jax.config.update("jax_enable_x64", state["jax_enable_x64"])


FRAMEWORK = JaxFramework()
