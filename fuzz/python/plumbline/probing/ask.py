# SPDX-License-Identifier: Apache-2.0
"""The process that asks: one answer a line, so that what a question that kills it was asked is known."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any, TextIO

from .. import loading
from ..call import Kernel
from .attempt import ABSENT, REFUSED, RIGHT, UNASKED, attempt
from .identify import Identified, Unidentified, identify
from .problems import Laid, Problem
from .questions import questions

# Seconds for the questions. A kernel that is compiled for every one of them needs minutes; all others, a tenth of it.
ENOUGH = 120.0


def _line(file: TextIO, **record: Any) -> None:
    file.write(json.dumps(record) + "\n")
    file.flush()


def _outputs(kernel: Kernel, problem: Problem) -> tuple[tuple[str, ...], list[str]]:
    """What the function returns besides its log-probability or loss, by its declaration or else by trying; and a
    line on each gradient that it does not give."""
    found, lines = [], []
    for name in ("entropy", "lse"):
        if kernel.declaration.returns is not None:
            present = name in kernel.declaration.returns
        else:
            present = attempt(kernel, problem, (name,)).kind != ABSENT
        found += [name] if present else []
    for name in ("grad_hidden", "grad_weight") if kernel.form != "forward" else ():
        alone = dataclasses.replace(problem, gradients=(name,), entropy_gradient=False)
        outcome = attempt(kernel, alone, (name,))
        if outcome.kind != ABSENT:
            found.append(name)
        else:
            lines.append(f"{name}, which is not judged: {outcome.words}")
    return tuple(found), lines


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
        outputs, lines = _outputs(kernel, identified.base)
        base = dataclasses.replace(
            identified.base,
            gradients=tuple(name for name in outputs if name.startswith("grad_")),
            entropy_gradient="entropy" in outputs,
        )
        base = _taken(kernel, base, outputs)
        _line(file, outputs_present=outputs, not_judged=[*identified.not_judged, *lines])
        end = time.monotonic() + ENOUGH
        for question in questions(kernel, base):
            if question.name in skip:
                continue
            _line(file, asking=question.name, key=question.key, value=question.value)
            if time.monotonic() > end:
                _line(file, answered=question.name, kind=UNASKED, words="")
                continue
            outcome = attempt(kernel, question.problem, outputs)
            _line(file, answered=question.name, kind=outcome.kind, words=outcome.words[:300])
            if question.key == "base" and outcome.kind == RIGHT:
                _line(file, deterministic=_same_twice(kernel, base, outputs))
        _line(file, done=True, base=dataclasses.asdict(base))
