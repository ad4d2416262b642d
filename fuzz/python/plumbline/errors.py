# SPDX-License-Identifier: Apache-2.0
"""Exceptions of a target: the words that a finding quotes, the one in its signature, and whether one is a refusal."""

from __future__ import annotations

import dis
import hashlib
import linecache
import os
import pathlib
import re
import sys
import sysconfig
import tempfile
import traceback
import types

_REFUSALS = (NotImplementedError, ValueError, TypeError, AssertionError, RuntimeError)
_HERE = os.path.dirname(os.path.abspath(__file__))
_STANDARD = sysconfig.get_paths()["stdlib"]
# What raises in these is no kernel's own word, unless the kernel is theirs.
_SITES = ("site-packages", "dist-packages")
_FRAMEWORKS = ("torch", "torchgen", "triton", "numpy", "jax", "jaxlib")
# What a framework says of a dtype that one of its functions lacks, in small letters.
_LACKS = (
    "not implemented for", "not supported for", "unsupported dtype", "expected scalar type", "expected dtype",
    "expected target dtype", "only applicable to index tensor",
)  # fmt: skip


class Unsupported(Exception):
    """Raised by a target: it cannot do this problem. The case is skipped and counted."""


def _frames(error: BaseException) -> list[types.TracebackType]:
    frames = []
    step = error.__traceback__
    while step is not None:
        frames.append(step)
        step = step.tb_next
    return frames


