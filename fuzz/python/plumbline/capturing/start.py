# SPDX-License-Identifier: Apache-2.0
"""The capture of a process that PLUMBLINE_CAPTURE asks for: functions are replaced as their modules are imported."""

from __future__ import annotations

import atexit
import functools
import importlib.machinery
import sys
import threading
import types
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from typing import Any

from . import recognise, settings
from .session import Session, say
from .wrapping import Patches

_OPTIMIZERS = "torch.optim.optimizer"


class _Process:
    """The capture of this process."""

    def __init__(self, asked: settings.Settings) -> None:
        self.session = Session(asked)
        self.patches = Patches(self.session)
        self._named: dict[str, list[str]] = {}
        for name in asked.functions:
            module, _, path = name.partition(":")
            self._named.setdefault(module, []).append(path)
        self._main_seen = False

    def imported(self, module: types.ModuleType) -> None:
        """A module was run: replaces what is recognised in it. Says what failed, and raises nothing."""
        try:
            if module.__name__ == _OPTIMIZERS:
                module.register_optimizer_step_post_hook(functools.partial(self._stepped, sys.modules["torch"]))
            for path in self._named.get(module.__name__, ()):
                self._by_name(module, path)
            self.patches.module(module)
        except Exception as error:  # noqa: BLE001, the import goes on whatever it is
            self.session.warned(f"{module.__name__} is not looked through", error)

    def _by_name(self, module: types.ModuleType, path: str) -> None:
        try:
            place = recognise.named(module, path)
        except (AttributeError, KeyError):
            say(f"function={module.__name__}:{path}: there is none")
            return
        if place is None:
            say(f"function={module.__name__}:{path}: its parameters are not read as hidden, weight and labels by their names")
        else:
            self.patches.place(place)

    def _stepped(self, torch: Any, *_: Any) -> None:
        if torch.compiler.is_compiling():
            return
        try:
            self.session.stepped()
            if not self._main_seen:
                # The script itself is no module that is imported: its functions are seen after its first step.
                self._main_seen = True
                self.patches.module(sys.modules["__main__"])
        except Exception as error:  # noqa: BLE001
            self.session.warned("a step of the optimizer", error)


class _Finder(MetaPathFinder):
    """Finds modules as the finders behind it do, and tells of those that were run from a file."""

    def __init__(self, imported: Callable[[types.ModuleType], None]) -> None:
        self._imported = imported
        self._asking = threading.local()

    def find_spec(self, name: str, path: Sequence[str] | None,
                  target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if getattr(self._asking, "name", None) == name:
            return None
        self._asking.name = name
        try:
            spec = self._found(name, path, target)
        finally:
            self._asking.name = None
        loader = None if spec is None else spec.loader
        if isinstance(loader, importlib.machinery.SourceFileLoader | importlib.machinery.SourcelessFileLoader):
            loader.exec_module = functools.partial(self._run, loader.exec_module)  # type: ignore[method-assign]
        return spec

    def _found(self, name: str, path: Sequence[str] | None,
               target: types.ModuleType | None) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                return spec
        return None

    def _run(self, run: Callable[[types.ModuleType], None], module: types.ModuleType) -> None:
        run(module)
        self._imported(module)


def start(text: str) -> None:
    """Begins the capture that the variable asks for. Says what is wrong with it, and raises nothing."""
    try:
        asked = settings.parse(text)
    except settings.SettingsError as error:
        say(f"{settings.VARIABLE}: {error}; nothing is captured")
        return
    process = _Process(asked)
    sys.meta_path.insert(0, _Finder(process.imported))
    atexit.register(process.session.ended)
