# SPDX-License-Identifier: Apache-2.0
"""Which returned value is which: by its value on a problem whose answers are far apart."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping

import numpy as np

from ..call import Call, Kernel, by_name, listed
from ..declaration import OBJECTIVES, VALUES, Declaration
from .attempt import REFUSED, outcome_of
from .problems import Laid, Problem, near

# Sizes to begin with, from small to what kernels with large multiples want.
SIZES = ((16, 128, 64), (128, 128, 128), (128, 512, 256), (256, 1024, 512))


class Unidentified(Exception):
    """No returned value is the loss or a log-probability; the text lists what came back."""


def _candidates(laid: Laid) -> dict[str, np.ndarray]:
    expected = laid.expected()
    if laid.problem.reduction == "none":
        return {
            "logprob": expected["logprob"],
            "nll": -expected["logprob"],
            "entropy": expected["entropy"],
            "lse": expected["lse"],
        }
    return {
        "nll": expected["loss"],
        "logprob": -expected["loss"],
        "entropy": expected["entropy"],
        "lse": expected["lse"],
    }


def _host(kernel: Kernel, value: object) -> np.ndarray | None:
    if kernel.framework.kind(value) is not None:
        return None
    if kernel.framework.name == "torch":
        value = value.detach().float().cpu().numpy()
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return None


def _raw(kernel: Kernel, call: Call) -> object:
    """What the function returns, called without a graph, or with one where it takes nothing else: one that fails in
    scoring alone is hunted, and that is found."""
    try:
        return _called(kernel, call)
    except Exception as failure:
        if kernel.form != "autograd" or outcome_of(kernel, failure).kind == REFUSED:
            raise
    return _called(kernel, call, ("hidden", "weight"))


def _called(kernel: Kernel, call: Call, needing: tuple[str, ...] = ()) -> object:
    arrays = {name: kernel.framework.take(view) for name, view in call.inputs.items()}
    for name in needing:
        arrays[name].requires_grad_()
    result = kernel.signature.call(kernel.function, kernel.values(call, arrays))
    if kernel.form != "pair":
        return result
    return result[0] if len(result) == 2 and isinstance(result[0], Mapping) else result[:-1]


def _starts(kernel: Kernel) -> Iterator[Problem]:
    if not kernel.signature.has("reduction"):
        reductions = ("none", "sum", "mean")  # the call is the same: its answer says which
    else:
        reductions = ("none", "mean", "sum")
    # A function that returns gradients is called with upstream ones.
    gradients = ("grad_hidden", "grad_weight") if kernel.form == "returned" else ()
    for rows, vocab, depth in SIZES:
        for dtype in ("fp32", "bf16", "fp16"):
            for reduction in reductions:
                yield Problem(rows, vocab, depth, dtype, reduction=reduction, gradients=gradients)


def _names(kernel: Kernel, result: object, laid: Laid) -> tuple[list[str | None], dict[str, str]]:
    values = listed(result)
    names: list[str | None] = []
    dtypes: dict[str, str] = {}
    for value in values:
        given = _host(kernel, value)
        name = None
        for candidate, expected in _candidates(laid).items():
            if given is not None and candidate not in names and near(given, expected, laid.problem.dtype):
                name = candidate
                dtypes[name] = kernel.framework.dtype(value)
        names.append(name)
    return names, dtypes


def _named_on(kernel: Kernel, problem: Problem) -> tuple[list[str | None], dict[str, str]]:
    """Names of the values on this problem, and dtypes; nothing where the function does not take it."""
    laid = Laid(problem, (), kernel.declaration.device == "cuda")
    try:
        result = _raw(kernel, laid.call)
    except Exception:  # noqa: BLE001 - another question says what is wrong
        return [], {}
    return _names(kernel, result, laid)


def _with_larger(
    kernel: Kernel, base: Problem, names: list[str | None], dtypes: dict[str, str]
) -> tuple[list[str | None], dict[str, str]]:
    """The names, with those that a larger problem tells besides. A value that a defect makes wrong on the first problem
    has no name there; it may be right where the extents are multiples of the kernel's tiles."""
    for rows, vocab, depth in SIZES[SIZES.index((base.rows, base.vocab, base.depth)) + 1 :]:
        more, of = _named_on(kernel, dataclasses.replace(base, rows=rows, vocab=vocab, depth=depth))
        if len(more) == len(names) and all(old in (None, new) for old, new in zip(names, more)) and more != names:
            return more, of
    return names, dtypes


def _with_reduced(
    kernel: Kernel, base: Problem, names: list[str | None], dtypes: dict[str, str]
) -> tuple[list[str | None], dict[str, str]]:
    """The names, with "logprob_or_loss" for a log-probability that is the loss, and not minus the loss, where reduced."""
    if "logprob" not in names or base.reduction != "none" or not kernel.signature.has("reduction"):
        return names, dtypes
    at = names.index("logprob")
    for reduction in ("mean", "sum"):
        reduced, _ = _named_on(kernel, dataclasses.replace(base, reduction=reduction))
        if len(reduced) == len(names) and reduced[at] is not None:
            break
    else:
        return names, dtypes
    if reduced[at] != "nll":
        return names, dtypes
    told = [*names[:at], "logprob_or_loss", *names[at + 1 :]]
    return told, {"logprob_or_loss" if name == "logprob" else name: dtype for name, dtype in dtypes.items()}


def _described(result: object) -> str:
    return ", ".join(f"{type(v).__name__}{list(getattr(v, 'shape', []))}" for v in listed(result))


def _not_judged(kernel: Kernel, where: str, value: object) -> list[str]:
    """A line on an array that is none of the operator's outputs."""
    if kernel.framework.kind(value) is not None:
        return []
    shape = list(kernel.framework.shape(value))
    what = "it is no log-probability, loss, entropy or lse of the problem tried, and not judged"
    return [f"{where}, of shape {shape}: {what}"]


