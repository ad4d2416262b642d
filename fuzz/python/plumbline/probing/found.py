# SPDX-License-Identifier: Apache-2.0
"""The declaration of a function that names no capability: asked in a process of its own, and kept."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import importlib.metadata
import inspect
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from typing import Any

from .. import autotune
from ..call import Kernel
from ..declaration import Declaration
from ..naming import with_search_path
from .attempt import DIED, NOT_JUDGED, UNASKED
from .problems import Problem
from .questions import capabilities, not_explained

# Seconds for one question. torch.compile, the slowest of compilers met, takes 5 to 60 s for a new kind of input.
ONE_QUESTION = 120.0
# Seconds for all processes that ask, what they import and try before the first question included. plumb waits 20 minutes for
# a worker (fuzz/worker/process.cc), and would not know what the worker waited for.
ALL_QUESTIONS = 1140.0
_LOOK = 0.02  # seconds between two looks at the process and its answers
_REAPED = 10.0  # seconds until a process that was killed is gone; one whose kernel does not end may take longer
MOST_DEATHS = 8
_SETTINGS = ("TRITON_INTERPRET", autotune.VARIABLE)  # interpreted or compiled, and in which configuration
MOST_LINES = 6  # on values that are not judged; a description holds 16 lines of what cannot be shown


class ProbeError(Exception):
    """The function could not be tried; the text says why, and what to declare."""


@dataclasses.dataclass
class _Answers:
    identified: dict[str, Any] = dataclasses.field(default_factory=dict)
    kinds: dict[str, dict[Any, str]] = dataclasses.field(default_factory=dict)
    words: dict[str, str] = dataclasses.field(default_factory=dict)
    present: list[str] = dataclasses.field(default_factory=list)
    not_judged: list[str] = dataclasses.field(default_factory=list)
    asked: set[str] = dataclasses.field(default_factory=set)
    base: Problem = dataclasses.field(default_factory=Problem)
    deterministic: bool = True
    done: bool = False


def _folder() -> pathlib.Path:
    """Where answers are kept: the user's cache, else, where it cannot be written, a folder of the user's own among
    temporary files."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # as the specification of XDG_CACHE_HOME has it
        base = os.path.join(os.path.expanduser("~"), ".cache")
    folder = pathlib.Path(base) / "plumbline" / "found"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    own = pathlib.Path(tempfile.gettempdir()) / f"plumbline-{os.getuid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    return own if own.stat().st_uid == os.getuid() else pathlib.Path(tempfile.mkdtemp(prefix="plumbline-"))


def _at_most(most: int, lines: list[str]) -> list[str]:
    """The first lines, cut to what a description may hold, and how many there are more."""
    kept = [line if len(line) <= 300 else line[:299] + "…" for line in lines[:most]]
    return kept + ([f"{len(lines) - most} more values that came back"] if len(lines) > most else [])


