# SPDX-License-Identifier: Apache-2.0
"""The name by which a worker, a process of its own, finds a function of this one."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.machinery
import json
import os
import pathlib
import re
import site
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from typing import Any

from . import pickled
from .loading import declaration_of

_PACKAGE = __name__.partition(".")[0]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a function is defined: a module that a fresh process can import, or else a script."""

    module: str  # "" where it is in a script that no import finds
    qualname: str
    file: str = ""


@dataclasses.dataclass(frozen=True)
class Named:
    """A target's name and the environment in which a worker finds it."""

    target: str
    environment: Mapping[str, str]


def _added_by_path_files(folder: str) -> set[str]:
    """The folders that `.pth` files in `folder` add to the path of every interpreter, behind `folder`."""
    found = set()
    for file in sorted(pathlib.Path(folder).glob("*.pth")):
        try:
            lines = file.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        found |= {
            os.path.realpath(os.path.join(folder, line.strip()))
            for line in lines
            if line.strip() and not line.startswith(("#", "import ", "import\t"))
        }
    return found


def search_path() -> list[str]:
    """The folders of sys.path that a fresh interpreter does not have by itself. In PYTHONPATH, which goes before
    site-packages, a folder that a `.pth` file there adds would hide the packages that lie before it."""
    standard = {os.path.realpath(sysconfig.get_paths()[key]) for key in ("stdlib", "platstdlib")}
    standard |= {os.path.join(folder, "lib-dynload") for folder in standard}
    packages = {os.path.realpath(folder) for folder in [*site.getsitepackages(), site.getusersitepackages()]}
    packages |= {added for folder in packages for added in _added_by_path_files(folder)}
    found = []
    for entry in sys.path:
        folder = os.path.abspath(entry or os.getcwd())
        real = os.path.realpath(folder)
        if real in standard | packages or os.path.basename(folder).startswith("python3") and folder.endswith(".zip"):
            continue
        if os.path.exists(folder) and ":" not in folder and folder not in found:
            found.append(folder)
    return found


