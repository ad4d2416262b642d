# SPDX-License-Identifier: Apache-2.0
"""Started by `plumb` as `python .../plumbline/worker/__main__.py worker --target python:MODULE:FUNCTION ...`.

This file is run by its path, so that the interpreter's own packages are the target's: the package that
it belongs to is loaded from beside it and put under its name.
"""

import importlib.util
import os
import sys


def _load_package() -> None:
    """Makes `import plumbline` give the package of this file, and no other folder importable by it."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.path and os.path.abspath(sys.path[0]) == os.path.dirname(os.path.abspath(__file__)):
        sys.path[0] = os.getcwd()  # as with -m
    spec = importlib.util.spec_from_file_location(
        "plumbline", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules["plumbline"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    if sys.version_info < (3, 11) or sys.platform != "linux":
        sys.exit(f"plumbline needs Python 3.11 or later on Linux; this is {sys.version.split()[0]} on {sys.platform}")
    _load_package()
    from plumbline.worker.start import main

    sys.exit(main(sys.argv))
