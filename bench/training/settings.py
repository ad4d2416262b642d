# SPDX-License-Identifier: Apache-2.0
"""The sizes of the model and its training, and the runs that are compared."""

import dataclasses
import json
from typing import Self


@dataclasses.dataclass(frozen=True)
class Settings:
    """A decoder, the batches it sees, and its optimiser."""

    vocabulary: int = 32768
    hidden: int = 512
    layers: int = 2
    heads: int = 8
    context: int = 256
    rows: int = 32  # sequences of a batch
    steps: int = 2000
    warm_up: int = 100  # steps in which the learning rate rises
    learning_rate: float = 1e-3
    temperature: float = 1.0
    seed: int = 1
    compiled: bool = True
    not_timed: int = 20  # first steps, in which code is compiled and memory is first taken

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(**json.loads(text))


# A run: the head (heads.py), and the order in which a batch's rows lie; order 0 is as they are drawn.
CONTROL = "fp32-logits"
RUNS = {"plumbline": ("plumbline", 0), CONTROL: ("fp32", 0), "bf16-logits": ("bf16", 0),
        "bf16-gradient": ("fp32, bf16 gradient", 0),
        **{f"order-{order}": ("fp32", order) for order in range(1, 6)}}
ORDERS = tuple(name for name in RUNS if name.startswith("order-"))
COMPARED = tuple(name for name in RUNS if name not in ORDERS)
