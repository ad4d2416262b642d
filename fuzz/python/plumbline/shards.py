# SPDX-License-Identifier: Apache-2.0
"""The files of several ranks, joined to one dump.

Each rank wrote its shard of the vocabulary (weight and grad_weight are split, the rest is the same on every rank) or of
the rows (hidden, labels and what has a value a row are split, weight is the same). A file says which by
vocabulary_start or row_start, or the tensors that are the same say it; ranks are told by `rank`, else by the number in
a file's name. Boundaries go into the metadata shard_boundaries (fuzz/check/shards.h). Files are mapped, and written
to the dump part by part: the weight is never in memory.
"""

from __future__ import annotations

import array
import dataclasses
import hashlib
import json
import math
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import dump, stored
from .dump import DumpError

_SUFFIXES = (".safetensors", ".pt", ".pth", ".npz")
_SPLIT = {
    "vocabulary": ("weight", "grad_weight"),
    "rows": ("hidden", "grad_hidden", *dump.OF_ROWS),
}
_START = {"vocabulary": "vocabulary_start", "rows": "row_start"}
_OUTPUTS = ("logprob", "entropy", "lse", "loss", "grad_hidden", "grad_weight")
# These depend on every row: under split rows each rank has a part of them, or the sum after they were reduced.
_OF_ALL_ROWS = ("loss", "grad_weight")
_CHUNK = 1 << 22  # elements that are compared at a time


@dataclasses.dataclass(eq=False)
class _Rank:
    number: int
    file: pathlib.Path
    made: dump.Made
    digests: dict[str, bytes] = dataclasses.field(default_factory=dict)

    @property
    def tensors(self) -> dict[str, stored.Tensor]:
        return self.made.tensors

    def digest(self, role: str) -> bytes:
        """A hash of a tensor's dtype, shape and bytes; empty where there is none."""
        if role not in self.tensors:
            return b""
        if role not in self.digests:
            tensor = self.tensors[role]
            of = hashlib.blake2b(f"{tensor.dtype} {tensor.shape}".encode())
            of.update(tensor.data)
            self.digests[role] = of.digest()
        return self.digests[role]

    def __str__(self) -> str:
        return f"rank {self.number} ({self.file.name})"


@dataclasses.dataclass
class Joined:
    """A dump as the parts of its tensors, its metadata, and lines on what it was made of."""

    parts: dict[str, list[stored.Tensor]]
    metadata: dict[str, str]
    lines: list[str]


def _number(file: pathlib.Path, made: dump.Made) -> int:
    if "rank" in made.options:
        return made.options["rank"]
    found = re.search(r"rank[-_.]?(\d+)", file.stem) or re.search(r"(\d+)\D*$", re.sub(r"[-_]of[-_]\d+", "", file.stem))
    if found is None:
        raise DumpError(f"{file}: its rank is not known: neither metadata rank nor a number in its name")
    return int(found[1])


def _ranks(folder: pathlib.Path, out: pathlib.Path, made_of: Callable[[pathlib.Path], dump.Made]) -> list[_Rank]:
    """The ranks of a folder by number, all there and each once."""
    files = [file for file in sorted(folder.iterdir()) if file.suffix in _SUFFIXES and file.is_file()]
    for file in files:
        if out.exists() and out.samefile(file):
            raise DumpError(f"--out {out}: it is in the folder of the ranks' files")
    if not files:
        raise DumpError(f"{folder}: no file in it ends in {', '.join(_SUFFIXES)}")
    by_number: dict[int, _Rank] = {}
    for file in files:
        made = made_of(file)
        rank = _Rank(_number(file, made), file, made)
        if rank.number in by_number:
            raise DumpError(f"rank {rank.number} has two files: {by_number[rank.number].file.name} and {file.name}")
        by_number[rank.number] = rank
    ranks = [by_number[number] for number in sorted(by_number)]
    if ranks[0].number < 0:
        raise DumpError(f"{ranks[0]}: a rank below 0")
    sizes = {rank.made.options["world_size"]: rank for rank in ranks if "world_size" in rank.made.options}
    if len(sizes) > 1:
        told = ", ".join(f"{size} says {rank}" for size, rank in sizes.items())
        raise DumpError(f"world_size is not the same in all files: {told}")
    first = 0 if sizes or "rank" in ranks[0].made.options else min(1, ranks[0].number)
    last = first + next(iter(sizes), ranks[-1].number + 1 - first)
    missing = [str(number) for number in range(first, min(last, first + (1 << 20))) if number not in by_number]
    if missing:
        known = f"world_size is {next(iter(sizes))}, " if sizes else ""
        listed = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
        raise DumpError(f"{folder}: {known}rank {listed} is missing; there are {', '.join(map(str, sorted(by_number)))}")
    if ranks[-1].number >= last:
        raise DumpError(f"{ranks[-1]}: beyond world_size, which is {last}")
    return ranks


