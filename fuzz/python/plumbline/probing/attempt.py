# SPDX-License-Identifier: Apache-2.0
"""One question: a kernel is run on one problem, and what came of it."""

from __future__ import annotations

import dataclasses

from .. import errors
from ..call import Kernel, Misfit, Missing
from .problems import Laid, Problem, near

RIGHT, WRONG, REFUSED, FAILED, ABSENT = "right", "wrong", "refused", "failed", "absent"
UNASKED = "not asked"  # there was no time for it
DIED = "died"  # the process ended, or was ended since no answer came
NOT_JUDGED = ", which is not judged: "  # between a value and the reason, in a line of what cannot be shown


@dataclasses.dataclass(frozen=True)
class Outcome:
    """RIGHT; WRONG: other values came back; ABSENT: an output did not; REFUSED: by the target's own code, in words; FAILED: any
    other exception."""

    kind: str
    words: str = ""


def outcome_of(kernel: Kernel, failure: BaseException) -> Outcome:
    kind = REFUSED if errors.is_refusal(failure, kernel.file) else FAILED
    return Outcome(kind, errors.words(failure, kernel.file))


def attempt(kernel: Kernel, problem: Problem, outputs: tuple[str, ...]) -> Outcome:
    """Runs the kernel on `problem` and compares `outputs` with the reference."""
    objective = "logprob" if problem.reduction == "none" else "loss"
    wanted = tuple(name for name in (objective, *outputs) if name not in ("logprob", "loss") or name == objective)
    wanted = tuple(dict.fromkeys(n for n in wanted if not n.startswith("grad_") or n in problem.gradients))
    laid = Laid(problem, wanted, kernel.declaration.device == "cuda")
    try:
        named = kernel(laid.call)
        for name, view in laid.call.results.items():
            kernel.framework.give(named[name].value, view, named[name].negate, None)
        del named
    except Missing as missing:
        return Outcome(ABSENT, str(missing))
    except Misfit as misfit:
        return Outcome(WRONG, str(misfit))
    except Exception as failure:  # noqa: BLE001 - SystemExit and KeyboardInterrupt end the probe
        return outcome_of(kernel, failure)
    expected = laid.expected()
    for name in wanted:
        given = laid.given(name)
        if not near(given, expected[name], problem.dtype):
            at = int(abs(given - expected[name]).argmax()) if given.size else 0
            return Outcome(
                WRONG, f"{name}: element {at} is {given.flat[at]:.6g} where {expected[name].flat[at]:.6g} is right"
            )
    return Outcome(RIGHT)
