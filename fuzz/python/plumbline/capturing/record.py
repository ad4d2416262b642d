# SPDX-License-Identifier: Apache-2.0
"""One call while it is recorded: its inputs, what it returned, and the gradients that came."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

from . import arguments, gradients, outputs, sharding
from .arguments import RefusedError


@dataclasses.dataclass
class Dump:
    """The tensors of a dump, each on the host, and its metadata."""

    tensors: dict[str, Any]
    metadata: dict[str, str]
    notes: list[str]


class Record:
    """Made before the call, which `returned` follows; `dump` is asked when the gradients are there, or will not come."""

    def __init__(self, title: str, call: arguments.Call, rows: int | None, seed: int,
                 failed: Callable[[BaseException], None]) -> None:
        self.title = title
        self.call = call
        self.inputs = arguments.copied(call, rows, seed)
        self._edges = gradients.before(call.given) if call.edges is None else call.edges
        self._failed = failed
        self._returned: list[tuple[str, Any]] = []
        self._taken: dict[int, Any] = {}
        self._upstream: dict[int, Any] = {}
        self._gradients: gradients.Gradients | None = None
        self.notes = self.inputs.notes
        self.is_known = False  # whether it returned a number, or one a row

    def returned(self, value: Any, at_end: Callable[[], None]) -> bool:
        """Takes the outputs; whether gradients are awaited, after which `at_end` is called."""
        self._returned = [(name, sharding.local(each)) for name, each in outputs.listed(value)]
        for index, (_, each) in enumerate(self._returned):
            if outputs.is_of_rows(self.call, each) or each.numel() == 1:
                self._taken[index] = self._of_output(each)
        given = [tensor for _, tensor in outputs.listed(value)]
        takes = (self._of_hidden, self._of_weight)
        self._gradients = gradients.Gradients(takes, self._on_upstream, at_end, self._missed)
        awaited = self._gradients.attach(given, self._edges)
        self.is_known = bool(self._taken)
        # The job's own tensors are not kept alive.
        self.call = dataclasses.replace(self.call, given=(None, None), hidden=None, weight=None, edges=None)
        self._returned = [(name, None) for name, _ in self._returned]
        self._edges = []
        return awaited

    def _missed(self, error: BaseException) -> None:
        """A gradient that the dump does without."""
        if isinstance(error, RefusedError):
            self.notes.append(str(error))
        else:
            self._failed(error)

    def stop(self) -> None:
        if self._gradients is not None:
            self._gradients.stop()

    def _of_output(self, value: Any) -> Any:
        value = sharding.local(value).detach()
        if value.numel() == 1 and self.inputs.rows != 1 or value.dim() == 0:
            return value.reshape(()).to("cpu", copy=True)
        if self.call.shift and tuple(value.shape) == tuple(self.call.labels.shape):
            value = value[..., :-1]
        return arguments.take(value.reshape(-1), self.inputs.chosen)

    def _on_upstream(self, index: int, gradient: Any) -> None:
        if gradient is not None:
            self._upstream[index] = self._of_output(gradient) if index in self._taken else None

    def _of_hidden(self, gradient: Any) -> Any:
        return arguments.take(self.call.of_rows(_whole("grad_hidden", gradient), True), self.inputs.chosen)

    def _of_weight(self, gradient: Any) -> Any:
        if self.inputs.chosen is not None or (self.call.shard is not None and self.call.shard.own_rows):
            return None
        return arguments.take(self.call.of_weight(_whole("grad_weight", gradient)), None)

    def _scaled(self, gradient: Any, reduction: str) -> Any:
        """A gradient a row of a loss over all rows: of those that were chosen, -gamma or -gamma / n, rounded once."""
        torch = sys.modules["torch"]
        value = -float(gradient) / (max(self.inputs.counted, 1) if reduction == "mean" else 1)
        return torch.full((len(self.inputs.chosen or ()),), value, dtype=torch.float32)

    def dump(self) -> Dump:
        """Raises RefusedError where no output of the call is known."""
        inputs = self.inputs
        tensors = {"hidden": inputs.hidden, "weight": inputs.weight, "labels": inputs.labels}
        if inputs.temperature is not None:
            tensors["temperature"] = inputs.temperature
        found = outputs.tell(self.call, inputs, self._returned, self._taken)
        if not found:
            shapes = ", ".join(str(list(value.shape)) for value in self._taken.values())
            raise RefusedError(f"none of what it returned is known: {len(self._returned)} tensors of floats; of a row or of "
                               f"one number: {shapes or 'none'}")
        reduction = inputs.reduction or "none"
        sampled = reduction != "none" and inputs.chosen is not None
        for told in found:
            value = self._taken[told.index]
            upstream = self._upstream.get(told.index)
            if told.role == "loss" and sampled:
                if upstream is not None:
                    tensors["grad_logprob"] = self._scaled(upstream, reduction)
                self.notes.append("loss: it is of all rows, and some were chosen")
                continue
            tensors[told.role] = value if told.sign > 0 else -value
            if upstream is not None and told.role == "lse":
                raise RefusedError("the logsumexp has an upstream gradient, and a dump has no place for it")
            if upstream is not None:
                role = "grad_entropy" if told.role == "entropy" else "grad_logprob"
                tensors[role] = (upstream if told.sign > 0 else -upstream).float()
        for role, gradient in zip(("grad_hidden", "grad_weight"), self._given(), strict=True):
            if gradient is not None:
                tensors[role] = gradient
        metadata = {"reduction": "none" if sampled else reduction}
        if inputs.ignore_index is not None:
            metadata["ignore_index"] = str(inputs.ignore_index)
        self._tell_what_is_missing(tensors, {told.index for told in found})
        return Dump(tensors, metadata, self.notes)

    def _given(self) -> list[Any]:
        return [None, None] if self._gradients is None else self._gradients.given

    def _tell_what_is_missing(self, tensors: dict[str, Any], known: set[int]) -> None:
        """Leaves gradients out that are of another objective than the dump's upstream gradients define."""
        given = [role for role in ("grad_hidden", "grad_weight") if role in tensors]
        others = [str(index) for index in self._upstream if index not in known]
        if given and (others or "grad_logprob" not in tensors and "grad_entropy" not in tensors):
            for role in given:
                del tensors[role]
            of = f"output {', '.join(others)}, which is not known, has one too" if others else "none came that they belong to"
            self.notes.append(f"gradients are left out: of upstream gradients {of}")
        elif not given:
            self.notes.append("gradients: none came from this call")
        if self.inputs.chosen is not None:
            self.notes.append(f"grad_weight: it is of all {self.inputs.rows} rows, and {len(self.inputs.chosen)} were chosen")


def _whole(name: str, gradient: Any) -> Any:
    """This rank's part of a gradient. Raises RefusedError where ranks have parts of a sum."""
    placements = getattr(gradient, "placements", ())
    if any(placement.is_partial() for placement in placements):
        raise RefusedError(f"{name} has the placements {placements}: each rank has a part of a sum")
    return sharding.local(gradient)