def _other(ranks: Sequence[_Rank], role: str) -> _Rank | None:
    """The first rank whose tensor is not that of the first one that has it."""
    having = [rank for rank in ranks if role in rank.tensors]
    return next((rank for rank in having if rank.digest(role) != having[0].digest(role)), None)


def _split_of(ranks: Sequence[_Rank]) -> str:
    said = {split: rank for split, start in _START.items() for rank in ranks if start in rank.made.options}
    if len(said) > 1:
        told = " and ".join(f"{_START[split]} in {rank}" for split, rank in said.items())
        raise DumpError(f"{told}: one of the two is split")
    if said:
        return next(iter(said))
    hidden, weight = _other(ranks, "hidden") or _other(ranks, "labels"), _other(ranks, "weight")
    if hidden and weight:
        raise DumpError(f"neither hidden nor weight is the same on all ranks: {hidden} has another hidden than {ranks[0]}, "
                        f"{weight} another weight")
    if hidden is None and weight is None and len(ranks) > 1:
        raise DumpError("hidden and weight are the same on all ranks: nothing is split, and each file is a dump by itself")
    return "rows" if hidden else "vocabulary"


def _in_order(ranks: Sequence[_Rank], split: str) -> tuple[list[_Rank], list[int]]:
    """The ranks in the order of their shards, and where these begin and end."""
    start, role = _START[split], "weight" if split == "vocabulary" else "hidden"
    starts = {rank.number: rank.made.options[start] for rank in ranks if start in rank.made.options}
    if starts and len(starts) < len(ranks):
        without = next(rank for rank in ranks if rank.number not in starts)
        raise DumpError(f"{without}: has no {start}, and other ranks have")
    # An empty shard begins where the next one does.
    ordered = sorted(ranks, key=lambda rank: (starts[rank.number], rank.tensors[role].shape[0])) if starts else ranks
    bounds = [0]
    for at, rank in enumerate(ordered):
        begin, end = starts.get(rank.number, bounds[-1]), bounds[-1]
        before = f"{ordered[at - 1]} ends at {end}" if at else f"{rank} is the first"
        if begin > end:
            raise DumpError(f"no rank has {role}'s rows [{end}, {begin}): {before}, and {start} of {rank} is {begin}")
        if begin < end:
            raise DumpError(f"two ranks have {role}'s rows from {begin} on: {before}, and {start} of {rank} is {begin}")
        bounds.append(end + rank.tensors[role].shape[0])
    return list(ordered), bounds


def _check_different(ranks: Sequence[_Rank], bounds: Sequence[int], vocabulary: int) -> None:
    """Refuses one shard of the vocabulary that two ranks hold; shards of padding alone may be alike."""
    seen: dict[bytes, _Rank] = {}
    for rank, begin, end in zip(ranks, bounds, bounds[1:], strict=False):
        if begin == end or begin >= vocabulary:
            continue
        other = seen.setdefault(rank.digest("weight"), rank)
        if other is not rank:
            raise DumpError(f"{rank} holds the same shard of weight as {other}")


def _parts(role: str, ranks: Sequence[_Rank]) -> list[stored.Tensor]:
    """A tensor that is split, part by part."""
    parts = []
    for rank in ranks:
        part, first = rank.tensors.get(role), ranks[0].tensors[role]
        if part is None:
            raise DumpError(f"{rank}: has no {role}, and {ranks[0]} has")
        if part.dtype != first.dtype or len(part.shape) != len(first.shape) or part.shape[1:] != first.shape[1:]:
            raise DumpError(f"{role} is {part.dtype} {list(part.shape)} of {rank}, and {first.dtype} {list(first.shape)} of "
                            f"{ranks[0]}: they cannot be joined")
        parts.append(part)
    return parts


