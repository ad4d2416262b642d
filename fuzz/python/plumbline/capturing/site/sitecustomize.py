# SPDX-License-Identifier: Apache-2.0
"""Begins what PLUMBLINE_CAPTURE asks for, and runs the sitecustomize that this one, first on the path, hides.

The package is loaded under a name of its own: a job may have another one called plumbline.
"""

import importlib.machinery
import importlib.util
import os
import sys


def _capture() -> None:
    text = os.environ.get("PLUMBLINE_CAPTURE")
    if not text:
        return
    try:
        import types

        package = types.ModuleType("_plumbline_capture")
        here = os.path.dirname(os.path.abspath(__file__))
        package.__path__ = [os.path.dirname(os.path.dirname(here))]
        sys.modules["_plumbline_capture"] = package
        from _plumbline_capture.capturing import start

        start.start(text)
    except Exception as error:  # noqa: BLE001, the job goes on whatever it is
        sys.stderr.write(f"plumbline.capture: nothing is captured: {type(error).__name__}: {error}\n")


def _hidden() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    path = [folder for folder in sys.path if os.path.abspath(folder or os.curdir) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    _capture()
    _hidden()