def _helpers(kernel: Kernel) -> list[str]:
    """The sources of modules that the function's module refers to, and those again, as far as they are in no installed
    package: what the function calls."""
    places = sysconfig.get_paths()
    installed = tuple({os.path.realpath(places[key]) + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")})
    found: dict[str, str] = {}
    waiting = [kernel.name.partition(":")[0]]
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        file = os.path.realpath(getattr(module, "__file__", None) or "")
        if name in found or not file.endswith(".py") or file.startswith(installed) or "site-packages" in file:
            continue
        found[name] = file
        for value in list(vars(module).values()):
            other = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
            waiting += [other] if isinstance(other, str) else []
    return sorted(set(found.values()))


def _version(module: str) -> str:
    """The version of the package whose name is the module's; empty where there is none. naming.version_of finds packages
    of other names too, and would add 40 ms to the start of each worker."""
    try:
        return importlib.metadata.version(module.partition(".")[0])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return ""


def _stable(value: object) -> str:
    """Its repr without addresses: the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _key(kernel: Kernel) -> str:
    """A hash of what an answer depends on: the function's file and those of modules that it refers to, the versions of
    its package and of the framework, this package, what the function declares, and the settings of Triton that answers
    depend on. What those settings hide (cannot_show) is known to a worker alone, and would have a script ask again."""
    digest = hashlib.sha256()
    settings = [os.environ.get(name, "") for name in _SETTINGS]
    for text in (kernel.name, kernel.file, sys.version, sys.executable, kernel.framework.name, *settings):
        digest.update(text.encode() + b"\0")
    top = sys.modules.get(kernel.framework.name)
    digest.update(f"{getattr(top, '__version__', '')} {_version(kernel.name)}".encode())
    own = map(str, sorted(pathlib.Path(__file__).parent.parent.rglob("*.py")))
    for source in dict.fromkeys([kernel.file, *own, *_helpers(kernel)]):
        if source and os.path.isfile(source):
            digest.update(pathlib.Path(source).read_bytes())
    try:
        digest.update(inspect.getsource(kernel.function).encode())
    except (OSError, TypeError):
        digest.update(_stable(kernel.function).encode())
    digest.update(_stable(kernel.declaration).encode())
    return digest.hexdigest()[:32]


def _read(path: pathlib.Path) -> _Answers:
    answers = _Answers()
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue  # cut off by the death of who wrote it
        if "unidentified" in line:
            raise ProbeError(line["unidentified"])
        if "returns" in line:
            answers.identified = line
        elif "asking" in line:
            answers.asked.add(line["asking"])
            answers.kinds.setdefault(line["key"], {})[line["value"]] = DIED
        elif "answered" in line:
            key, _, _ = line["answered"].partition("=")
            value = next(v for v in answers.kinds[key] if f"{key}={v}" == line["answered"])
            answers.kinds[key][value] = line["kind"]
            answers.words[line["answered"]] = line["words"]
        elif "outputs_present" in line:
            answers.present, answers.not_judged = line["outputs_present"], line["not_judged"]
        elif "deterministic" in line:
            answers.deterministic = line["deterministic"]
        elif "done" in line:
            answers.done = True
            line["base"]["gradients"] = tuple(line["base"]["gradients"])
            answers.base = Problem(**line["base"])
    return answers


def _open_question(path: pathlib.Path) -> str:
    """The question that was asked last, if it has no answer yet."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    try:
        return json.loads(lines[-1]).get("asking", "") if lines else ""
    except json.JSONDecodeError:
        return ""  # it is being written


def _answer(path: pathlib.Path, question: str, words: str) -> None:
    """Writes down that a question had no answer."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps({"answered": question, "kind": DIED, "words": words[:300]}) + "\n")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process, of which nobody has taken the status yet, so that its number is no other's, and its children, of which
    one may hold the device."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_REAPED)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass


def _ask_once(command: list[str], path: pathlib.Path, one_question: float, end: float) -> str:
    """Runs a process that asks, and says why it ended. Python code in it cannot tell that a kernel does not end: the
    process waits in the driver's code, where no signal's handler runs. Its answers are watched from here."""
    with tempfile.TemporaryFile() as said:  # a pipe would be held open by children
        process = subprocess.Popen(  # without `with`, which would wait for ever for one that cannot be ended
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, env=with_search_path(os.environ),
            process_group=0,
        )  # fmt: skip
        try:
            late = _watch(process, path, one_question, end)
        finally:
            _kill(process)
        said.seek(0)
        last = said.read().decode(errors="replace").strip().rsplit("\n", 1)[-1]
    return late or f"the process died: status {process.returncode}: {last}"


def _watch(process: subprocess.Popen[bytes], path: pathlib.Path, one_question: float, end: float) -> str:
    """Waits until the process ends, and returns nothing; or until a question, or all of them, took too long."""
    seen, since = "", time.monotonic()
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(_LOOK)
        now, question = time.monotonic(), _open_question(path)
        if question != seen:
            seen, since = question, now
        if seen and now - since > one_question:
            return f"no answer within {one_question:g} s"
        if now > end:
            return f"no end within {ALL_QUESTIONS:g} s"
    return ""


def _ask_all(kernel: Kernel, path: pathlib.Path, one_question: float = ONE_QUESTION) -> _Answers:
    main = pathlib.Path(__file__).parent.parent / "worker" / "__main__.py"
    last = ""
    end = time.monotonic() + ALL_QUESTIONS
    for _ in range(MOST_DEATHS):
        answers = _read(path) if path.exists() else _Answers()
        if answers.done:
            return answers
        asked = json.dumps(sorted(answers.asked))
        command = [sys.executable, str(main), "ask", kernel.name, str(path), asked, str(os.getpid())]
        size = path.stat().st_size if path.exists() else 0
        last = _ask_once(command, path, one_question, end)
        if question := _open_question(path):
            _answer(path, question, last)
        if not path.exists() or path.stat().st_size == size or time.monotonic() > end:
            break  # it died before it asked anything, or there is no time for another
    answers = _read(path) if path.exists() else _Answers()
    if not answers.done:
        raise ProbeError(f"trying what it can do ended early: {last}; declare it with @plumbline.target(...)")
    return answers


def _comments(answers: _Answers, found: dict[str, Any]) -> list[str]:
    lines = [f"# refused, and no capability says why: {text}" for text in not_explained(answers.kinds, found)]
    unasked = [f"{key}={value}" for key, kinds in answers.kinds.items() for value, kind in kinds.items() if kind == UNASKED]
    if unasked:
        lines.append(f"# not tried, for lack of time; cases of it are drawn: {', '.join(unasked)}")
    for key, kinds in answers.kinds.items():
        for value, kind in kinds.items():
            if kind == UNASKED:
                continue
            name = f"{key}={value}"
            words = answers.words.get(name, "")
            if kind == DIED:
                drawn = "no cases of it are drawn" if found.get(key) is False else "cases of it are drawn"
                lines.append(f"# {name}: {drawn}: {words}")
            elif kind == "refused":
                lines.append(f"# {name}: refused: {words}")
            elif kind != "right":
                lines.append(f"# {name}: {kind}, and cases of it are drawn: {words}")
    return lines


def declaration_found(kernel: Kernel, one_question: float = ONE_QUESTION) -> tuple[Declaration, str, list[str]]:
    """The declaration; its text to paste, with a comment for each answer that is not right; and a line on each value
    that comes back, or is expected to, and is not judged."""
    folder = _folder()
    path = folder / f"{_key(kernel)}.jsonl"
    with open(path.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers start together: one of them asks
        try:
            answers = _ask_all(kernel, path, one_question)
        except ProbeError:
            path.unlink(missing_ok=True)
            raise
    found = capabilities(kernel, answers.base, answers.kinds)
    if not answers.deterministic:
        found["deterministic"] = False
    returns = answers.identified["returns"]
    for name in ("entropy", "lse", "grad_hidden", "grad_weight"):
        if name not in answers.present:
            found[name] = False
    # Nobody promises these without a word: declare them to have them tested.
    found["batch_invariant"] = found["fp32_grads"] = False
    found["first_invalid_row"] = "first_invalid_row" in (returns or ())
    declared = dataclasses.replace(
        kernel.declaration,
        framework=kernel.framework.name,
        form=answers.identified["form"],
        returns=tuple(returns) if returns is not None else None,
        outputs=answers.identified["outputs"],
        device=answers.identified["device"],
        capabilities={**found, **kernel.declaration.capabilities},
    )
    unjudged = [f"# not judged: {line.replace(NOT_JUDGED, ': ', 1)}" for line in answers.not_judged]
    text = "\n".join([*unjudged, *_comments(answers, found), declared.to_paste()])
    return declared, text, _at_most(MOST_LINES, answers.not_judged)
