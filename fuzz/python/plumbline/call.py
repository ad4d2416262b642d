# SPDX-License-Identifier: Apache-2.0
"""One call of a function as the operator: its forms, what it returns, and the checks of that."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import signature
from .declaration import OBJECTIVES, VALUES, Declaration
from .frameworks import Framework
from .views import View


def by_name(result: Any) -> Mapping[str, Any] | None:
    """What a function returns, if its values have names: of a mapping, a named tuple or a dataclass."""
    if isinstance(result, Mapping):
        return result
    if hasattr(result, "_asdict"):
        return result._asdict()
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    return None


def listed(result: Any) -> list[Any]:
    """What a function returns, in order."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


class Misfit(Exception):
    """A returned value that is not what was declared; the text says which and how."""


class Missing(Misfit):
    """An output that was asked for did not come back."""


def no_gradient(name: str) -> str:
    """The words on a graph that does not reach the input of the gradient `name`."""
    return f"no gradient reaches {name.removeprefix('grad_')}; where none is meant to, declare {name}=False"


@dataclasses.dataclass(frozen=True)
class Call:
    """What the harness asks for: views of inputs, scalars, and the outputs' dtypes and shapes."""

    inputs: Mapping[str, View]  # those that are present
    results: Mapping[str, View]  # those that are asked for
    ignore_index: int
    reduction: str

    @property
    def rows(self) -> int:
        return self.inputs["hidden"].shape[0]

    def gradients(self) -> tuple[str, ...]:
        return tuple(name for name in ("grad_hidden", "grad_weight") if name in self.results)


@dataclasses.dataclass(frozen=True)
class Returned:
    """One returned value: what to copy, and whether with the other sign."""

    value: Any
    negate: bool = False


# Checks of functions whose outputs carry a graph; autograd.py says what each is.
FURTHER_CHECKS = ("twice", "frozen", "no_grad")
ALL_CHECKS_UP_TO = 4  # rows
FIRST_POISON = b"\xf5\xff"  # what outputs hold before the first run: fuzz/examine/placement.cc


