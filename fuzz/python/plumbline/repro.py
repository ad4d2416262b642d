# SPDX-License-Identifier: Apache-2.0
"""A finding as a script that needs nothing of plumbline, and as a report in Markdown."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
import textwrap

from . import graph_checks, repro_call, repro_problem, repro_text
from .call import Kernel
from .declaration import OBJECTIVES
from .findings import Finding
from .naming import Place, version_of
from .stored import Case

_OUTPUTS = ("logprob", "entropy", "lse", "loss", "grad_hidden", "grad_weight")

# Kinds of findings that a script does not show: values of one problem do not tell.
_NOT_SHOWN = ("relation", "consistency", "guard-band", "batch-variant")

# What a script cannot show of each kind of finding, or how it looks for it.
_NOTES = {
    "relation": "The finding is a relation to another problem, which is not in this script: the bits of the two must "
    "be the same. What is printed below are values of the stored problem alone; `plumb replay` shows the relation.",
    "consistency": "The finding is that outputs contradict each other, by sums that this script does not form; `plumb "
    "replay` does. What is printed below are the values, each of which may be within its own bound.",
    "guard-band": "The finding is a write outside the outputs. Nothing here looks at memory beside them; `plumb replay` "
    "does. A debugger or compute-sanitizer on this script may show it as well.",
    "unwritten": "The finding is an element that was never written. It holds whatever its memory held before: run the "
    "script several times, or under MALLOC_PERTURB_=85.",
    "crash": "The finding is the death of the process: this script dies where it calls the function.",
    "hang": "The finding is a call that does not return: this script does not end.",
    "status": "The finding is an exception, or a value of another shape or dtype than is required.",
    "nondeterministic": "The finding is a result that differs from run to run: the function is called 200 times.",
    "batch-variant": "The finding is a row whose bits depend on the rows beside it, which this script does not call "
    "alone; `plumb replay` does. What is printed below are values of the whole problem.",
    "input-written": "The finding is an input that the function writes to: the inputs are compared before and after.",
}


def _versions(kernel: Kernel | None, place: Place | None) -> list[str]:
    found = [f"Python {platform.python_version()}"]
    if kernel is not None:
        name = kernel.framework.name
        found.append(f"{name} {importlib.metadata.version(name)}")
    if place is not None and place.module:
        package = version_of(place.module) or f"{place.module}, of no installed package"
        found.append(package)
    return [*found, platform.platform(terse=True), platform.machine()]


def _title(finding: Finding, place: Place | None) -> str:
    name = place.qualname if place is not None else finding.target.removeprefix("python:")
    return f"{name}: {finding.what}"


def _elements(finding: Finding, case: Case) -> list[tuple[int, int]]:
    """The failing element and those beside it."""
    rows, vocab, hidden = case.shape
    row, column = max(finding.row, 0), max(finding.column, 0)
    if finding.output == "loss":
        return [(0, 0)]
    last = (vocab if finding.output == "grad_weight" else rows) - 1
    near = {(i, column) for i in range(row - 1, row + 2)}
    if finding.output.startswith("grad_"):
        near |= {(row, j) for j in range(column - 1, column + 2)}
        return sorted((i, j) for i, j in near if 0 <= i <= last and 0 <= j < hidden)
    return sorted((i, 0) for i, _ in near if 0 <= i <= last)


def _wrong(finding: Finding) -> str:
    """The expression by which the script judges its element."""
    if finding.kind == "sign":
        beyond = "got > 0" if finding.output == "logprob" else "got < 0"
        return f"lambda got, true: differs(got, true) or {beyond}"
    if finding.kind == "not-zero":
        return 'lambda got, true: repr(got) != "0.0"  # exactly +0 is required'
    if finding.kind in _NOT_SHOWN:
        return "lambda got, true: None  # see the top: the element's value is not what is wrong"
    return "differs"


def _required(finding: Finding, kernel: Kernel, case: Case) -> list[str]:
    """Lines that compare shapes and dtypes: of a finding `status`."""
    rows, vocab, hidden = case.shape
    shapes = {"logprob": (rows,), "entropy": (rows,), "lse": (rows,), "loss": (), "grad_hidden": (rows, hidden),
              "grad_weight": (vocab, hidden)}
    asked = ["loss" if case.reduction != "none" else "logprob"]
    declared = kernel.declaration
    lacks = {name for name, has in declared.capabilities.items() if has is False}
    if declared.returns is not None:
        lacks |= {"entropy", "lse"} - set(declared.returns)
    asked += [name for name in ("entropy", "lse", "grad_hidden", "grad_weight") if case.wanted.get(name) and name not in lacks]
    spelt = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
    of_input = spelt[case.tensors["hidden"].dtype]
    dtypes = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "hidden": of_input}
    table = {}
    for name in asked:
        also = {"loss": ("loss", *OBJECTIVES), "logprob": OBJECTIVES}.get(name, (name,))
        given = next((declared.outputs[n] for n in also if n in declared.outputs), None)
        plain = of_input if name.startswith("grad_") else "float32"
        table[name] = (shapes[name], dtypes.get(given, given) if given else plain)
    lines = [f"required = {table!r}", "for name, (shape, dtype) in required.items():"]
    lines += ["    if name not in outputs:", '        sys.exit(f"{name} was asked for and did not come back")']
    lines += ["    found = tuple(outputs[name].shape), str(outputs[name].dtype).removeprefix('torch.')"]
    lines += ["    if found != (shape, dtype):"]
    lines += ['        sys.exit(f"{name} has shape and dtype {found} where {(shape, dtype)} is required")']
    lines += [f'print("the call returned what was asked for; plumb saw: " + {finding.what!r})', "wrong = False"]
    return lines


def _compared(check: str, name: str) -> list[str]:
    """Lines that compare the bits of what a check of the graph compares."""
    words = graph_checks.WORDS
    if check == "twice":
        lines = [f"once, after, again = call()[{name!r}]"]
        lines += [f"pairs = {{{words['after']!r}: after,", f"         {words['again']!r}: again}}"]
    else:
        alone = f'("{name.removeprefix("grad_")}",)' if check == "alone" else "()"
        lines = [f"once, again = call()[{name!r}], call({alone})[{name!r}]"]
        lines += [f"pairs = {{{words[check]!r}: again}}"]
    lines += ["wrong = False", "for what, other in pairs.items():"]
    lines += ["    a, b = (each.detach().contiguous().flatten() for each in (once, other))"]
    lines += ["    differ = (a.view(torch.uint8) != b.view(torch.uint8)).reshape(a.numel(), -1).any(1).nonzero().flatten().tolist()"]
    lines += ["    wrong = wrong or differ != []", "    for at in differ[:5]:"]
    lines += [f'        print(f"{{what}}: element {{at}} of {name} is {{float(b[at])!r}}, and {{float(a[at])!r}} before")']
    once_more = f"call()[{name!r}]" + ("[0]" if check == "twice" else "")
    lines += ["if wrong:", f"    a, b = (each.detach().contiguous().view(torch.uint8) for each in (once, {once_more}))"]
    lines += ["    if (a != b).any():"]
    return [*lines, '        print("two calls on the same inputs differ, too: `plumb replay` tells the one from the other")', "        sys.exit(2)"]


def _main(finding: Finding, kernel: Kernel, case: Case) -> list[str]:
    check, name = repro_call.graph_check(kernel, finding.what)
    if check:
        return [*_compared(check, name), "sys.exit(1 if wrong else 0)"]
    lines = ["outputs = call()"]
    if finding.kind == "nondeterministic" and finding.output in _OUTPUTS:
        lines += [f'first = {{element(outputs, "{finding.output}", i, j) for i, j in ELEMENTS[:1]}}']
        lines += ["for _ in range(199):"]
        lines += [f'    first |= {{element(call(), "{finding.output}", i, j) for i, j in ELEMENTS[:1]}}']
        lines += ['print(f"values of 200 calls: {sorted(first)}")', "show(outputs)", "wrong = len(first) > 1"]
    elif finding.kind == "input-written":
        lines += ["wrong = WRITTEN != []", 'print(f"inputs that were written to: {WRITTEN}")']
    elif finding.kind == "status" or finding.output not in _OUTPUTS:
        lines += _required(finding, kernel, case)
    else:
        lines += ["wrong = show(outputs)"]
    if finding.kind in _NOT_SHOWN:
        return [*lines, "sys.exit(2)"]
    return [*lines, "sys.exit(1 if wrong else 0)"]


def _place_text(framework: str, strided: bool) -> str:
    if not strided:
        return repro_text.TORCH_PLACE if framework == "torch" else repro_text.NUMPY_PLACE
    if framework == "torch":
        return repro_text.TORCH_RESERVED + "\n\n" + repro_text.STRIDED_PLACE.format(
            what="A tensor", fill="torch.tensor", dtype="dtype=dtype, device=DEVICE",
            full="torch.full((size,), around, dtype=dtype, device=DEVICE)",
            empty="reserved(size, dtype)", view=repro_text.TORCH_VIEW,
        )
    return repro_text.NUMPY_RESERVED + "\n\n" + repro_text.STRIDED_PLACE.format(
        what="An array", fill="np.array", dtype="dtype", full="np.full(size, around, dtype)", empty="reserved(size, dtype)",
        view=repro_text.NUMPY_VIEW,
    )


def _imports(framework: str, given: dict[str, repro_problem.Array], strided: bool, script: bool) -> list[str]:
    names = ["functools", "sys"] + (["itertools", "math", "mmap"] if strided else []) + (["runpy"] if script else [])
    lines = [f"import {name}" for name in sorted(names)] + ["from math import inf, nan  # noqa: F401", ""]
    if framework == "jax":
        lines += ["import jax", "import jax.numpy as jnp"]
    if framework != "torch" and given["hidden"].dtype == "bf16":
        lines.append("import ml_dtypes")
    lines += ["import numpy as np"] if framework != "torch" else []
    lines += ["from mpmath import exp, fsum, isinf, isnan, log, mp, mpf"]
    return lines + (["import torch"] if framework == "torch" else [])


def _no_tensors(finding: Finding, case: Case) -> str:
    lines = [f'"""{_title(finding, None)}', "", "The case is too large for a script: it is stored as the recipe below."]
    lines += [f"Run `plumb replay {shlex.quote(str(case.path))}`.", '"""', "", "import sys", "", f"RECIPE = {finding.recipe!r}"]
    lines += ['sys.stderr.write("nothing was run: see the top of this file\\n")', "sys.exit(2)  # 1 says that the finding shows"]
    return "\n".join(lines) + "\n"


