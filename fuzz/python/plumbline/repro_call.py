# SPDX-License-Identifier: Apache-2.0
"""The text by which a reproducing script calls the function as its form says (plumbline/call.py)."""

from __future__ import annotations

import os
import site
import textwrap
from collections.abc import Mapping

from . import graph_checks, loading, naming, pickled
from .call import Kernel
from .declaration import OBJECTIVES
from .findings import Finding
from .repro_problem import WIDTH, Array
from .signature import Signature, is_module
from .stored import Case

_DTYPES = {
    "torch": {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32", "int32": "torch.int32",
              "int64": "torch.int64"},
    "numpy": {"bf16": "ml_dtypes.bfloat16", "fp16": "np.float16", "fp32": "np.float32", "int32": "np.int32",
              "int64": "np.int64"},
}
_DTYPES["jax"] = _DTYPES["numpy"]


def kernel_of(finding: Finding) -> tuple[Kernel, naming.Place | None]:
    """The function of a finding, bound, and where it is defined. Raises ValueError where the target is not Python's, and what its
    import raises."""
    function = finding.function
    if function is None and not finding.target.startswith("python:"):
        raise ValueError(f"{finding.target}: only Python targets have scripts; `{finding.again}` shows the finding")
    name = finding.target.partition("@")[0].removeprefix("python:")
    if function is None or isinstance(function, str):
        function = loading.find(name)
        module, _, qualname = name.partition(":")
        file = loading.source_file(function)
        place = None if module == pickled.__name__ else naming.Place(module, qualname, file)
    else:
        place = naming.place_of(function)
    kernel = loading.bound(name, function)
    declared = kernel.declaration
    # What a script needs of a declaration is how the function is called, not what it can do.
    if declared.found and declared.returns is None and declared.form is None:
        from .probing.found import ProbeError, declaration_found

        try:
            kernel.declaration, _, _ = declaration_found(kernel)
        except ProbeError as error:
            raise RuntimeError(f"{name}: {error}") from error
    return kernel, place


def import_lines(place: naming.Place | None, function: object) -> list[str]:
    """Lines after which `kernel` is the function; a class whose instances compute is made where that is one of these."""
    if place is None:
        return [
            "# The function had no name that another process finds: a lambda, or defined inside another function.",
            "# Put it here, under the name `kernel`.",
            'raise SystemExit("put the function into this script, under the name kernel")',
        ]
    lines = []
    packages = [*site.getsitepackages(), site.getusersitepackages()]
    if place.module and place.file and not any(place.file.startswith(p + os.sep) for p in packages):
        folder = os.path.dirname(os.path.abspath(place.file))
        parts = place.module.split(".")
        is_package = os.path.basename(place.file) == "__init__.py"
        for _ in range(len(parts) - (0 if is_package else 1)):
            folder = os.path.dirname(folder)
        lines.append(f"sys.path.insert(0, {folder!r})  # where {place.module} was; not needed once it is installed")
    if not place.module:
        top, _, rest = place.qualname.partition(".")
        found = f'runpy.run_path({place.file!r}, run_name="not_main")[{top!r}]'
        lines.append(f"kernel = {found}" + (f".{rest}" if rest else ""))
    elif "." in place.qualname:
        top = place.qualname.partition(".")[0]
        lines += [f"from {place.module} import {top}  # noqa: E402", f"kernel = {place.qualname}"]
    else:
        lines.append(f"from {place.module} import {place.qualname} as kernel  # noqa: E402")
    if is_module(function):
        lines.append("kernel = kernel() if isinstance(kernel, type) else kernel")
    return lines


def _arguments(bound: Signature, values: Mapping[str, str]) -> str:
    positional = [values[role] for role in bound.by_position]
    named = [f"{n}={values[r]}" for r, n in bound.names.items() if r not in bound.by_position and r in values]
    return ", ".join([*positional, *named])


def _values(kernel: Kernel, case: Case, given: Mapping[str, Array]) -> dict[str, str]:
    """Expressions of the arguments by role, as Kernel.values has them."""
    values = {name: name for name in ("hidden", "weight", "labels")}
    values |= {"ignore_index": "IGNORE_INDEX", "reduction": "REDUCTION"}
    if "temperature" in given:
        values["temperature"] = "temperature"
    elif "temperature" in kernel.signature.by_position or kernel.form == "pair":
        values["temperature"] = "1.0"
    for name in ("grad_logprob", "grad_entropy"):
        if kernel.form in ("returned", "pair"):
            values[name] = name if name in given else "None"
        elif name in given:
            values[name] = name
    return values


