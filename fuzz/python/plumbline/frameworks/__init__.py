# SPDX-License-Identifier: Apache-2.0
"""What the worker needs of an array library, one module for each, imported only where it is used."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any, Protocol

from ..views import View

NAMES = ("torch", "jax", "numpy")


class Framework(Protocol):
    """How one array library takes inputs, gives outputs back and differentiates."""

    name: str
    negative_strides: bool  # its arrays may have them
    differentiates: bool

    def take(self, view: View) -> Any:
        """The view as an array; without a copy where the library can do without."""

    def kind(self, value: Any) -> str | None:
        """Why `value` is no array of this library; None if it is one."""

    def dtype(self, value: Any) -> str:
        """Its dtype as descriptions spell it, else in the library's words."""

    def shape(self, value: Any) -> tuple[int, ...]: ...

    def device(self, value: Any) -> str:
        """The kind of device: cpu or cuda."""

    def address(self, value: Any) -> int:
        """The address of its first element; 0 where nobody can tell."""

    def give(self, value: Any, view: View, negate: bool, unwritten: int | None) -> bool:
        """Copies `value`, negated or not, into `view`, except elements whose bytes are all `unwritten`; True if
        there are any."""

    def zeros(self, shape: tuple[int, ...], like: Any) -> Any:
        """Zeros of this shape with the dtype and device of `like`."""

    def held(self) -> int:
        """The number of inputs that are still referred to."""

    def on_stream(self, stream: int | None) -> contextlib.AbstractContextManager[Any]:
        """Orders the library's work on this CUDA stream; None is the host."""

    def forget(self) -> None:
        """Counts from here on: what is held now is not counted again."""

    def lost(self) -> bool:
        """True if this process has used a GPU and no call to it succeeds any more."""

    def state(self) -> dict[str, object]:
        """The library's global modes, which a target must leave as they are."""

    def restore(self, state: dict[str, object]) -> None: ...


def load(name: str) -> Framework:
    """The framework of this name; ImportError if it is not installed."""
    if name not in NAMES:
        raise ValueError(f"framework is {name!r}: none of {', '.join(NAMES)}")
    module = importlib.import_module(f"plumbline.frameworks.{name}_arrays")
    return module.FRAMEWORK
