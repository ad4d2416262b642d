# SPDX-License-Identifier: Apache-2.0
"""The process that asks: one answer a line, so that what a question that kills it was asked is known."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import signal
import time
from typing import Any, TextIO

from .. import loading
from ..call import Kernel, no_gradient
from .attempt import ABSENT, DIED, NOT_JUDGED, REFUSED, RIGHT, UNASKED, WRONG, attempt
from .identify import Identified, Unidentified, identify
from .problems import Laid, Problem
from .questions import questions

# Seconds for the questions. A kernel that is compiled for every one of them needs minutes; all others, a tenth of it.
ENOUGH = 120.0
_DEVICE_LOST = 6  # the exit status of a worker whose device is lost (fuzz/worker/protocol.h)


def _line(file: TextIO, **record: Any) -> None:
    file.write(json.dumps(record) + "\n")
    file.flush()


def _gradients(kernel: Kernel, problem: Problem) -> tuple[list[str], dict[str, str]]:
    """The gradients that come, and why each other one does not. One that the declaration says is not there is neither."""
    found, absent = [], {}
    for name in ("grad_hidden", "grad_weight") if kernel.form != "forward" else ():
        if kernel.declaration.capabilities.get(name) is False:
            continue
        alone = dataclasses.replace(problem, gradients=(name,), entropy_gradient=False)
        outcome = attempt(kernel, alone, (name,))
        if outcome.kind != ABSENT:
            found.append(name)
        else:
            absent[name] = outcome.words
    return found, absent


def _values(kernel: Kernel, problem: Problem) -> list[str]:
    """What the function returns besides its log-probability or loss, by its declaration or else by trying."""
    if kernel.declaration.returns is not None:
        return [name for name in ("entropy", "lse") if name in kernel.declaration.returns]
    return [name for name in ("entropy", "lse") if attempt(kernel, problem, (name,)).kind != ABSENT]


def _identified(kernel: Kernel) -> Identified:
    """What the function returns, in host memory, or else on a GPU if it takes nothing there."""
    try:
        return identify(kernel)
    except Unidentified:
        if kernel.framework.name != "torch" or not kernel.framework.has_gpu():
            raise
    kernel.declaration = dataclasses.replace(kernel.declaration, device="cuda")
    return identify(kernel)


def _taken(kernel: Kernel, base: Problem, outputs: tuple[str, ...]) -> Problem:
    """The base problem in a dtype whose gradients are not refused, if there is one: backward may take fewer dtypes."""
    for dtype in dict.fromkeys((base.dtype, "bf16", "fp16", "fp32")):
        problem = dataclasses.replace(base, dtype=dtype)
        if attempt(kernel, problem, outputs).kind != REFUSED:
            return problem
    return base


def _same_twice(kernel: Kernel, problem: Problem, outputs: tuple[str, ...]) -> bool:
    wanted = ("logprob" if problem.reduction == "none" else "loss", *outputs)
    seen = []
    for _ in range(3):
        laid = Laid(problem, wanted, kernel.declaration.device == "cuda")
        try:
            named = kernel(laid.call)
            for name, view in laid.call.results.items():
                kernel.framework.give(named[name].value, view, named[name].negate, None)
        except Exception:  # noqa: BLE001
            return True  # another question says what is wrong
        seen.append([laid.given(name).tobytes() for name in wanted])
    return all(each == seen[0] for each in seen)


def end_with(parent: int) -> None:
    """Has this process killed when `parent` ends: it is in a process group of its own, which nobody else ends."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def ask(name: str, path: str, skip: set[str]) -> None:
    """Asks all questions of the target MODULE:FUNCTION that are not in `skip`, and appends to `path`."""
    with open(path, "a", encoding="utf-8") as file:
        kernel = loading.load(name)
        try:
            identified = _identified(kernel)
        except Unidentified as problem:
            _line(file, unidentified=str(problem))
            return
        declared = identified.declaration
        _line(
            file,
            returns=declared.returns,
            outputs=dict(declared.outputs),
            form=kernel.form,
            device=declared.device,
        )
        kernel.declaration = declared
        kernel.checks = False
        gradients, absent = _gradients(kernel, identified.base)
        outputs = (*_values(kernel, identified.base), *gradients)
        lines = [f"{name}{NOT_JUDGED}{words}" for name, words in absent.items()]
        # A graph that ends before one of the inputs drops a gradient without a word: that one is asked of it.
        dropped = absent if kernel.form == "autograd" and gradients else {}
        base = dataclasses.replace(
            identified.base,
            gradients=tuple(gradients),
            entropy_gradient="entropy" in outputs,
        )
        base = _taken(kernel, base, outputs)
        not_judged = [*identified.not_judged, *([] if dropped else lines)]
        _line(file, outputs_present=(*outputs, *dropped), not_judged=not_judged)
        for gradient in dropped:
            _line(file, asking=f"{gradient}=True", key=gradient, value=True)
            _line(file, answered=f"{gradient}=True", kind=WRONG, words=no_gradient(gradient))
        end = time.monotonic() + ENOUGH
        for question in questions(kernel, base):
            if question.name in skip:
                continue
            _line(file, asking=question.name, key=question.key, value=question.value)
            if time.monotonic() > end:
                _line(file, answered=question.name, kind=UNASKED, words="")
                continue
            outcome = attempt(kernel, question.problem, outputs)
            if kernel.framework.lost():
                # An assertion on the device is an exception here, and every later call fails of it: the next question
                # needs a process of its own.
                words = f"the device was lost: {outcome.words or outcome.kind}"
                _line(file, answered=question.name, kind=DIED, words=words[:300])
                os._exit(_DEVICE_LOST)
            _line(file, answered=question.name, kind=outcome.kind, words=outcome.words[:300])
            if question.key == "base" and outcome.kind == RIGHT:
                _line(file, deterministic=_same_twice(kernel, base, outputs))
        _line(file, done=True, base=dataclasses.asdict(base))
