# SPDX-License-Identifier: Apache-2.0
"""Functions that no module's name leads to: `python:plumbline.pickled:NAME` is one of them.

NAME is a file in a folder that the environment variable PLUMBLINE_PICKLED names (several: separated
by colons). NAME.pkl holds the function as cloudpickle wrote it. NAME.json says where it is defined:
{"script": PATH or "module": NAME, "qualname": ..., "declaration": {...} if another module declares it}.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import sys
from collections.abc import Mapping
from typing import Any

from .declaration import Declaration

FOLDERS = "PLUMBLINE_PICKLED"


def declaration_of_json(text: Mapping[str, Any]) -> Declaration:
    """The declaration whose fields `text` holds."""
    fields = dict(text)
    if fields.get("returns") is not None:
        fields["returns"] = tuple(fields["returns"])
    return Declaration(**fields)


def script_module(path: str) -> Any:
    """A script as a module, under another name than __main__: what `if __name__ == "__main__"` guards is not run."""
    name = "plumbline_script_" + "".join(c if c.isalnum() else "_" for c in pathlib.Path(path).stem)
    if name in sys.modules:
        return sys.modules[name]
    loader = importlib.machinery.SourceFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def attribute(holder: Any, qualname: str) -> Any:
    """What a dotted name leads to from `holder`."""
    for part in qualname.split("."):
        holder = getattr(holder, part)
    return holder


def _declared(function: Any, declaration: Declaration) -> Any:
    """`function` with the declaration: attached where it takes attributes, else behind a wrapper."""
    try:
        function.__plumbline__ = declaration
        return function
    except AttributeError:
        pass

    @functools.wraps(function)
    def wrapped(*positional: Any, **named: Any) -> Any:
        return function(*positional, **named)

    wrapped.__plumbline__ = declaration
    return wrapped


@functools.cache
def _load(path: pathlib.Path) -> Any:
    if path.suffix == ".pkl":
        import pickle  # cloudpickle's files are read by pickle; they import cloudpickle by themselves

        with open(path, "rb") as file:
            return pickle.load(file)
    entry = json.loads(path.read_text(encoding="utf-8"))
    if "script" in entry:
        module = script_module(entry["script"])
    else:
        module = importlib.import_module(entry["module"])
    function = attribute(module, entry["qualname"])
    if entry.get("declaration") is not None:
        function = _declared(function, declaration_of_json(entry["declaration"]))
    return function


def __getattr__(name: str) -> Any:
    if name.startswith("__") or not re.fullmatch(r"\w*_[0-9a-f]{8}", name):
        raise AttributeError(name)  # pickle asks every module for every name, and takes no other exception
    folders = [folder for folder in os.environ.get(FOLDERS, "").split(":") if folder]
    for folder in folders:
        for suffix in (".pkl", ".json"):
            path = pathlib.Path(folder) / (name + suffix)
            if path.is_file():
                return _load(path)
    where = ":".join(folders) or "nothing"
    # hasattr() passes an ImportError on, with its words.
    raise ImportError(
        f"python:plumbline.pickled:{name} was written by plumbline.fuzz; {FOLDERS} names the folder "
        f"with {name}.pkl or {name}.json, the folder `pickled` of the campaign (it names {where})"
    )
