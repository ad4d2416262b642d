# SPDX-License-Identifier: Apache-2.0
"""Started by `plumb` as `python .../plumbline/worker/__main__.py worker --target python:MODULE:FUNCTION ...`.

This file is run by its path, so that the interpreter's own packages are the target's: the package that
it belongs to is loaded from beside it and put under its name. What is imported here at the top is what every
interpreter has imported already: a file of the user's may stand in the place of any other module.
"""

import os
import sys


def _load_package() -> None:
    """Makes `import plumbline` give the package of this file, and no other folder importable by it."""
    import importlib.util  # before the user's folder is on the path

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.path and os.path.abspath(sys.path[0]) == os.path.dirname(os.path.abspath(__file__)):
        sys.path[0] = os.getcwd()  # as with -m
    spec = importlib.util.spec_from_file_location(
        "plumbline", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules["plumbline"] = package
    spec.loader.exec_module(package)


def _files_of(error: BaseException | None) -> set[str]:
    """The files whose code an exception, or one that led to it, passed through."""
    files: set[str] = set()
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        files |= {error.filename} if isinstance(error, SyntaxError) and error.filename else set()
        step = error.__traceback__
        while step is not None:
            files.add(step.tb_frame.f_code.co_filename)
            step = step.tb_next
        error = error.__cause__ or error.__context__
    return {os.path.abspath(file) for file in files}


def shadows(error: BaseException) -> str:
    """Names the files that were imported in the place of the standard library's modules; empty where there is none.

    Such a file makes the import of whatever needs the module fail, in words that do not lead to it.
    """
    standard = os.path.dirname(os.path.abspath(os.__file__))
    passed = _files_of(error)
    found = []
    for folder in map(os.path.abspath, sys.path):
        if folder == standard:
            break
        for name in sorted(sys.stdlib_module_names):
            taken = getattr(sys.modules.get(name), "__file__", None) or ""
            for file in (os.path.join(folder, name + ".py"), os.path.join(folder, name, "__init__.py")):
                if os.path.isfile(file) and (file in passed or os.path.abspath(taken) == file):
                    found.append(f"{file} stands in the place of the standard library's module {name}: rename it")
    return "; ".join(dict.fromkeys(found))


def _main() -> int:
    try:
        _load_package()
        from plumbline.worker.start import main

        return main(sys.argv, shadows)
    except Exception as error:
        why = shadows(error)
        if not why:
            raise
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(f"{why} ({type(error).__name__}: {error})")  # the log's last line, which plumb quotes


if __name__ == "__main__":
    if sys.version_info < (3, 11) or sys.platform != "linux":
        sys.exit(f"plumbline needs Python 3.11 or later on Linux; this is {sys.version.split()[0]} on {sys.platform}")
    sys.exit(_main())
