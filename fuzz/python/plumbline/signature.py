# SPDX-License-Identifier: Apache-2.0
"""Which parameter of a function takes which argument of the operator: told by the parameters' names."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

# Names that kernels in the field give their parameters, as regular expressions on the lower-case name.
ROLES = {
    "hidden": r"_?input|inputs|x|e|hidden|hidden_states?|last_hidden(_states?)?|h",
    "weight": r"weights?|lin_weight|linear_weight|vocab_weights?|c|w|(.*_)?lm_head(_weight)?|classifier(_weight)?",
    "labels": r"labels?|targets?|y|input_ids|tokens?",
    "temperature": r"temperature|temp|tau",
    "ignore_index": r"ignore_(index|idx)",
    "reduction": r"reduction",
    "grad_logprob": r"grad_logprobs?|g|grad_loss|dlogprobs?",
    "grad_entropy": r"grad_entropy|k|dentropy",
    "saved": r"saved|residuals?|ctx",
}
REQUIRED = ("hidden", "weight", "labels")


class SignatureError(ValueError):
    """The parameters can be read in no way, or in more than one."""


@dataclasses.dataclass(frozen=True)
class _Value:
    """The default of a parameter that is passed by position, because others behind it are."""

    value: Any


@dataclasses.dataclass(frozen=True)
class Signature:
    """Names of parameters by role, and what is passed by position: roles, and values in between."""

    names: dict[str, str]
    by_position: tuple[str | _Value, ...] = ()

    def has(self, role: str) -> bool:
        return role in self.names

    def call(self, function: Callable[..., Any], values: dict[str, Any]) -> Any:
        positional = [r.value if isinstance(r, _Value) else values[r] for r in self.by_position]
        rest = {n: values[r] for r, n in self.names.items() if r not in self.by_position and r in values}
        return function(*positional, **rest)


def _roles_of(name: str) -> list[str]:
    return [role for role, pattern in ROLES.items() if re.fullmatch(pattern, name.lower())]


def is_apply(function: Any) -> bool:
    """True of `apply` of a torch.autograd.Function."""
    owner = getattr(function, "__self__", None)
    return getattr(function, "__name__", "") == "apply" and hasattr(owner, "forward")


def is_module(function: Any) -> bool:
    """True of a torch.nn.Module and its like: calling it calls `forward`, whose parameters are its own."""
    return not hasattr(function, "__name__") and callable(function) and callable(getattr(function, "forward", None))


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    if is_apply(function):
        # It takes what `forward` takes behind its context, by position.
        listed = list(inspect.signature(function.__self__.forward).parameters.values())
        saves_later = "setup_context" in vars(function.__self__)  # forward has no context then
        return [p.replace(kind=inspect.Parameter.POSITIONAL_ONLY) for p in listed[0 if saves_later else 1 :]]
    if is_module(function):
        return list(inspect.signature(function.forward).parameters.values())
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:
        raise SignatureError(
            f"{function!r:.80}: its parameters are not known to Python; wrap it in a function of hidden, weight, labels"
        ) from None


def _roles(parameter: inspect.Parameter, given: dict[str, str]) -> list[str]:
    roles = [r for r, n in given.items() if n == parameter.name]
    if not roles and parameter.name not in given.values():
        roles = [r for r in _roles_of(parameter.name) if r not in given]
    # g and k are upstream gradients where nothing else stands for them: `k=5` is an option.
    if parameter.name in ("g", "k") and parameter.default not in (parameter.empty, None):
        roles = [r for r, n in given.items() if n == parameter.name]
    return roles


def _without_options(parameters: list[inspect.Parameter], roles: dict[str, list[str]]) -> dict[str, list[str]]:
    """Roles by name, where of several parameters for what every kernel needs one alone has no default: it is that one.
    PyTorch's linear_cross_entropy has `linear_weight`, and `weight=None`, the weights of classes."""
    for role in REQUIRED:
        several = [p for p in parameters if roles[p.name] == [role]]
        needed = [p for p in several if p.default is p.empty]
        if len(several) > 1 and len(needed) == 1:
            roles |= {p.name: [] for p in several if p is not needed[0]}
    return roles


def read(
    function: Callable[..., Any],
    given: dict[str, str] | None = None,
    required: tuple[str, ...] = REQUIRED,
) -> Signature:
    """Binds the parameters of `function`; `given` says roles that their names do not."""
    name = getattr(function, "__qualname__", repr(function))
    given = dict(given or {})
    for role in given:
        if role not in ROLES:
            raise SignatureError(f"arguments names {role!r}: none of {', '.join(ROLES)}")
    found: dict[str, list[str]] = {}
    positional: list[str | _Value] = []
    left_over: list[str] = []
    parameters = [p for p in _parameters(function) if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    by_name = _without_options(parameters, {p.name: _roles(p, given) for p in parameters})
    for parameter in parameters:
        roles = by_name[parameter.name]
        if len(roles) > 1:
            raise SignatureError(
                f"{name}: parameter {parameter.name!r} may be {' or '.join(roles)}; say which: "
                f"arguments={{{roles[0]!r}: {parameter.name!r}}}"
            )
        if not roles:
            if parameter.default is parameter.empty:
                left_over.append(parameter.name)
            elif parameter.kind == parameter.POSITIONAL_ONLY:
                positional.append(_Value(parameter.default))
            continue
        found.setdefault(roles[0], []).append(parameter.name)
        if parameter.kind == parameter.POSITIONAL_ONLY:
            positional.append(roles[0])
    while positional and isinstance(positional[-1], _Value):
        positional.pop()
    return _checked(name, found, positional, left_over, required)


def _checked(
    name: str,
    found: dict[str, list[str]],
    positional: list[str | _Value],
    left_over: list[str],
    required: tuple[str, ...],
) -> Signature:
    for role, names in found.items():
        if len(names) > 1:
            readings = " or ".join(f"{role}={n}" for n in names)
            raise SignatureError(
                f"{name}: {readings}? Say which: arguments={{{role!r}: {names[0]!r}}}"
            )
    missing = [role for role in required if role not in found]
    if missing or left_over:
        reading = ", ".join(f"{role}={names[0]}" for role, names in found.items()) or "nothing"
        what = []
        if missing:
            what.append(f"no parameter is recognised as {' or '.join(missing)}")
        if left_over:
            what.append(f"no value is known for {', '.join(left_over)}, which has no default")
        raise SignatureError(
            f"{name}: {'; '.join(what)} (read as: {reading}). Wrap it: "
            "lambda hidden, weight, labels: ..., or say arguments={'hidden': 'its name', ...}"
        )
    return Signature({role: names[0] for role, names in found.items()}, tuple(positional))