def with_search_path(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that finds the modules of this one."""
    folders = [*search_path(), *environment.get("PYTHONPATH", "").split(":")]
    return {**environment, "PYTHONPATH": ":".join(dict.fromkeys(folder for folder in folders if folder))}


def _found_anew(name: str) -> str | None:
    """The file that a fresh process would import for a module; None if it would not find it."""
    path: Any = [entry or os.getcwd() for entry in sys.path]
    spec = None
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:end]), path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and end < len(parts):
            return None
    return spec.origin or ""


def _same_file(first: str, second: str) -> bool:
    return bool(first and second) and os.path.realpath(first) == os.path.realpath(second)


def importable(module: types.ModuleType) -> str | None:
    """The name by which a fresh process imports this module; None if there is none.

    The script that runs as __main__ is found by its file's name, as multiprocessing's spawn does.
    """
    file = getattr(module, "__file__", None) or ""
    name = module.__name__
    if name == "__main__":
        spec = getattr(module, "__spec__", None)
        name = spec.name if spec is not None else pathlib.Path(file).stem
        if not file or not name or "." in name and spec is None:
            return None
        return name if _same_file(_found_anew(name) or "", file) else None
    found = _found_anew(name)
    if found is None or (file and not _same_file(found, file)):
        return None
    return name


def _is(found: Any, function: Any) -> bool:
    if found is function:
        return True
    bound = isinstance(function, (types.MethodType, types.BuiltinMethodType))
    return bound and type(found) is type(function) and found == function


def _names(function: Any) -> Iterator[tuple[str, str]]:
    """Module and qualified name as the object itself says them."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type):
        yield owner.__module__, f"{owner.__qualname__}.{getattr(function, '__name__', '')}"
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if isinstance(module, str) and isinstance(qualname, str):
        yield module, qualname


def _modules_near(function: Any) -> Iterator[types.ModuleType]:
    """Modules that may hold the function under a name that it does not know: a lambda, a pair, a partial."""
    seeds = [function, type(function), getattr(function, "func", None), getattr(function, "__wrapped__", None)]
    if isinstance(function, (tuple, list)):
        seeds += list(function)
    names = [getattr(seed, "__module__", None) for seed in seeds] + ["__main__"]
    for name in dict.fromkeys(names):
        module = sys.modules.get(name) if isinstance(name, str) else None
        if module is not None and name.partition(".")[0] not in (_PACKAGE, "builtins"):
            yield module


def place_of(function: Any) -> Place | None:
    """Where the function is defined under a name; None if nowhere."""
    places: list[tuple[types.ModuleType, str]] = []
    for name, qualname in _names(function):
        module = sys.modules.get(name)
        try:
            if module is not None and _is(pickled.attribute(module, qualname), function):
                places.append((module, qualname))
        except AttributeError:
            pass
    for module in () if places else _modules_near(function):
        places += [(module, name) for name, value in list(vars(module).items()) if value is function]
    for module, qualname in places:
        file = getattr(module, "__file__", None) or ""
        name = importable(module)
        if name is not None:
            return Place(name, qualname, file)
        if file.endswith(".py") or os.path.isfile(file):
            return Place("", qualname, os.path.abspath(file))
    return None


def _declared_elsewhere(function: Any, place: Place) -> bool:
    """True if the function has a declaration that its own module does not make."""
    if declaration_of(function) is None:
        return False
    try:
        return _PACKAGE not in pathlib.Path(place.file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True


def _pickle(function: Any) -> bytes:
    name = getattr(function, "__qualname__", repr(function))
    try:
        import cloudpickle
    except ImportError:
        raise TypeError(
            f"{name} has no name that another process finds: put it at the top level of a module or a script, so "
            'that plumbline.fuzz(module.function) or plumbline.fuzz("module:function") names it, or install '
            "cloudpickle"
        ) from None
    try:
        return cloudpickle.dumps(function)
    except Exception as error:
        raise TypeError(f"{name} cannot be pickled ({error}): put it at the top level of a module") from error


def _write(folder: pathlib.Path, function: Any, suffix: str, content: bytes) -> Named:
    """Writes a file of plumbline/pickled.py, named after the function and its content."""
    label = getattr(function, "__qualname__", type(function).__name__)
    label = re.sub(r"\W+", "_", label.replace("<locals>", "").replace("<lambda>", "lambda")).strip("_")
    name = f"{label[-40:]}_{hashlib.sha256(content).hexdigest()[:8]}"
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / (name + suffix)).write_bytes(content)
    return Named(f"python:{_PACKAGE}.pickled:{name}", {pickled.FOLDERS: str(folder)})


def named(function: Any, folder: pathlib.Path) -> Named:
    """The target of a function, or of a name. What another process cannot import is written to `folder`.

    Raises TypeError for what is neither a function nor a name, nor can be pickled.
    """
    if isinstance(function, str):
        known = function.startswith(("python:", "plugin:", "mutant:")) or ":" not in function
        return Named(function if known else "python:" + function, {})
    pair = isinstance(function, (tuple, list)) and len(function) == 2 and all(map(callable, function))
    has_both = hasattr(function, "forward") and hasattr(function, "backward")
    if not (callable(function) or pair or has_both):
        raise TypeError(f"function is {function!r}: neither callable nor a pair (forward, backward) nor MODULE:FUNCTION")
    place = place_of(function)
    if place is None:
        return _write(folder, function, ".pkl", _pickle(function))
    elsewhere = _declared_elsewhere(function, place)
    if place.module and not elsewhere:
        return Named(f"python:{place.module}:{place.qualname}", {})
    entry: dict[str, Any] = {"qualname": place.qualname}
    entry |= {"module": place.module} if place.module else {"script": place.file}
    if elsewhere:
        entry["declaration"] = dataclasses.asdict(declaration_of(function))
    return _write(folder, function, ".json", json.dumps(entry, sort_keys=True, default=_plain).encode())


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value)


@functools.cache
def version_of(module: str) -> str:
    """The version of the package that a module is part of; empty where nobody knows."""
    import importlib.metadata

    top = module.partition(".")[0]
    names = importlib.metadata.packages_distributions().get(top, [])
    try:
        return f"{names[0]} {importlib.metadata.version(names[0])}" if names else ""
    except importlib.metadata.PackageNotFoundError:
        return ""