def _header(finding: Finding, versions: list[str], left_out: list[str]) -> list[str]:
    text = [finding.what]
    if finding.suspect:
        text.append("It is suspect: beyond what is assumed where a contract leaves keys out, within what is declared.")
    text += [f"needs: {line}" for line in finding.explanation]
    if finding.kind in _NOTES:
        text += ["", _NOTES[finding.kind]]
    text += [f"Not expressed: {line}." for line in left_out]
    status = "1 if it is wrong still, 0 if not"
    if finding.kind in _NOT_SHOWN:
        status = "2: whether it is wrong still, `plumb replay` says"
    text += ["", f"Seen with {', '.join(versions)}.", f"Exit status: {status}. Needs mpmath."]
    lines = [part for line in text for part in (textwrap.wrap(line, repro_problem.WIDTH) or [""])]
    lines = [line.replace("\\", "\\\\").replace('"""', "'''") for line in lines]
    return [f'"""{lines[0]}', *lines[1:], '"""', ""]


def _input_checks(lines: list[str], framework: str, given: dict[str, repro_problem.Array]) -> list[str]:
    """call() with a comparison of the inputs before and after."""
    names = [name for name, array in given.items() if array.shape]
    copy = "{0}.detach().clone()" if framework == "torch" else "np.array({0})"
    before = "    before = {" + ", ".join(f'"{n}": ({n}, {copy.format(n)})' for n in names) + "}"
    same = "bytes(bits(a)) == bytes(bits(b))"
    bits = "np.array(a).tobytes()"
    if framework == "torch":
        bits = "a.detach().contiguous().flatten().view(torch.uint8).tolist()"
    at = next(i for i, line in enumerate(lines) if line.startswith("    ") and " = place(" in line)
    while at < len(lines) and ("= place(" in lines[at] or lines[at].startswith("    temperature = ")):
        at += 1
    end = next(i for i in range(len(lines) - 1, -1, -1) if lines[i].strip().startswith("return "))
    indent = lines[end][: len(lines[end]) - len(lines[end].lstrip())]
    result = lines[end].strip().removeprefix("return ")
    tail = [f"{indent}outputs = {result}", f"    WRITTEN.extend(name for name, (a, b) in before.items() if not ({same}))"]
    head = ["WRITTEN = []", "", "", "def bits(a):", '    """The bytes of an array."""', f"    return {bits}", "", ""]
    return [*head, *lines[:at], before, *lines[at:end], *tail, "    return outputs"]