def _package(file: str) -> str:
    """The top folder of the package that a file is part of, else the file itself."""
    folder = os.path.dirname(os.path.abspath(file))
    if not os.path.exists(os.path.join(folder, "__init__.py")):
        return os.path.abspath(file)
    while os.path.exists(os.path.join(os.path.dirname(folder), "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def innermost_of_user(error: BaseException, file: str) -> traceback.FrameSummary | None:
    """The innermost frame in the package of `file`."""
    package = _package(file)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = os.path.abspath(frame.filename)
        if path == package or path.startswith(package + os.sep):
            return frame
    return None


def _bare_assertion(error: BaseException) -> str:
    """The source of an `assert` that has no message."""
    frames = _frames(error)
    if not isinstance(error, AssertionError) or str(error) or not frames:
        return ""
    code = frames[-1].tb_frame.f_code
    return linecache.getline(code.co_filename, frames[-1].tb_lineno).strip().removesuffix("(")


def _innermost_own(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame, if it is of no framework."""
    frame = next(reversed(traceback.extract_tb(error.__traceback__)), None)
    return frame if frame is not None and _is_of_a_kernel(frame.filename) else None


def words(error: BaseException, file: str = "") -> str:
    """Type and message, and where in a kernel's package it came from: that of `file`, or of a kernel that it calls."""
    text = f"{type(error).__name__}: {str(error) or _bare_assertion(error)}".strip().rstrip(":")
    frame = (_innermost_own(error) or innermost_of_user(error, file)) if file else None
    if frame is None:
        return text
    return f"{text} (in {frame.name}, {os.path.basename(frame.filename)}:{frame.lineno})"


def _chain(error: BaseException) -> list[BaseException]:
    """The error, and what it wraps: what it was raised from, or what a compiler's error names as its own."""
    chain = [error]
    while len(chain) < 8:
        inner = getattr(chain[-1], "inner_exception", None) or chain[-1].__cause__
        if not isinstance(inner, BaseException) or inner in chain:
            break
        chain.append(inner)
    return chain


def _places(error: BaseException, file: str) -> list[traceback.FrameSummary]:
    """The innermost frame of a kernel, and that of the package of `file`."""
    for each in reversed(_chain(error)):
        frames = reversed(traceback.extract_tb(each.__traceback__))
        inner = next((frame for frame in frames if _is_of_a_kernel(frame.filename)), None)
        places = [frame for frame in (inner, innermost_of_user(each, file)) if frame is not None]
        if places:
            return places
    return []


def failure(error: BaseException, file: str) -> str:
    """A word that is the same wherever an exception has the same cause, "ValueError@loss.3fa2c1": its type, and that of
    what it wraps; the function that it came from; a hash of the text of the line there, whose number may change."""
    chain = _chain(error)
    kind = ".".join(dict.fromkeys(type(each).__name__ for each in (chain[0], chain[-1])))
    places = _places(error, file)
    if not places:
        return f"{kind}@elsewhere"
    lines = [" ".join((frame.line or "").split()) for frame in places]
    mark = "." + hashlib.sha256("\n".join(dict.fromkeys(lines)).encode()).hexdigest()[:6] if any(lines) else ""
    return f"{kind}@{places[0].name.strip('<>')[:40]}{mark}"


def failure_in_words(kind: str, words: str) -> str:
    """Such a word of a text of this package: "misfit@lse-has-shape-where-is-required". It has no number, no value, no
    shape and no dtype of the text, which differ between cases of one cause."""
    plain = re.sub(r"\[.*?\]|\(.*?\)|\{.*?\}|\b(?:bf|b?float|fp|int)\d+\b|\b(?:nan|inf)\b", " ", words)
    plain = re.sub(r"[-+]?\d\S*", " ", plain)
    return f"{kind}@" + "-".join(re.findall(r"[A-Za-z_]+", plain))[:60].rstrip("-")


def _is_raise(step: types.TracebackType) -> bool:
    """True if the frame ended in its own `raise` or `assert`, not in an operation that failed."""
    for instruction in dis.get_instructions(step.tb_frame.f_code):
        if instruction.offset == step.tb_lasti:
            return instruction.opname in ("RAISE_VARARGS", "RERAISE")
    return False


def _is_below(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)


def _is_compiled(path: str) -> bool:
    """True of a file below a folder where torch.compile writes: its default, or the environment's, unless that holds the
    current folder too."""
    if os.path.realpath(path).startswith(os.path.join(os.path.realpath(tempfile.gettempdir()), "torchinductor_")):
        return True
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")
    return folder != "" and _is_below(path, folder) and not _is_below(os.path.join(os.getcwd(), "x"), folder)


def _is_of_a_kernel(path: str) -> bool:
    """True of a file that is part of no framework, of the standard library, or of this package. What torch.compile
    writes for a call is a framework's: its name and text are others each time."""
    path = os.path.abspath(path)
    if not os.path.isfile(path) or path.startswith(_HERE + os.sep):
        return False
    above = pathlib.Path(path).parts
    if _is_compiled(path):
        return False
    site = next((i for i, part in enumerate(above) if part in _SITES), None)
    if site is None and path.startswith(_STANDARD + os.sep):
        return False
    top = above[site + 1] if site is not None else os.path.basename(_package(path))
    return top not in _FRAMEWORKS


def is_refusal(error: BaseException, file: str) -> bool:
    """True of a clear refusal: a `raise` or `assert` in the target's own package or in one that it calls and
    that is no framework, or Unsupported, or a framework's word that it lacks a function for a dtype. A
    compiler's error is none."""
    if isinstance(error, Unsupported):
        return True
    if not isinstance(error, _REFUSALS):
        return False
    frames = _frames(error)
    if not frames:
        return False
    path = os.path.abspath(frames[-1].tb_frame.f_code.co_filename)
    package = _package(file)
    own = path == package or path.startswith(package + os.sep) or _is_of_a_kernel(path)
    if own and _is_raise(frames[-1]):
        return True
    return any(lack in str(error).lower() for lack in _LACKS)


def report(error: BaseException) -> None:
    """Writes the traceback to the worker's log, without the frames of this package."""
    steps = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_HERE)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(steps)]
    lines += traceback.format_exception_only(type(error), error)
    sys.stderr.write("".join(lines))
    sys.stderr.flush()
