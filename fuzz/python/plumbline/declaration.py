# SPDX-License-Identifier: Apache-2.0
"""What a function declares of itself: `@plumbline.target(...)`, and the JSON that the harness reads of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from .contract import Contract

OBJECTIVES = ("logprob", "nll", "loss", "logprob_or_loss")
VALUES = (*OBJECTIVES, "entropy", "lse", "grad_hidden", "grad_weight", "first_invalid_row")
FORMS = ("autograd", "vjp", "pair", "returned", "forward")

# Keys of "capabilities" in fuzz/target/DESCRIPTION.md.
LISTS = {  # with the words of each
    "dtypes": ("bf16", "fp16", "fp32"),
    "weight_layouts": ("vocab_major", "hidden_major"),
    "label_dtypes": ("int32", "int64"),
    "reductions": ("none", "sum", "mean"),
}
NUMBERS = ("hidden_multiple", "vocab_multiple", "rows_multiple", "base_alignment", "row_alignment")
FLAGS = (
    "entropy",
    "lse",
    "grad_hidden",
    "grad_weight",
    "fp32_grads",
    "strided_inputs",
    "negative_strides",
    "empty_extents",
    "first_invalid_row",
    "zero_stride_grads",
    "ignore_index",
    "invalid_labels",
    "special_values",
    "deterministic",
    "batch_invariant",
)
CAPABILITIES = tuple(LISTS) + NUMBERS + FLAGS + ("temperature",)


@dataclasses.dataclass(frozen=True)
class Declaration:
    """How a function is called, what it returns and what it can do.

    framework: "torch", "jax" or "numpy"; None: the one whose module the function's globals refer to.
    form: "autograd" (outputs carry torch's graph), "vjp" (jax.vjp), "pair" (forward, backward),
        "returned" (the function returns gradients), "forward" (there are none); None: by what it is.
    arguments: parameter names by role (plumbline.signature.ROLES), where the names do not tell.
    returns: the names of the returned values in order, of VALUES; None for one that is not judged.
        In a reduced call "logprob" is minus the loss, "nll" and "logprob_or_loss" are the loss.
    outputs: dtypes of returned values where they are not fp32 (gradients: that of their input).
    device: "cpu" or "cuda".
    contract: a plumbline.Contract, the name of one (`plumb targets`), or keys of fuzz/target/DESCRIPTION.md.
    capabilities: keys of fuzz/target/DESCRIPTION.md; what is absent is asked of the function. Where none is named,
        they are found by trying.
    """

    framework: str | None = None
    form: str | None = None
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    returns: Sequence[str | None] | None = None
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    device: str = "cpu"
    contract: Mapping[str, Any] | str = dataclasses.field(default_factory=dict)
    capabilities: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    found: bool = False  # capabilities by trying, not declared: what is refused is a limitation

    def description(self, name: str, cannot_show: Sequence[str] = (), declaration: str = "") -> str:
        """The JSON object that `describe()` of the target ABI returns."""
        label = "".join(c if " " <= c <= "~" else "?" for c in name)[:100]
        text: dict[str, Any] = {"name": label, "device": self.device}
        if cannot_show:
            text["cannot_show"] = list(cannot_show)
        if declaration:
            text["declaration"] = declaration
        contract = self._contract_with_dtypes()
        return json.dumps(text | {"capabilities": dict(self.capabilities), "contract": contract})

    def _contract_with_dtypes(self) -> dict[str, Any] | str:
        """The contract, with the dtypes of outputs that are declared: they are seen, not taken."""
        said: dict[str, str] = {}
        for value, dtype in self.outputs.items():
            known = "input" if dtype == "hidden" else dtype
            if known == "fp32" or value.startswith("grad_"):
                continue
            for output in ("logprob", "loss") if value in OBJECTIVES else (value,):
                said[output] = known
        # Autograd's upstream gradient of an output has its dtype.
        back = self.form in (None, "autograd", "vjp")
        upstream = {f"upstream_{name}": said[name] for name in ("logprob", "entropy") if back and name in said}
        if isinstance(self.contract, str):
            if not said or self.contract.endswith(".json"):
                return self.contract
            words = {f"outputs.{output}": dtype for output, dtype in said.items()} | upstream
            more = [f"{word}={dtype}" for word, dtype in words.items() if f"{word}=" not in self.contract]
            return ",".join([self.contract, *more])
        contract = dict(self.contract)
        if said:
            contract = upstream | contract | {"outputs": said | dict(contract.get("outputs", {}))}
        return contract

    def to_paste(self) -> str:
        """The decorator that declares this."""
        lines = []
        for field in ("framework", "form", "returns", "arguments", "outputs", "device", "contract"):
            value = getattr(self, field)
            if value in (None, {}, ()) or (field == "device" and value == "cpu"):
                continue
            value = tuple(value) if field == "returns" else dict(value) if isinstance(value, Mapping) else value
            lines.append(f"    {field}={value!r},")
        lines += [f"    {key}={value!r}," for key, value in self.capabilities.items()]
        return "@plumbline.target(\n" + "\n".join(lines) + "\n)"


def _check_one_of(what: str, value: Any, allowed: Sequence[str]) -> None:
    if value is not None and value not in allowed:
        raise ValueError(f"plumbline.target: {what} is {value!r}: none of {', '.join(allowed)}")


def _check_kind(what: str, value: Any, kinds: tuple[type, ...], words: str) -> None:
    if value is not None and not isinstance(value, kinds):
        raise ValueError(f"plumbline.target: {what} is {value!r}: it must be {words}")


def _check_returns(returns: Sequence[str | None] | None) -> None:
    """Refuses a name that there is not, and names of which one value would replace the other before it is judged."""
    for value in returns or ():
        _check_one_of("returns", value, VALUES)
    # Every objective is judged as the log-probability, or in a reduced call as the loss.
    judged = ["objective" if value in OBJECTIVES else value for value in returns or () if value is not None]
    for name in dict.fromkeys(judged):
        if judged.count(name) > 1:
            several = f"more than one of {', '.join(OBJECTIVES)}" if name == "objective" else f"{name} more than once"
            raise ValueError(f"plumbline.target: returns is {returns!r}: it names {several}; None is for what is not judged")


def target(
    function: Callable[..., Any] | None = None,
    *,
    framework: str | None = None,
    form: str | None = None,
    arguments: Mapping[str, str] | None = None,
    returns: Sequence[str | None] | str | None = None,
    outputs: Mapping[str, str] | None = None,
    device: str = "cpu",
    contract: Contract | Mapping[str, Any] | str | None = None,
    **capabilities: Any,
) -> Any:
    """Declares what `function` is, can do and promises; it stays what it was.

    Every keyword is a field of `Declaration`; all further ones are capabilities of
    fuzz/target/DESCRIPTION.md. What is declared is demanded: a refusal of it is a finding.
    Raises ValueError for a keyword or a value that there is not.
    """
    _check_one_of("framework", framework, ("torch", "jax", "numpy"))
    _check_one_of("form", form, FORMS)
    _check_one_of("device", device, ("cpu", "cuda"))
    if isinstance(returns, str):
        returns = (returns,)
    _check_kind("returns", returns, (Sequence,), "a name or a sequence of names, such as ('logprob', 'entropy')")
    _check_returns(returns)
    _check_kind("arguments", arguments, (Mapping,), "a mapping, such as {'hidden': 'x'}")
    _check_kind("outputs", outputs, (Mapping,), "a mapping, such as {'entropy': 'bf16'}")
    _check_kind("contract", contract, (Contract, Mapping, str), "a plumbline.Contract, a name, or the keys of a contract")
    for value in outputs or ():
        _check_one_of("outputs", value, VALUES)
    for key in capabilities:
        if key not in CAPABILITIES:
            raise ValueError(f"plumbline.target: there is no capability {key!r}; there are {', '.join(CAPABILITIES)}")
    for key, words in LISTS.items():
        given = capabilities.get(key) or ()
        _check_kind(key, given, (Collection,), "a word or several")
        for value in (given,) if isinstance(given, str) else given:
            _check_one_of(key, value, words)
    declared = Declaration(
        framework,
        form,
        dict(arguments or {}),
        tuple(returns) if returns else None,
        dict(outputs or {}),
        device,
        str(contract) if isinstance(contract, (str, Contract)) else dict(contract or {}),
        capabilities,
    )

    def attach(f: Callable[..., Any]) -> Callable[..., Any]:
        try:
            f.__plumbline__ = declared
        except AttributeError:
            raise TypeError(f"plumbline.target: {f!r} takes no attributes; wrap it in a function") from None
        return f

    return attach if function is None else attach(function)
