# SPDX-License-Identifier: Apache-2.0
"""Recognised functions replaced, in a module that was imported, by ones that count their calls and record the chosen."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import recognise
from .settings import SettingsError

if TYPE_CHECKING:
    from .session import Session

_ABSENT = object()


def wrapped(place: recognise.Place, session: Session) -> Callable[..., Any]:
    """The function, which asks the session of each call whether to record it.

    torch.compile makes constants of what is asked first: a compiled call is as it was, and is not seen. It knows `apply` of
    a class by the class alone, as `kernel.apply`, and fails on a bound method.
    """
    function, kernel, torch = place.function, place.kernel, sys.modules["torch"]

    def call(*args: Any, **options: Any) -> Any:
        if kernel is not None and torch.compiler.is_dynamo_compiling():
            return kernel.apply(*args, **options)
        if torch.compiler.is_compiling() or not session.counted():
            return function(*args, **options)
        return session.record(place, args, options)

    try:
        functools.update_wrapper(call, function)
    except (AttributeError, TypeError):
        pass
    setattr(call, recognise.MARK, True)
    return call


class Patches:
    """What was replaced, to be put back."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._was: list[tuple[Any, str, Any]] = []
        self.titles: list[str] = []

    def _put(self, owner: Any, name: str, value: Any) -> None:
        self._was.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def place(self, place: recognise.Place) -> Callable[..., Any]:
        call = wrapped(place, self._session)
        static = inspect.isclass(place.owner) and not place.is_method
        self._put(place.owner, place.name, staticmethod(call) if static else call)
        self.titles.append(place.title)
        return call

    def module(self, module: types.ModuleType) -> None:
        """Replaces what a module defines."""
        for place in list(recognise.places(module)):
            self.place(place)

    def of(self, function: Any) -> Callable[..., Any]:
        """A function that is at hand, which records its calls. Raises SettingsError."""
        place = recognise.given(function)
        if place is None and not getattr(function, recognise.MARK, False):
            raise SettingsError(f"{function!r:.80}: its parameters are not read as hidden, weight and labels by their names "
                                "(fuzz/PYTHON.md); wrap it in a function of hidden, weight, labels")
        return function if place is None else wrapped(place, self._session)

    def everywhere(self, given: Sequence[tuple[Any, Callable[..., Any]]]) -> None:
        """Replaces, in every module, what is recognised, and functions by what is given beside each."""
        # The functions themselves are kept beside: an identity is one while its object lives.
        replaced = {id(function): (call, function) for function, call in given}
        modules = [module for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)]
        for module in modules:
            for place in list(recognise.places(module)):
                if id(place.function) not in replaced:
                    replaced[id(place.function)] = (self.place(place), place.function)
        for module in modules:
            for name, found in list(vars(module).items()):
                if id(found) in replaced:
                    self._put(module, name, replaced[id(found)][0])

    def undo(self) -> None:
        for owner, name, was in reversed(self._was):
            if was is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, was)
        self._was.clear()