def repro_script(finding: Finding) -> str:
    """A script that calls the function on the stored case and compares with the definition.

    It imports the function, its array library and mpmath alone. Raises FileNotFoundError if the finding
    was not stored, ValueError if the target is not Python's, and what importing the function raises.
    """
    case = finding.case()
    if not case.tensors:
        return _no_tensors(finding, case)
    kernel, place = repro_call.kernel_of(finding)
    framework = kernel.framework.name
    given, left_out = repro_problem.arrays(case)
    strided = framework != "jax" and any(array.strides is not None for array in given.values())
    if framework == "jax" and any(array.strides is not None for array in given.values()):
        left_out.append("strides of the inputs, which JAX's arrays do not have")
    output = finding.output if finding.output in _OUTPUTS else "loss" if case.reduction != "none" else "logprob"
    row, column = max(finding.row, 0), max(finding.column, 0)
    lines = _header(finding, _versions(kernel, place), left_out)
    lines += _imports(framework, given, strided, place is not None and not place.module)
    lines += ["", *repro_call.import_lines(place, kernel.function), "", "mp.prec = 1280  # bits", *repro_problem.constants(case, given)]
    lines += [f"DEVICE = {kernel.declaration.device!r}"] if framework == "torch" else []
    lines += [f"OUTPUT, ROW, COLUMN = {output!r}, {row}, {column}"]
    lines += [f"BOUND = {finding.bound!r}  # the largest error that the declared arithmetic allows"]
    lines += [f"ELEMENTS = {_elements(finding, case)!r}"]
    lines += [f"REFERENCE = {('torch' if framework == 'torch' else 'NumPy') + ' float64'!r}", "", ""]
    definition = repro_text.BACKWARD if output.startswith("grad_") else repro_text.FORWARD
    lines += ["# The definition. All of it is exact but for rounding to 1280 bits.", *repro_text.ROWS.splitlines()]
    lines += ["", "", *definition.splitlines()]
    reference = repro_text.TORCH_REFERENCE if framework == "torch" else repro_text.NUMPY_REFERENCE
    lines += ["", "", *reference.splitlines(), "", ""]
    lines += ["# The call.", *_place_text(framework, strided).splitlines(), "", ""]
    check, _ = repro_call.graph_check(kernel, finding.what)
    call = repro_call.call_lines(kernel, case, given, finding.function, check)
    lines += _input_checks(call, framework, given) if finding.kind == "input-written" else call
    lines += ["", "", *repro_text.SHOW.splitlines(), "", "", f"WRONG = {_wrong(finding)}"]
    main = _main(finding, kernel, case)
    lines += ["if __name__ == \"__main__\":", *("    " + line for line in main)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def bug_report(finding: Finding) -> str:
    """A report in Markdown: what is wrong, where, how to see it."""
    case = finding.case()
    kernel, place = repro_call.kernel_of(finding) if case.tensors else (None, None)
    lines = [f"# {_title(finding, place)}", "", f"**What is wrong:** {finding.what}", ""]
    lines += [f"* {version}" for version in _versions(kernel, place)]
    lines += ["", "| | |", "|---|---|", f"| got | `{finding.got!r}` |", f"| expected | `{finding.expected!r}` |"]
    lines += [f"| exact, to 40 digits | `{finding.arbiter}` |"] if finding.arbiter else []
    lines += [f"| allowed error | `{finding.bound!r}` |"] if finding.kind in ("bound", "sign") else []
    lines += [f"| repeats | {finding.repeats} |"] if finding.repeats else []
    if case.tensors:
        rows, vocab, hidden = case.shape
        dtype = repro_problem.arrays(case)[0]["hidden"].dtype
        lines.append(f"| problem | N = {rows}, V = {vocab}, H = {hidden}, {dtype}, reduction {case.reduction} |")
    if finding.explanation:
        lines += ["", "What it needs, found by changing one thing at a time:", ""]
        lines += [f"* {line}" for line in finding.explanation]
    lines += ["", f"Also seen: {', '.join(f'`{s}`' for s in finding.also)}."] if finding.also else []
    lines += ["", f"The case was drawn to try this: {finding.why}."] if finding.why else []
    shows = "shows it"
    if finding.kind in _NOT_SHOWN:
        shows = "calls the function on the stored problem. It does not show the finding, which `plumb replay` does"
    lines += ["", f"This script {shows}. It needs mpmath and nothing of the harness that found it:", ""]
    return "\n".join([*lines, "```python", repro_script(finding).rstrip(), "```"]) + "\n"