def input_lines(given: Mapping[str, Array], framework: str) -> list[str]:
    """Lines that build the inputs."""
    lines = []
    names = {"hidden": "HIDDEN", "weight": "WEIGHT", "labels": "LABELS", "temperature": "T",
             "grad_logprob": "GRAD_LOGPROB", "grad_entropy": "GRAD_ENTROPY"}
    shapes = {"hidden": "(N, H)", "weight": "(V, H)"}
    for name, array in given.items():
        if name == "temperature" and not array.shape:
            lines.append(f"temperature = {array.values[0]!r}")
            continue
        values = names[name] if array.shape else "[GRAD_LOSS]"
        shape = shapes.get(name, "(N,)") if array.shape else "()"
        more = ""
        if array.strides is not None and framework != "jax":
            more = f", {array.strides}" + (f", {array.offset}" if array.offset else "")
        text = f"place({values}, {shape}, {_DTYPES[framework][array.dtype]}{more})"
        lines.append(f"{name} = jnp.asarray({text})" if framework == "jax" else f"{name} = {text}")
    return lines


def _by_name(kernel: Kernel, case: Case) -> list[str]:
    """The body of by_name(result)."""
    returns, reduced = kernel.declaration.returns, case.reduction != "none"
    if returns:
        lines = ["values = result if isinstance(result, (tuple, list)) else [result]"]
        lines += [f"found = dict(zip({tuple(returns)!r}, values))"]
        names = set(returns)
    else:
        lines = ["found = result._asdict() if hasattr(result, '_asdict') else result"]
        lines += ["found = dict(vars(found) if hasattr(found, '__dataclass_fields__') else found)"]
        names = set(OBJECTIVES)
    lines.append("found = {name: value for name, value in found.items() if name is not None and value is not None}")
    if reduced and "nll" in names:
        lines += ['if "nll" in found:', '    found["loss"] = found.pop("nll")']
    if reduced and "logprob" in names:
        lines += ['if "logprob" in found:  # of a reduced call: minus the loss']
        lines += ['    found["loss"] = -found.pop("logprob")']
    if "logprob_or_loss" in names:
        lines += ['if "logprob_or_loss" in found:']
        lines += [f'    found[{"loss" if reduced else "logprob"!r}] = found.pop("logprob_or_loss")']
    for name in ("nll", "loss") if not reduced else ():
        if name in names:
            lines += [f'if "{name}" in found:', f'    found["logprob"] = -found.pop("{name}")']
    return [*lines, "return found"]


def graph_check(kernel: Kernel, what: str) -> tuple[str, str]:
    """Which further check of a graph (plumbline/graph_checks.py) a finding's words are of, and of which value; else ("", "")."""
    if kernel.form != "autograd":
        return "", ""
    check, output = graph_checks.said(what)
    return {"after": "twice", "again": "twice"}.get(check, check), output


def _autograd(call: str, gradients: list[str], objective: str, check: str, device: str | None) -> list[str]:
    if not gradients:
        return ["with torch.no_grad():", f"    return by_name(kernel({call}))"]
    inputs = [name.removeprefix("grad_") for name in gradients]
    if check in ("alone", "no_grad"):
        lines = ["for each in needing:", '    {"hidden": hidden, "weight": weight}[each].requires_grad_(True)']
        lines += ["with torch.set_grad_enabled(bool(needing)):", f"    outputs = by_name(kernel({call}))"]
        lines += ["if not needing:", "    return outputs"]
    else:
        lines = [f"{name}.requires_grad_(True)" for name in inputs]
        lines += [f"outputs = by_name(kernel({call}))"]
    lines += [f'pairs = [("{objective}", grad_logprob), ("entropy", grad_entropy)]']
    lines += ["pairs = [(outputs[name], given) for name, given in pairs if name in outputs and given is not None]"]
    lines += [f'pairs = pairs or [(outputs["{objective}"], torch.zeros_like(outputs["{objective}"]))]']
    lines += ["roots, upstream = [a for a, _ in pairs], [b.to(a.dtype) for a, b in pairs]"]
    if device == "cuda":
        # A kernel that is launched by the driver, as those of CuTe are, found no context there: CUDA_ERROR_INVALID_CONTEXT.
        lines += ["(torch.ones((), device=DEVICE, requires_grad=True) * 2).backward()  # the thread of backward gets a context"]
    if check in ("alone", "no_grad"):
        lines += ['found = torch.autograd.grad(roots, [{"hidden": hidden, "weight": weight}[each] for each in needing], upstream)']
        return [*lines, 'return outputs | dict(zip(("grad_" + each for each in needing), found))']
    taken = f"torch.autograd.grad(roots, [{', '.join(inputs)}], upstream"
    if check == "twice":
        lines += [f"found = {taken}, retain_graph=True)", "once = [each.clone() for each in found]", f"again = {taken})"]
        return [*lines, f"return {{name: each for name, *each in zip({gradients!r}, once, found, again)}}"]
    lines += [f"found = {taken})"]
    return [*lines, f"return outputs | dict(zip({gradients!r}, found))"]