class Kernel:
    """A function that has been bound to the operator's arguments."""

    name = ""  # MODULE:FUNCTION
    file = ""  # that defines it
    cannot_show: Sequence[str] = ()

    def __init__(self, function: Any, declaration: Declaration, framework: Framework) -> None:
        self.declaration = declaration
        self.checks = declaration.capabilities.get("deterministic", True)
        self._calls = 0
        self.framework = framework
        self.form = declaration.form or _form_of(function, declaration, framework)
        if self.form == "pair":
            self.function, self._backward = _pair(function)
            self._backward_signature = signature.read(
                self._backward, declaration.arguments, ("saved",)
            )
        else:
            self.function = function
        if not callable(self.function):
            raise TypeError(f"{function!r} cannot be called, and is no pair (forward, backward)")
        self.signature = signature.read(self.function, declaration.arguments)

    def __call__(self, call: Call) -> dict[str, Returned]:
        """Runs the function and returns its values by the operator's names, checked."""
        arrays = {name: self.framework.take(view) for name, view in call.inputs.items()}
        values = self.values(call, arrays)
        if self.form in ("returned", "forward"):
            named = self.named(self.signature.call(self.function, values), call.reduction)
        elif self.form == "pair":
            named = self._call_pair(call, values)
        elif self.form == "vjp":
            from .vjp import call_vjp

            named = call_vjp(self, call, values)
        else:
            from .autograd import call_autograd

            named = call_autograd(self, call, values)
        self._check(call, named)
        return named

    def further_checks(self, call: Call) -> tuple[str, ...]:
        """The checks of the graph that this call makes: none but in the first of the two runs of a case."""
        if not self.checks or not self._is_first_run(call):
            return ()
        if call.rows <= ALL_CHECKS_UP_TO:
            return FURTHER_CHECKS
        extents = call.rows + call.inputs["weight"].shape[0] + call.inputs["weight"].shape[1]
        return (FURTHER_CHECKS[extents % len(FURTHER_CHECKS)],)

    def _is_first_run(self, call: Call) -> bool:
        """True over the harness's first poison, in host memory; on a device the poisons are alike, so that
        every other call is taken for a first one."""
        view = next((v for v in call.results.values() if v.elements), None)
        if view is None or view.device is not None:
            self._calls += 1
            return self._calls % 2 == 1
        return ctypes.string_at(view.address, 2) == FIRST_POISON

    def values(self, call: Call, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by role."""
        values = {name: arrays[name] for name in signature.REQUIRED}
        values |= {"ignore_index": call.ignore_index, "reduction": call.reduction}
        temperature = call.inputs.get("temperature")
        if temperature is None:
            if "temperature" in self.signature.by_position or self.form == "pair":
                values["temperature"] = 1.0
        else:
            given = arrays["temperature"]
            values["temperature"] = given if temperature.shape else float(given)
        if self.form in ("returned", "pair"):
            for name in ("grad_logprob", "grad_entropy"):
                values[name] = arrays.get(name)
        else:
            values |= {name: arrays[name] for name in ("grad_logprob", "grad_entropy") if name in arrays}
        return values

    def named(self, result: Any, reduction: str) -> dict[str, Returned]:
        """Returned values by the operator's names."""
        names_itself = by_name(result)
        if names_itself is not None and (isinstance(result, Mapping) or not self.declaration.returns):
            pairs = list(names_itself.items())
        else:
            sequence = listed(result)
            names = self.declaration.returns
            if names is None:
                raise Misfit(
                    f"{len(sequence)} value(s) came back, and nothing says which: "
                    "@plumbline.target(returns=('logprob', 'entropy')) names them"
                )
            if len(sequence) != len(names):
                raise Misfit(f"{len(sequence)} value(s) came back where {', '.join(map(str, names))} are declared")
            pairs = list(zip(names, sequence))
        reduced = reduction != "none"
        found = {}
        for name, value in pairs:
            if name not in VALUES or value is None:
                continue  # metrics, say
            negate = name == "logprob" if reduced else name in ("nll", "loss")
            if name in OBJECTIVES:
                name = "loss" if reduced else "logprob"
            found[name] = Returned(value, negate)
        return found

    def _call_pair(self, call: Call, values: dict[str, Any]) -> dict[str, Returned]:
        result = self.signature.call(self.function, values)
        if not isinstance(result, tuple) or len(result) < 2:
            raise Misfit("forward of a pair returns its outputs and, last, what backward needs")
        *outputs, values["saved"] = result
        named = self.named(outputs[0] if isinstance(outputs[0], Mapping) else outputs, call.reduction)
        if call.gradients():
            gradients = self._backward_signature.call(self._backward, values)
            if isinstance(gradients, Mapping):
                named |= {name: Returned(value) for name, value in gradients.items() if value is not None}
            elif isinstance(gradients, (tuple, list)) and len(gradients) == 2:
                names = ("grad_hidden", "grad_weight")
                named |= {n: Returned(v) for n, v in zip(names, gradients) if v is not None}
            else:
                raise Misfit("backward of a pair returns (grad_hidden, grad_weight)")
        return named

    def expected_dtype(self, name: str, view: View) -> str:
        role = {"loss": ("loss", *OBJECTIVES), "logprob": OBJECTIVES}.get(name, (name,))
        declared = next((self.declaration.outputs[r] for r in role if r in self.declaration.outputs), None)
        if declared == "hidden":
            return self.input_dtype
        return declared or view.dtype

    def require_array(self, name: str, value: Any) -> None:
        """Raises Misfit unless the value is an array of the function's library."""
        why = self.framework.kind(value)
        if why is not None:
            raise Misfit(f"{name} is {why}")

    def _check(self, call: Call, named: Mapping[str, Returned]) -> None:
        self.input_dtype = call.inputs["hidden"].dtype
        spans = [(given, *source.span) for given, source in call.inputs.items()]
        for name, view in call.results.items():
            if name not in named:
                raise Missing(f"{name} was asked for and did not come back; there are {', '.join(named) or 'none'}")
            value = named[name].value
            self.require_array(name, value)
            shape = self.framework.shape(value)
            if shape != view.shape:
                raise Misfit(f"{name} has shape {list(shape)} where {list(view.shape)} is required")
            dtype, expected = self.framework.dtype(value), self.expected_dtype(name, view)
            if dtype != expected:
                raise Misfit(
                    f"{name} is {dtype} where {expected} is required (outputs={{{name!r}: {dtype!r}}} declares it)"
                )
            device, at = self.framework.device(value), "cpu" if view.device is None else "cuda"
            if device != at:
                raise Misfit(f"{name} is on {device} where the inputs are on {at}")
            address = self.framework.address(value)
            for given, low, size in spans:
                if address and low <= address < low + size:
                    raise Misfit(f"{name} is a view of the input {given}")


def _pair(function: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    if isinstance(function, (tuple, list)):
        return function[0], function[1]
    return function.forward, function.backward


def _form_of(function: Any, declaration: Declaration, framework: Framework) -> str:
    if isinstance(function, (tuple, list)) and len(function) == 2:
        return "pair"
    if not callable(function) and hasattr(function, "forward") and hasattr(function, "backward"):
        return "pair"
    returns = declaration.returns or ()
    if "grad_hidden" in returns or "grad_weight" in returns:
        return "returned"
    try:
        bound = signature.read(function, declaration.arguments)
    except (TypeError, ValueError):
        return "autograd"
    if bound.has("grad_logprob") or bound.has("grad_entropy"):
        return "returned"
    if not framework.differentiates:
        return "forward"
    return "vjp" if framework.name == "jax" else "autograd"
