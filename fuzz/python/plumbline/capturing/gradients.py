# SPDX-License-Identifier: Apache-2.0
"""Hooks on the graph of one call: what comes into its outputs, and what it gives to hidden and to weight.

No tensor of the job is replaced, no node added. A hidden that other parts of the job use has other gradients beside: of
the call are those that its own nodes hand on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

# A call that builds more nodes than this is a model.
_MOST_NODES = 100_000


def _edge(tensor: Any) -> tuple[Any, int] | None:
    """Where a gradient of a tensor goes: a node and a place among its inputs."""
    if not tensor.requires_grad:
        return None
    edge = sys.modules["torch"].autograd.graph.get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def before(tensors: Sequence[Any]) -> list[tuple[Any, int] | None]:
    """The edges of the inputs, asked before the call: it may write them in place."""
    return [_edge(tensor) for tensor in tensors]


class Gradients:
    """The gradients of one call in the first backward that reaches it. Every value is copied as it comes."""

    def __init__(self, take: Sequence[Callable[[Any], Any]], on_upstream: Callable[[int, Any], None],
                 at_end: Callable[[], None], failed: Callable[[BaseException], None]) -> None:
        self._take = take
        self._on_upstream = on_upstream
        self._at_end = at_end
        self._failed = failed
        self._begun = False
        self._ended = False
        self._handles: list[Any] = []
        self.given: list[Any] = [None for _ in take]  # of each input

    def attach(self, outputs: Sequence[Any], edges: Sequence[tuple[Any, int] | None]) -> bool:
        """Whether any output carries a graph."""
        begin = []
        for index, output in enumerate(outputs):
            if output.requires_grad and output.grad_fn is not None:
                begin.append(output.grad_fn)
                self._handles.append(output.register_hook(self._guarded(lambda g, index=index: self._upstream(index, g))))
        seen = {edge[0] for edge in edges if edge is not None}
        nodes = [node for node in begin if node not in seen]
        while nodes:
            node = nodes.pop()
            if node in seen:
                continue
            seen.add(node)
            if len(seen) > _MOST_NODES:
                raise RuntimeError(f"the graph behind the call has more than {_MOST_NODES} nodes")
            for place, (child, number) in enumerate(node.next_functions):
                for index, edge in enumerate(edges):
                    if edge is not None and child is edge[0] and number == edge[1]:
                        self._on_node(node, place, index)
                if child is not None and child not in seen:
                    nodes.append(child)
        return bool(begin)

    def _on_node(self, node: Any, place: int, index: int) -> None:
        hook = self._guarded(lambda gradients, _: self._add(index, gradients[place]))
        self._handles.append(node.register_hook(hook))

    def _guarded(self, hook: Callable[..., None]) -> Callable[..., None]:
        """The hook, after which the engine calls `_end` once; a failure in it is told, and the job's backward goes on."""

        def run(*gradients: Any) -> None:
            if self._ended:
                return
            try:
                hook(*gradients)
                if not self._begun:
                    self._begun = True
                    sys.modules["torch"].autograd.Variable._execution_engine.queue_callback(self._end)
            except Exception as error:  # noqa: BLE001, the job goes on whatever it is
                self._failed(error)

        return run

    def _upstream(self, index: int, gradient: Any) -> None:
        self._on_upstream(index, gradient)

    def _add(self, index: int, gradient: Any) -> None:
        if gradient is None:
            return
        value = self._take[index](gradient)
        # Several nodes of one call, as of its chunks: the engine adds in the order in which they come.
        self.given[index] = value if self.given[index] is None else self.given[index] + value

    def _end(self) -> None:
        if not self._ended:
            self.stop()
            try:
                self._at_end()
            except Exception as error:  # noqa: BLE001
                self._failed(error)

    def stop(self) -> None:
        self._ended = True
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