def _differing(role: str, one: stored.Tensor, other: stored.Tensor, kept: Sequence[bool]) -> tuple[int, int, float]:
    """How many elements differ, the first one's row, and by how much at most. NaN is NaN; ignored rows hold anything."""
    import numpy as np

    if one.dtype != other.dtype or one.shape != other.shape:
        raise DumpError(f"{role} is {one.dtype} {list(one.shape)} on one rank and {other.dtype} {list(other.shape)} on another")
    count, first, largest = 0, -1, 0.0
    width = math.prod(one.shape[1:])
    step = max(1, _CHUNK // max(width, 1)) * width
    size = stored.ITEM_SIZES[one.dtype]
    for begin in range(0, one.elements, max(step, 1)):
        flat = [stored.Tensor(one.dtype, (min(step, one.elements - begin),), tensor.data[begin * size : (begin + step) * size])
                .array().astype(np.float64) for tensor in (one, other)]
        differ = (flat[0] != flat[1]) & ~(np.isnan(flat[0]) & np.isnan(flat[1]))
        if one.shape and role in ("logprob", "entropy", "lse"):
            differ &= np.asarray(kept[begin : begin + len(differ)], bool)
        if not differ.any():
            continue
        with np.errstate(invalid="ignore"):
            by = np.abs(flat[0] - flat[1])[differ]
        largest = float("nan") if np.isnan(by).any() else max(largest, float(by.max()))
        first = first if first >= 0 else (begin + int(differ.argmax())) // max(width, 1)
        count += int(differ.sum())
    return count, max(first, 0), largest


def _judged_part(role: str, rank: _Rank, kept: Sequence[bool]) -> bytes:
    """What is the same where a tensor is: of an output of one value a row, that of rows that are not ignored."""
    if role not in ("logprob", "entropy", "lse"):
        return rank.digest(role)
    values = [value + 0.0 for value in rank.tensors[role].values()]  # +0 for a zero of either sign
    if len(values) != len(kept):
        raise DumpError(f"{role} is {list(rank.tensors[role].shape)} in {rank}: one value a row makes {len(kept)}")
    known = [math.nan if math.isnan(value) else value for value, keeps in zip(values, kept, strict=True) if keeps]
    return array.array("d", known).tobytes()


def _same(role: str, ranks: Sequence[_Rank], kept: Sequence[bool]) -> tuple[stored.Tensor, dict[str, Any] | None]:
    """An output as most ranks have it, and what differs of the others'."""
    having = [rank for rank in ranks if role in rank.tensors]
    groups: dict[bytes, list[_Rank]] = {}
    for rank in having:
        groups.setdefault(_judged_part(role, rank, kept), []).append(rank)
    most = max(groups.values(), key=len)
    tensor = most[0].tensors[role]
    differing = [(rank, *_differing(role, tensor, rank.tensors[role], kept)) for rank in having if rank not in most]
    differing = [entry for entry in differing if entry[1]]
    if not differing:
        return tensor, None
    amounts = [entry[3] for entry in differing]
    return tensor, {
        "output": role,
        "ranks": [entry[0].number for entry in differing],
        "elements": sum(entry[1] for entry in differing),
        "row": min(entry[2] for entry in differing),
        "largest": _json_number(float("nan") if any(map(math.isnan, amounts)) else max(amounts)),
    }


def _json_number(value: float) -> float | str:
    return value if math.isfinite(value) else "nan" if math.isnan(value) else "inf"


def _metadata(ranks: Sequence[_Rank]) -> dict[str, str]:
    for rank in ranks:
        for key in {**rank.made.metadata, **ranks[0].made.metadata}:
            one, other = ranks[0].made.metadata.get(key), rank.made.metadata.get(key)
            if one != other:
                raise DumpError(f"{key} is {other} in {rank} and {one} in {ranks[0]}")
    return dict(ranks[0].made.metadata)


def _unreduce(ranks: Sequence[_Rank], metadata: dict[str, str]) -> list[str]:
    """Each rank's own reduction over its rows, made one gradient a row of a problem without a reduction.

    gamma becomes -gamma, or -gamma / n with the rank's own n, rounded to fp32 once (kernel/OPERATION.md).
    """
    reduction = metadata.get("reduction", "none")
    losses = {rank.digest("loss") for rank in ranks}
    if reduction == "none" or len(ranks) == 1 or len(losses) == 1 and b"" not in losses:
        return []
    ignored = int(metadata.get("ignore_index", -100))
    metadata["reduction"] = "none"
    for rank in ranks:
        rank.tensors.pop("loss", None)
        if "grad_logprob" not in rank.tensors:
            continue
        labels = rank.tensors["labels"].values()
        counted = sum(label != ignored for label in labels) if reduction == "mean" else 1
        gradient = -rank.tensors["grad_logprob"].values()[0] / max(counted, 1)
        data = array.array("f", [gradient] * len(labels)).tobytes()
        rank.tensors["grad_logprob"] = stored.Tensor("F32", (len(labels),), data)
        rank.digests.pop("grad_logprob", None)
    return [f"loss: a {reduction} over each rank's own rows; its file alone is a dump with it"]


def _own_parts(role: str, ranks: Sequence[_Rank]) -> bool:
    """True where every rank has another: its part before they were reduced."""
    digests = [rank.digest(role) for rank in ranks]
    return len(ranks) > 1 and len(set(digests)) == len(ranks) and b"" not in digests


def _is_split(role: str, split: str, ranks: Sequence[_Rank]) -> bool:
    scalar = any(role in rank.tensors and not rank.tensors[role].shape for rank in ranks)
    return role in _SPLIT[split] and not scalar


def _rows_of_one(ranks: Sequence[_Rank], number: int | None) -> int | None:
    """Gives every rank the rows of one, where each has its own and a shard of one weight; which one that is."""
    if not all(rank.made.options.get("own_rows") for rank in ranks):
        if number is not None:
            raise DumpError(f"--rank {number}: these ranks have no rows of their own beside a shard of one weight")
        return None
    one = next((rank for rank in ranks if number in (None, rank.number)), None)
    if one is None:
        raise DumpError(f"--rank {number}: there are {', '.join(str(rank.number) for rank in ranks)}")
    for rank in ranks:
        rank.made.tensors = {**one.made.tensors, "weight": rank.made.tensors["weight"]}
        rank.made.metadata = one.made.metadata
    return one.number


def join(
    folder: pathlib.Path,
    named: Mapping[str, str] | None = None,
    *,
    out: pathlib.Path,
    vocabulary: int | None = None,
    ignore_index: int | None = None,
    reduction: str | None = None,
    rows_of: int | None = None,
) -> Joined:
    """One dump of the files of a folder, of which `out` is none. Raises DumpError, OSError.

    rows_of: of ranks that have each its own rows, and a shard of one weight, the one whose rows are taken [the first].
    """

    def made_of(file: pathlib.Path) -> dump.Made:
        try:
            return dump.make(dump.load(file), named, vocabulary=vocabulary, ignore_index=ignore_index,
                             reduction=reduction, shard=True)
        except DumpError as error:
            told = str(error)
            raise DumpError(told if told.startswith(str(file)) else f"{file}: {told}") from None

    ranks = _ranks(folder, out, made_of)
    for rank in ranks:
        for role in ("hidden", "weight"):
            if len(rank.tensors[role].shape) != 2:
                raise DumpError(f"{role} is {list(rank.tensors[role].shape)} in {rank}, not a matrix")
    of_one = _rows_of_one(ranks, rows_of)
    metadata = _metadata(ranks)
    split = _split_of(ranks)
    ordered, bounds = _in_order(ranks, split)
    rows_of_weight = bounds[-1] if split == "vocabulary" else ranks[0].tensors["weight"].shape[0]
    size = int(metadata.get("vocabulary_size", rows_of_weight))
    if size > rows_of_weight:
        raise DumpError(f"no rank has weight's rows [{rows_of_weight}, {size}): vocabulary_size is {size}")
    if split == "vocabulary":
        _check_different(ordered, bounds, size)
    left_out = _unreduce(ordered, metadata) if split == "rows" else []
    ignored = int(metadata.get("ignore_index", -100))
    kept = [label != ignored for label in ranks[0].tensors["labels"].values()]
    parts: dict[str, list[stored.Tensor]] = {}
    unequal = []
    for role in dict.fromkeys([*_OUTPUTS, *(role for rank in ranks for role in rank.tensors)]):
        if not any(role in rank.tensors for rank in ranks):
            continue
        if _is_split(role, split, ranks):
            parts[role] = _parts(role, ordered)
        elif role not in _OUTPUTS:
            first, other = next(rank for rank in ranks if role in rank.tensors), _other(ranks, role)
            if other is not None:
                raise DumpError(f"{role} of {other} is not that of {first}, and it is not split")
            parts[role] = [first.tensors[role]]
        elif split == "rows" and role in _OF_ALL_ROWS and _own_parts(role, ranks):
            left_out.append(f"{role}: another on every rank, as before they are reduced: save it after that")
        else:
            tensor, differs = _same(role, ranks, kept)
            parts[role] = [tensor]
            unequal += [differs] if differs else []
    boundaries = {"split": split, "bounds": bounds, "ranks": [rank.number for rank in ordered],
                  "unequal": unequal, "left_out": left_out}
    metadata["shard_boundaries"] = json.dumps(boundaries)
    lines = [*ranks[0].made.lines, f"of {ranks[0]}; {len(ranks)} ranks split {'the vocabulary' if split != 'rows' else 'the rows'}:"]
    lines += [f"  {rank}: [{bounds[at]}, {bounds[at + 1]})" for at, rank in enumerate(ordered)]
    lines += [f"  not the same on all ranks: {entry['output']} of {entry['ranks']}" for entry in unequal]
    lines += [f"left out: {line}" for line in left_out]
    lines += [] if of_one is None else [f"the rows are those of rank {of_one}: each rank has its own (--rank)"]
    return Joined(parts, metadata, lines)