def _vjp(call: str, gradients: list[str], objective: str) -> list[str]:
    if not gradients:
        return [f"return by_name(kernel({call}))"]
    lines = ["def forward(hidden, weight):", f"    return by_name(kernel({call}))", ""]
    lines += ["outputs, pull_back = jax.vjp(forward, hidden, weight)"]
    lines += ["upstream = {name: jnp.zeros_like(value) for name, value in outputs.items()}"]
    for name, given in ((objective, "grad_logprob"), ("entropy", "grad_entropy")):
        lines += [f'if "{name}" in outputs and {given} is not None:']
        lines += [f'    upstream["{name}"] = {given}.astype(outputs["{name}"].dtype)']
    lines += ["grad_hidden, grad_weight = pull_back(upstream)"]
    return [*lines, 'return outputs | {"grad_hidden": grad_hidden, "grad_weight": grad_weight}']


def _pair(kernel: Kernel, call: str, gradients: list[str], values: Mapping[str, str], pick: str) -> list[str]:
    lines = [f"forward, backward = {pick}", f"*values, saved = forward({call})"]
    lines += ["outputs = by_name(values[0] if isinstance(values[0], dict) else values)"]
    if gradients:
        backward = _arguments(kernel._backward_signature, dict(values) | {"saved": "saved"})
        lines += [f"gradients = backward({backward})"]
        lines += ["if not isinstance(gradients, dict):"]
        lines += ['    gradients = dict(zip(("grad_hidden", "grad_weight"), gradients))']
        lines += ["outputs |= gradients"]
    return [*lines, "return outputs"]


def _broken(line: str, call: str) -> list[str]:
    """The line; if it is too long, with the arguments of the call on lines of their own."""
    if len(line) + 4 <= WIDTH or f"({call})" not in line:
        return [line]
    before, _, after = line.partition(f"({call})")
    indent = " " * (len(line) - len(line.lstrip()))
    arguments = textwrap.wrap(call + ",", WIDTH - len(indent) - 8)
    return [f"{before}(", *(f"{indent}    {part}" for part in arguments), f"{indent}){after}"]


def call_lines(
    kernel: Kernel, case: Case, given: Mapping[str, Array], function: object, check: str = ""
) -> list[str]:  # fmt: skip
    """The functions by_name(result) and call() of the script. With a check of a graph, call() returns what that compares:
    each gradient, itself after a second backward, and that one's; or it takes the inputs that need a gradient."""
    values = _values(kernel, case, given)
    call = _arguments(kernel.signature, values)
    gradients = [name for name in ("grad_hidden", "grad_weight") if case.wanted.get(name)]
    objective = "logprob" if case.reduction == "none" else "loss"
    if kernel.form == "pair":
        pick = "kernel" if isinstance(function, (tuple, list)) else "kernel.forward, kernel.backward"
        body = _pair(kernel, call, gradients, values, pick)
    elif kernel.form == "autograd":
        body = _autograd(call, gradients, objective, check, kernel.declaration.device)
    elif kernel.form == "vjp":
        body = _vjp(call, gradients, objective)
    else:
        body = [f"return by_name(kernel({call}))"]
    body = [part for line in body for part in _broken(line, call)]
    absent = [f"{name} = None" for name in ("grad_logprob", "grad_entropy") if name not in given]
    absent = absent if kernel.form in ("autograd", "vjp") and gradients else []
    inputs = input_lines(given, kernel.framework.name)
    lines = ["def by_name(result):", '    """What came back, by the operator\'s names."""']
    lines += ["    " + line for line in _by_name(kernel, case)]
    needing = tuple(name.removeprefix("grad_") for name in gradients)
    head = f"def call(needing={needing!r}):" if check in ("alone", "no_grad") else "def call():"
    lines += ["", "", head, '    """One call on fresh copies of the inputs."""']
    return lines + [("    " + line).rstrip() for line in [*inputs, *absent, *body]]
