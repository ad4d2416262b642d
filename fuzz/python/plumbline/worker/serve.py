# SPDX-License-Identifier: Apache-2.0
"""The target table that calls back into Python."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import math
import os
import time
from typing import Any

from .. import abi, errors, poison
from ..call import Call, Kernel, Misfit
from ..views import view_of
from . import device_heap

# Seconds within which a function on a device has to let its inputs go. PyTorch's thread of a device drops its last node of a
# backward pass, and with it an input, a moment after the pass has returned, later where more threads run than there are
# processors. On the host backward runs in the thread that calls it.
LET_GO_WITHIN = 0.5
LET_GO_WITHIN_AGAIN = 0.02  # of a function that is known to keep inputs


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run comes to: a status, its reason, and the word that tells the failure from others."""

    status: int = abi.OK
    text: str = ""
    failure: str = ""

    def reason(self, most: int) -> bytes:
        """The reason and the word, in at most so many bytes."""
        word = abi.WORD_FOLLOWS + self.failure.encode(errors="replace") if self.failure else b""
        text = self.text.encode(errors="replace").replace(abi.WORD_FOLLOWS, b" ")
        return text[: max(0, most - len(word))] + word if len(word) <= most else text[:most]


class Target:
    """A kernel behind the C interface."""

    def __init__(self, kernel: Kernel, declaration: str = "") -> None:
        self.kernel = kernel
        self._process = os.getpid()
        self._patience = LET_GO_WITHIN if kernel.declaration.device == "cuda" else 0.0
        cannot_show = list(kernel.cannot_show)
        why_not = poison.why_not() if kernel.declaration.device == "cpu" else None
        if why_not is not None:
            cannot_show.append(f"unwritten elements of what it allocates: {why_not}")
        if kernel.declaration.device == "cpu" and os.environ.get("OMP_NUM_THREADS") == "1":
            cannot_show.append("races between threads of its own: OMP_NUM_THREADS is 1; set it to see them")
        on_device = kernel.declaration.device == "cuda"
        if on_device:
            cannot_show.append(device_heap.cannot_show())
        self._poison = device_heap.DevicePoison() if on_device else poison.Poison(why_not is None)
        text = kernel.declaration.description("python:" + kernel.name, cannot_show, declaration)
        self._description = ctypes.create_string_buffer(text.encode())
        self._describe = abi.DESCRIBE(lambda: ctypes.addressof(self._description))
        self._run = abi.RUN(self._called)

    def table(self) -> abi.Table:
        return abi.Table(
            abi.ABI_VERSION, ctypes.sizeof(abi.Table), self._describe, self._run, None, None, None
        )

    def _called(self, problem: Any, results: Any, stream: int | None, error: Any, capacity: int) -> int:
        outcome = Outcome()
        try:
            with self.kernel.framework.on_stream(stream):
                outcome = self._judged(call_of(problem.contents, results.contents))
        except BaseException as failure:  # noqa: BLE001 - nothing may pass into the C++ that called
            errors.report(failure)
            text = f"in the worker: {errors.words(failure, __file__)}"
            outcome = Outcome(abi.FAILED, text, errors.failure(failure, __file__))
        if os.getpid() != self._process:
            os._exit(0)  # a child that the target forked, and which came back from it
        if outcome.status != abi.OK and capacity > 0:
            words = outcome.reason(capacity - 1)
            ctypes.memmove(error, words + b"\0", len(words) + 1)
        return outcome.status

    def _judged(self, call: Call) -> Outcome:
        outcome = self._run_once(call)
        if self._keeps_an_input():
            self.kernel.framework.forget()
            return Outcome(
                abi.FAILED, "kept: an input is still referred to after the function has returned", "kept@an-input"
            )
        return outcome

    def _keeps_an_input(self) -> bool:
        framework = self.kernel.framework
        if not framework.held():
            return False
        gc.collect()
        end = time.monotonic() + self._patience
        while framework.held() and time.monotonic() < end:
            time.sleep(0.001)
        if framework.held():
            gc.collect()  # what was let go meanwhile may have been part of a cycle
        if not framework.held():
            return False
        self._patience = min(self._patience, LET_GO_WITHIN_AGAIN)
        return True

    def _run_once(self, call: Call) -> Outcome:
        framework = self.kernel.framework
        before = framework.state()
        try:
            if self._give(call):
                # The bytes may be a value's own, 2^-16 of those in bf16: with the other pattern it is copied.
                self._give(call)
            outcome = Outcome()
        except Misfit as misfit:
            outcome = Outcome(abi.FAILED, str(misfit), errors.failure_in_words("misfit", str(misfit)))
        except BaseException as failure:  # noqa: BLE001
            outcome = self._failed(call, failure)
        after = framework.state()
        changed = [f"{key} was {before[key]} and is {after[key]}" for key in before if before[key] != after[key]]
        if changed:
            framework.restore(before)
            if outcome.status == abi.OK:
                keys = " ".join(key for key in before if before[key] != after[key])
                text = f"a global mode was left changed: {'; '.join(changed)}"
                outcome = Outcome(abi.FAILED, text, errors.failure_in_words("mode", keys))
        return outcome

    def _give(self, call: Call) -> bool:
        """Runs the kernel and copies what it returns; True if elements were taken for unwritten."""
        with self._poison as filled:
            named = self.kernel(call)
        left_out = [
            self.kernel.framework.give(named[name].value, view, named[name].negate, filled.pattern)
            for name, view in call.results.items()
        ]
        damage = self._poison.damage()
        if damage:
            raise Misfit(damage)
        return any(left_out)

    def _failed(self, call: Call, failure: BaseException) -> Outcome:
        text = errors.words(failure, self.kernel.file)
        if isinstance(failure, errors.Unsupported):
            return Outcome(abi.UNSUPPORTED, text)
        word = errors.failure(failure, self.kernel.file)
        if has_invalid_row(call, self.kernel):
            return Outcome(abi.INVALID, text, word)
        if errors.is_refusal(failure, self.kernel.file):
            if self.kernel.declaration.found:
                return Outcome(abi.UNSUPPORTED, text)
            text = f"refused what it does not declare to lack: {text}"
        errors.report(failure)
        return Outcome(abi.FAILED, text, word)


def has_invalid_row(call: Call, kernel: Kernel) -> bool:
    """True if a label is outside [0, V) and not ignored, or a temperature is not finite and positive."""
    vocab = call.inputs["weight"].shape[0]
    labels = kernel.framework.take(call.inputs["labels"]).tolist()
    taken = [row for row, label in enumerate(labels) if label != call.ignore_index]
    if any(not 0 <= labels[row] < vocab for row in taken):
        return True
    temperature = call.inputs.get("temperature")
    if temperature is None or not temperature.shape:
        return False
    values = kernel.framework.take(temperature).tolist()
    return any(not (math.isfinite(values[row]) and values[row] > 0) for row in taken)


def call_of(problem: abi.Problem, results: abi.Results) -> Call:
    """The structs as views."""
    inputs = {name: view_of(getattr(problem, name)) for name in abi.INPUTS}
    wanted = {name: view_of(getattr(results, name)) for name in abi.OUTPUTS}
    return Call(
        {name: view for name, view in inputs.items() if view is not None},
        {name: view for name, view in wanted.items() if view is not None},
        problem.ignore_index,
        abi.REDUCTIONS[problem.reduction],
    )
