# SPDX-License-Identifier: Apache-2.0
"""MODULE:FUNCTION as a bound kernel."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import inspect
import sys
from collections.abc import Mapping
from typing import Any

from . import autotune, compiled, frameworks, interpreter, signature
from .call import Kernel
from .declaration import Declaration


class LoadError(Exception):
    """There is no such module, or no such function in it."""


def _public(owner: Any, wanted: str) -> str:
    """Names of what can be called there: those nearest to `wanted`, the module's own ones, the rest."""
    public = [n for n, v in list(vars(owner).items()) if not n.startswith("_") and callable(v)]
    own = [n for n in public if getattr(getattr(owner, n), "__module__", "") == getattr(owner, "__name__", None)]
    near = difflib.get_close_matches(wanted, public, 5)
    return ", ".join(list(dict.fromkeys([*near, *own, *public]))[:20]) or "no function"


def _has_guard(module: Any) -> bool:
    try:
        return "if __name__ ==" in inspect.getsource(module)
    except (OSError, TypeError):
        return False


def _taken_by_the_library(module: Any) -> str:
    """Says that a name is a module of the standard library, which was imported before any file of the user's."""
    name = getattr(module, "__name__", "")
    if name not in sys.stdlib_module_names:
        return ""
    return f" ({name} is the standard library's module: a file of that name must be renamed)"


def find(name: str) -> Any:
    """The object that MODULE:ATTRIBUTE[.ATTRIBUTE...] names."""
    module_name, _, path = name.partition(":")
    module = importlib.import_module(module_name)
    found: Any = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            under = " (what stands under `if __name__ == ...` is not there when a worker imports it)"
            guarded = inspect.ismodule(found) and _has_guard(found)
            why = under if guarded else _taken_by_the_library(found)
            raise LoadError(f"{module_name} has no {path!r}{why}; it has {_public(found, part)}") from None
    return _called(found)


def _called(found: Any) -> Any:
    """What is called of a class that computes: `apply` of an autograd function; a module that needs no argument, made."""
    if not inspect.isclass(found) or not callable(getattr(found, "forward", None)):
        return found
    if callable(getattr(found, "apply", None)) and callable(getattr(found, "backward", None)):
        return found.apply
    needed = [
        p.name
        for p in list(inspect.signature(found.__init__).parameters.values())[1:]
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        raise LoadError(f"{found.__name__} is a class that needs {', '.join(needed)} to be made; wrap it in a function")
    return found()


def _body(function: Any) -> Any:
    """The function that computes: the first of a pair, behind `apply` of an autograd function, a module, decorators and
    partials."""
    if isinstance(function, (tuple, list)) and function:
        function = function[0]
    if signature.is_apply(function):
        function = function.__self__.forward
    elif signature.is_module(function):
        function = function.forward
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    return function


def source_file(function: Any) -> str:
    """The file that the function is defined in; empty where nobody knows."""
    function = _body(function)
    try:
        return inspect.getsourcefile(function) or ""
    except TypeError:
        module = sys.modules.get(getattr(type(function), "__module__", ""), None)
        return getattr(module, "__file__", "") or ""


def _globals(function: Any) -> dict[str, Any]:
    """The globals of the function that computes; empty where nobody knows."""
    function = _body(function)
    if not hasattr(function, "__globals__"):
        function = getattr(function, "forward", None) or inspect.getattr_static(type(function), "__call__", function)
    return getattr(inspect.unwrap(function), "__globals__", {})


def _modules(known: Mapping[str, Any]) -> list[str]:
    """Names of the modules that globals are or come from; of a class, also those of its bases."""
    found: dict[str, None] = {}
    for value in list(known.values()):
        if inspect.ismodule(value):
            found[value.__name__] = None
        elif inspect.isclass(value):
            found |= dict.fromkeys(base.__module__ for base in value.__mro__)
        else:
            found[str(getattr(value, "__module__", ""))] = None
    return list(found)


def _top(module: str) -> str:
    return module.partition(".")[0]


def _is_operator(module: str) -> bool:
    """Whether it is of the operator's package, which a function may call as it calls any other kernel's."""
    return module == "plumbline.torch" or module.startswith("plumbline.torch.")


def framework_of(function: Any) -> str:
    """The array library whose module the function's globals refer to, else the modules that they refer to, and so on:
    a wrapper need not import the library. The nearest counts. NumPy where there is none."""
    nearest = [_globals(function)]
    seen = {"", __name__.partition(".")[0], *sys.stdlib_module_names}
    while nearest:
        modules = [name for each in nearest for name in _modules(each)]
        tops = {_top(name) for name in modules}
        for name in frameworks.NAMES:
            if name in tops:
                return name
        further = dict.fromkeys(name for name in modules if name not in seen and (_top(name) not in seen or _is_operator(name)))
        seen |= set(further)
        nearest = [vars(sys.modules[name]) for name in further if name in sys.modules]
    return "numpy"


def declaration_of(function: Any) -> Declaration | None:
    """What `@plumbline.target(...)` attached, if it did."""
    return getattr(function, "__plumbline__", None)


def to_complete(declared: Declaration | None) -> Declaration:
    """The declaration, marked as one to be completed by trying if it names no capability but a gradient that it has not:
    it says then how the function is called, and not what it can do."""
    declared = declared or Declaration()
    without = {"grad_hidden": False, "grad_weight": False}
    can = [key for key, value in declared.capabilities.items() if value is not without.get(key)]
    return declared if can else dataclasses.replace(declared, found=True)


def bound(name: str, function: Any) -> Kernel:
    """The function as a kernel, with what it declares. Raises signature.SignatureError."""
    declared = to_complete(declaration_of(function))
    framework = frameworks.load(declared.framework or framework_of(function))
    if not framework.negative_strides:
        # The library's own limit, whatever the function declares.
        declared = dataclasses.replace(declared, capabilities={**declared.capabilities, "negative_strides": False})
    kernel = Kernel(function, declared, framework)
    kernel.name, kernel.file = name, source_file(function)
    return kernel


def load(name: str) -> Kernel:
    """The kernel of this name, in a worker. Raises what the import raises, LoadError, or signature.SignatureError."""
    kernel = bound(name, find(name))
    compiled.allow()
    kernel.cannot_show = [unseen for unseen in (autotune.fix(), interpreter.complete()) if unseen]
    return kernel
