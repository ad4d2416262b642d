# SPDX-License-Identifier: Apache-2.0
"""Which functions of a module compute a linear cross-entropy, told by the names of their parameters.

A vendored or renamed copy is recognised as its original is. Whether the arguments of a call fit is asked when it is made
(arguments.py).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from .. import signature

MARK = "__plumbline_captured__"
_ROLES = (*signature.REQUIRED, "temperature", "ignore_index", "reduction")
_MORE = {"labels": "|index|selected_token_ids"}
_PATTERNS = {role: re.compile(signature.ROLES[role] + _MORE.get(role, "")).fullmatch for role in _ROLES}


@dataclasses.dataclass(frozen=True)
class Place:
    """An attribute that holds a function, and how its parameters are read."""

    owner: Any
    name: str
    function: Callable[..., Any]
    reads: inspect.Signature  # without `self`
    roles: dict[str, str]  # the parameter of each role
    title: str
    is_method: bool = False
    module: Any = None  # an object whose call it is
    kernel: Any = None  # a torch.autograd.Function whose `apply` it is
    binds: Callable[..., Any] | None = None  # what reads a call's arguments, if not arguments.bind


def roles_of(reads: inspect.Signature, named: bool = False) -> dict[str, str] | None:
    """The parameter of each role; None where hidden, weight and labels are not one parameter each, without a default.

    F.cross_entropy(input, target, weight=None) is left out by the default of its weight, and a function of x, w, y, in
    which each may be anything, unless it is given by name.
    """
    found: dict[str, list[str]] = {}
    for name, parameter in reads.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        for role, fits in _PATTERNS.items():
            if fits(name.lower()) and (parameter.default is parameter.empty or role not in signature.REQUIRED):
                found.setdefault(role, []).append(name)
    needed = [found.get(role, []) for role in signature.REQUIRED]
    if any(len(names) != 1 for names in needed) or not (named or any(len(names[0]) > 1 for names in needed)):
        return None
    return {role: names[0] for role, names in found.items() if len(names) == 1}


def _may_be(function: Any) -> bool:
    """Whether a parameter has a name of labels: what is asked first, of every function of every module."""
    code = getattr(function, "__code__", None)
    if code is None and hasattr(function, "__wrapped__"):
        code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        return code is not None
    count = code.co_argcount + code.co_kwonlyargcount
    return count >= 3 and any(_PATTERNS["labels"](name.lower()) for name in code.co_varnames[:count])


def _place(owner: Any, name: str, function: Any, of: Any, skip: int, title: str, named: bool,
           is_method: bool = False) -> Place | None:
    """The place, whose function's parameters are those of `of` from `skip` on; None if it is none."""
    if getattr(function, MARK, False) or not (named or _may_be(of)):
        return None
    try:
        reads = inspect.signature(of)
    except (ValueError, TypeError):
        return None
    reads = reads.replace(parameters=list(reads.parameters.values())[skip:])
    roles = roles_of(reads, named)
    return roles and Place(owner, name, function, reads, roles, title, is_method)


def _is_apply_of(function: Any, torch: Any) -> bool:
    owner = getattr(function, "__self__", None)
    return signature.is_apply(function) and inspect.isclass(owner) and issubclass(owner, torch.autograd.Function)


def _of_apply(owner: Any, name: str, kernel: Any, title: str, named: bool) -> Place | None:
    """apply of a torch.autograd.Function: it takes what `forward` takes behind its context."""
    own_context = 0 if "setup_context" in vars(kernel) else 1
    place = _place(owner, name, kernel.apply, kernel.forward, own_context, title, named)
    return place and dataclasses.replace(place, kernel=kernel)


def _of_class(kernel: type, torch: Any, named: bool) -> Place | None:
    title = f"{kernel.__module__}.{kernel.__qualname__}"
    own = vars(kernel)
    if issubclass(kernel, torch.autograd.Function):
        return _of_apply(kernel, "apply", kernel, f"{title}.apply", named) if "forward" in own else None
    if isinstance(own.get("apply"), staticmethod):
        return _place(kernel, "apply", own["apply"].__func__, own["apply"].__func__, 0, f"{title}.apply", named)
    if issubclass(kernel, torch.nn.Module) and isinstance(own.get("forward"), types.FunctionType):
        return _place(kernel, "forward", own["forward"], own["forward"], 1, f"{title}.forward", named, True)
    return None


def _of(owner: Any, name: str, found: Any, torch: Any, named: bool = False) -> Place | None:
    if named and found is torch.nn.functional.cross_entropy:
        from . import eager

        return eager.place(owner, name, found)
    if inspect.isclass(found):
        return _of_class(found, torch, named)
    if _is_apply_of(found, torch):
        kernel = found.__self__
        return _of_apply(owner, name, kernel, f"{kernel.__module__}.{kernel.__qualname__}.apply", named)
    title = f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', name)}"
    # A method binds `self`, and an object's __call__ may be anything.
    is_function = isinstance(found, types.FunctionType) or hasattr(found, "__wrapped__") or named and callable(found)
    return _place(owner, name, found, found, 0, title, named) if is_function else None


def places(module: types.ModuleType) -> Iterator[Place]:
    """The functions, and the classes' methods, that a module defines itself; `apply` of any, bound to a name in it."""
    torch = sys.modules.get("torch")
    home = getattr(module, "__name__", "")
    # What is private in PyTorch is a part of what its public functions do.
    if torch is None or not hasattr(torch, "nn") or not hasattr(torch, "autograd") or str(home).startswith("torch._"):
        return
    for name, found in list(vars(module).items()):
        if name.startswith("_") and str(home).startswith("torch."):
            continue
        # No attribute of another object is read: a proxy may import a module then.
        own = issubclass(type(found), (types.FunctionType, type)) and found.__module__ == home
        # `apply`, bound to its class, is a method in Python with PyTorch 2.11, and one in C with 2.15.
        if own or type(found) in (types.MethodType, types.BuiltinMethodType):
            place = _of(module, name, found, torch)
            if place is not None:
                yield place


def given(function: Any) -> Place | None:
    """The place, in nothing, of a function or of an object of a torch.nn.Module that somebody has at hand."""
    if signature.is_module(function):
        title = f"{type(function).__module__}.{type(function).__qualname__}"
        place = _place(None, "", function, function.forward, 0, title, True)
        return place and dataclasses.replace(place, module=function)
    return _of(None, "", function, sys.modules["torch"], True)


def named(module: types.ModuleType, path: str) -> Place | None:
    """The place of PATH in a module, whose parameters may have names of one letter. Raises AttributeError."""
    torch = sys.modules["torch"]
    owner = functools.reduce(getattr, path.split(".")[:-1], module)
    name = path.rpartition(".")[2]
    return _of(owner, name, getattr(owner, name), torch, True)