def _dtypes(kernel: Kernel, problem: Problem, names: list[str | None]) -> dict[str, str]:
    """Dtypes of the named values on this problem; none where the function does not take it."""
    laid = Laid(problem, (), kernel.declaration.device == "cuda")  # it holds the memory that the call reads
    try:
        result = _raw(kernel, laid.call)
    except Exception:  # noqa: BLE001 - another question says what is wrong
        return {}
    values = listed(result)
    return {n: kernel.framework.dtype(v) for n, v in zip(names, values) if n and kernel.framework.kind(v) is None}


def _outputs(kernel: Kernel, base: Problem, names: list[str | None], dtypes: dict[str, str]) -> dict[str, str]:
    """What is declared of dtypes: "hidden" where a value has that of hidden, in each dtype that is taken."""
    seen = {base.dtype: dtypes}
    for dtype in ("fp32", "bf16", "fp16"):
        if dtype != base.dtype:
            seen[dtype] = _dtypes(kernel, dataclasses.replace(base, dtype=dtype), names)
    outputs = {}
    for name in filter(None, names):
        by_input = {dtype: found[name] for dtype, found in seen.items() if name in found}
        if all(dtype == found for dtype, found in by_input.items()) and set(by_input) - {"fp32"}:
            outputs[name] = "hidden"
        elif dtypes[name] != "fp32":
            outputs[name] = dtypes[name]
    return outputs


@dataclasses.dataclass(frozen=True)
class Identified:
    """A declaration with `returns` and `outputs`, and a problem that the function takes."""

    declaration: Declaration
    base: Problem
    not_judged: tuple[str, ...] = ()  # arrays that came back and have no name, a line each


def _mapped(kernel: Kernel, problem: Problem, values: Mapping[str, object]) -> Identified:
    """What is known of a function that names its values itself. Raises Unidentified if none is what every kernel
    returns."""
    if not set(OBJECTIVES) & set(values):
        raise Unidentified(
            f"it returned values named {', '.join(map(str, values)) or 'nothing'}: none is logprob, nll or loss; "
            "a function of two lines around it gives them these names"
        )
    others = [(name, value) for name, value in values.items() if name not in VALUES]
    not_judged = [line for name, value in others for line in _not_judged(kernel, f"returned {name!r}", value)]
    return Identified(kernel.declaration, problem, tuple(not_judged))


def _declared(kernel: Kernel, problem: Problem, result: object) -> Identified:
    """What is known of a function whose declaration names its values: also the dtypes that it leaves out."""
    names, values = list(kernel.declaration.returns or ()), listed(result)
    known = {n: kernel.framework.dtype(v) for n, v in zip(names, values) if n and kernel.framework.kind(v) is None}
    judged = [name if name in known else None for name in names]
    outputs = _outputs(kernel, problem, judged, known) | dict(kernel.declaration.outputs)
    return Identified(dataclasses.replace(kernel.declaration, outputs=outputs), problem)


def _hint(kernel: Kernel) -> str:
    """What to do about a kernel for GPUs where there is none."""
    triton = sys.modules.get("triton")
    if kernel.framework.name != "torch" or triton is None or kernel.framework.has_gpu():
        return ""
    if os.environ.get("TRITON_INTERPRET") == "1":
        return "; PyTorch sees no GPU here, and Triton's interpreter runs on CPU tensors alone"
    return "; PyTorch sees no GPU here: with TRITON_INTERPRET=1 in the environment Triton's kernels run on CPU tensors"


def identify(kernel: Kernel) -> Identified:
    """Finds sizes and a dtype that the function takes, and names what it returns. Raises Unidentified."""
    refusals: list[str] = []
    came_back: list[str] = []
    for problem in _starts(kernel):
        laid = Laid(problem, (), kernel.declaration.device == "cuda")
        try:
            result = _raw(kernel, laid.call)
        except Exception as failure:  # noqa: BLE001
            outcome = outcome_of(kernel, failure)
            verb = "refused" if outcome.kind == REFUSED else "failed on"
            refusals.append(
                f"{verb} N={problem.rows} V={problem.vocab} H={problem.depth} {problem.dtype} "
                f"{problem.reduction}: {outcome.words}"
            )
            continue
        named = by_name(result)
        if named is not None and not isinstance(result, tuple):  # values of a named tuple are told by value
            return _mapped(kernel, problem, named)
        if kernel.declaration.returns:
            return _declared(kernel, problem, result)
        names, dtypes = _names(kernel, result, laid)
        if "logprob" not in names and "nll" not in names:
            came_back.append(f"{_described(result)} for reduction {problem.reduction}")
            continue
        if None in names:
            names, dtypes = _with_larger(kernel, problem, names, dtypes)
        names, dtypes = _with_reduced(kernel, problem, names, dtypes)
        outputs = _outputs(kernel, problem, names, dtypes)
        declared = dataclasses.replace(kernel.declaration, returns=tuple(names), outputs=outputs)
        lines = [
            line
            for i, (name, value) in enumerate(zip(names, listed(result)))
            if name is None
            for line in _not_judged(kernel, f"returned value {i + 1} of {len(names)}", value)
        ]
        return Identified(declared, problem, tuple(lines))
    if came_back:
        raise Unidentified(
            f"no returned value is a log-probability or a loss; it returned {came_back[0]}. "
            "Name the values: @plumbline.target(returns=('nll', None))"
        )
    # A refusal, as of a reduction, hides why the problems that it does not refuse fail.
    told = next((each for each in refusals if each.startswith("failed")), refusals[0])
    raise Unidentified(f"it takes none of the problems tried; {told}{_hint(kernel)}")
