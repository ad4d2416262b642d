# SPDX-License-Identifier: Apache-2.0
"""What a process captures: it counts calls and steps, records the chosen calls, and says at the end what never came.

A failure in it is one line on standard error; the job's call is made as it would have been.
"""

from __future__ import annotations

import os
import pathlib
import sys
import threading
from collections.abc import Sequence
from typing import Any

from . import arguments, sharding
from .arguments import NotOneError, RefusedError
from .recognise import Place
from .record import Record
from .settings import Settings, SettingsError, writable
from .writing import Folder, Where

_REFUSALS = (RefusedError, sharding.ShardError, SettingsError)


def say(text: str) -> None:
    """Writes a line; standard error may be closed."""
    try:
        sys.stderr.write(f"plumbline.capture: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


class Session:
    """The calls of one process, under the settings of a run."""

    def __init__(self, settings: Settings, out: pathlib.Path | None = None) -> None:
        self.settings = settings
        self.calls = 0  # of recognised functions
        self.step = 0  # steps of an optimizer after which a call came
        self.files: list[pathlib.Path] = []
        self._out = out  # the one file of a context
        self._folder = Folder(settings.dir)
        self._calls_before = 0  # when the last step ended
        self._taken = 0  # calls of this step
        self._armed = self._chosen_step()
        self._awaited: list[tuple[Record, Where]] = []
        self._said: set[str] = set()
        self._unfit: dict[str, str] = {}
        self._came = False
        self._without_graph = 0
        self._lock = threading.RLock()
        self._inside = threading.local()

    def _chosen_step(self) -> bool:
        return self.settings.steps is None or self.step in self.settings.steps

    def counted(self) -> bool:
        """Counts a call; whether it may be one to record. This is all that other calls cost."""
        self.calls += 1
        return self._armed and not getattr(self._inside, "depth", 0)

    def stepped(self, *_: Any) -> None:
        """An optimizer has made a step."""
        if self.calls == self._calls_before:
            return
        self._calls_before = self.calls
        if self._awaited:
            self.flush()
        self.step += 1
        self._taken = 0
        self._armed = self._chosen_step()

    def _tell(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            say(text)

    def warned(self, doing: str, error: BaseException) -> None:
        """Says, once, what failed outside of a call."""
        self._tell(f"{doing}: {type(error).__name__}: {error}")

    def failed(self, title: str, error: BaseException) -> None:
        """Says, once, why a call is not captured."""
        told = str(error) if isinstance(error, _REFUSALS) else f"{type(error).__name__}: {error}"
        self._tell(f"{title} is not captured: {' '.join(told.split())[:400]}")

    def _rank(self) -> int:
        distributed = sys.modules["torch"].distributed
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
        rank = os.environ.get("RANK", "0")
        return int(rank) if rank.isdecimal() else 0

    def _wanted(self, call: arguments.Call, rank: int) -> bool:
        ranks = self.settings.ranks
        shared = () if call.shard is None else call.shard.ranks
        return ranks is None or rank in ranks or any(each in ranks for each in shared)

    def _begin(self, place: Place, args: Sequence[Any], options: dict[str, Any]) -> tuple[Record, Where] | None:
        torch = sys.modules["torch"]
        if torch._C._current_graph_task_id() != -1:  # backward runs: a checkpoint's second forward, or a part of backward
            return None
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            raise RefusedError("a CUDA graph is recorded, in which nothing may be copied to the host")
        call = (place.binds or arguments.bind)(place, args, options)
        rank = self._rank()
        self._came = True
        has_graph = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in call.given)
        if not self._wanted(call, rank):
            return None
        if self.settings.graph and not has_graph:
            self._without_graph += 1
            return None
        if self.settings.calls is not None and self._taken >= self.settings.calls:
            self._armed = False
            return None
        writable(self.settings.dir)
        record = Record(place.title, call, self.settings.rows, self.step, lambda error: self.failed(place.title, error))
        self._taken += 1
        return record, Where(self.step, self._taken - 1, rank)

    def record(self, place: Place, args: Sequence[Any], options: dict[str, Any]) -> Any:
        """Makes the call, as it would be made, and records it if it is one to record."""
        begun = None
        try:
            begun = self._begin(place, args, options)
        except NotOneError as error:
            self._unfit.setdefault(place.title, str(error))
        except Exception as error:  # noqa: BLE001, the job goes on whatever it is
            self.failed(place.title, error)
        if begun is None:
            return place.function(*args, **options)
        self._inside.depth = 1
        try:
            returned = place.function(*args, **options)
        finally:
            self._inside.depth = 0
        try:
            record, where = begun
            awaited = record.returned(returned, lambda: self._end(record, where))
            if not record.is_known:
                record.stop()
                self._taken -= 1
                self._unfit.setdefault(place.title, f"it returned a {type(returned).__name__} without a loss")
            elif awaited:
                self._awaited.append(begun)
            else:
                self._write(record, where)
        except Exception as error:  # noqa: BLE001
            self.failed(place.title, error)
        return returned

    def _end(self, record: Record, where: Where) -> None:
        with self._lock:
            if (record, where) in self._awaited:
                self._awaited.remove((record, where))
                self._write(record, where)

    def _write(self, record: Record, where: Where) -> None:
        try:
            dump = record.dump()
            if self._out is not None and len(self.files) == 0 and record.call.shard is None:
                path = self._folder.write_as(self._out, record, dump, where)
            else:
                path = self._folder.write(record, dump, where)
        except Exception as error:  # noqa: BLE001
            self.failed(record.title, error)
            return
        self.files.append(path)
        notes = "".join(f"; {note}" for note in dump.notes)
        say(f"wrote {path} ({record.title}, step {where.step}, rank {where.rank}{notes})")

    def flush(self) -> None:
        """Writes what is recorded, without the gradients that have not come."""
        with self._lock:
            awaited, self._awaited = self._awaited, []
            for record, where in awaited:
                record.stop()
                self._write(record, where)

    def ended(self) -> None:
        """The process ends: writes what is left, and says what never came."""
        self.flush()
        if self.files or not self.calls:
            return
        if not self._chosen_step() and not self._came:
            asked = "+".join(map(str, sorted(self.settings.steps or ())))
            self._tell(f"step {asked} never came: {self.calls} calls in {self.step} steps of an optimizer")
        elif self._unfit and not self._said:
            told = "; ".join(f"{title}: {why}" for title, why in self._unfit.items())
            self._tell(f"nothing was captured: no call had the arguments of a linear cross-entropy ({told[:600]})")
        elif not self._said and self._without_graph:
            self._tell(f"nothing was captured: {self._without_graph} calls, none that autograd records; graph=any takes others")
