# SPDX-License-Identifier: Apache-2.0
"""usage: python -m plumbline.dump FILE|FOLDER [--out DUMP.safetensors] [--name FOUND=NAME]… [--vocabulary K]
                                [--ignore-index I] [--reduction none|sum|mean] [--rank R]

Makes a dump for `plumb check` of what a training job saved: FILE is a mapping of arrays as torch.save (.pt, .pth; tensors
and numbers alone), numpy.savez (.npz) or safetensors wrote it, of any shapes and names that frameworks use. Prints what
became of each array.

  [B, S, H]   is flattened to [N, H], and what belongs to rows likewise
  names       hidden_states, lm_head.weight, target, logprobs … are told by themselves; --name says the others
  fp64        outputs, temperature and upstream gradients are rounded to fp32, half a unit in the last place
  loss        one value a row is stored as logprob, negated, with reduction none
  --vocabulary K  rows of weight from K on are padding that the kernel masks: the dump's vocabulary_size
  FOLDER      holds a file of each rank, which wrote its shard of the vocabulary or of the rows: they are joined
              (plumbline/shards.py)
  --rank R    of ranks that plumbline.capture found to have each its own rows and a shard of one weight: whose rows [the first]

Exit status: 0; 2 what cannot be read, or told, with the array and what is known of it.
"""

from __future__ import annotations

import argparse
import array
import dataclasses
import pathlib
import pickle
import re
import struct
import sys
import zipfile
from collections.abc import Mapping
from typing import Any

from . import arrays, signature, stored

_LOGPROBS = r"(token_|per_token_|action_)?(log_?probs?|logps?)"
_OUTPUTS = {
    "logprob": r"(token_|per_token_|new_|selected_)?(logprobs?|log_probs?|logps?|lp)",
    "entropy": r"(token_)?(entropy|entropies|ent)",
    "lse": r"lse|logsumexp|log_z|logz",
    "rollout_logprob": r"(rollout|sampl(ed|er|ing)|generation|behaviou?r|inference|vllm|sglang)_" + _LOGPROBS,
    "old_logprob": r"(old|prev|previous|prox|proximal)_" + _LOGPROBS,
    "loss": r"loss|losses|nll|nll_loss|ce_loss",
    "grad_hidden": r"grad_(hidden|hidden_states|input|x|h)|d_?(hidden|x|h)|(hidden|hidden_states|input|x|h)[._]grad",
    "grad_weight": r"grad_(weight|w|lm_head)|d_?(weight|w)|((.*[._])?(weight|w|lm_head))[._]grad",
}
# Before the inputs: "lm_head.weight.grad" would else be a weight.
_INPUTS = ("hidden", "labels", "temperature", "grad_logprob", "grad_entropy")
_NAMES = {
    **_OUTPUTS,
    **{role: signature.ROLES[role] for role in _INPUTS},
    "weight": signature.ROLES["weight"] + r"|(.*\.)?(lm_head|embed_out|output|head|embed_tokens|wte)\.weight",
}
# What is no tensor of a dump but metadata, or says which shard a rank's file holds.
_OPTIONS = {
    "ignore_index": signature.ROLES["ignore_index"],
    "reduction": signature.ROLES["reduction"],
    "vocabulary_size": r"vocab(ulary)?_size",
    "rank": r"rank|(tp|tensor(_model)?_parallel)_rank",
    "world_size": r"world_size|(tp|tensor(_model)?_parallel)_(world_)?size",
    "vocabulary_start": r"vocab(ulary)?_start(_index)?",
    "row_start": r"rows?_start(_index)?",
    "own_rows": r"own_rows",
}
_NARROWED = ("logprob", "entropy", "lse", "loss", "temperature", "grad_logprob", "grad_entropy", "rollout_logprob",
             "old_logprob")
OF_ROWS = ("labels", *_NARROWED)


class DumpError(ValueError):
    """What a job saved cannot be made a dump of; the text names the array and what is known of it."""


@dataclasses.dataclass
class Made:
    """A dump, and a line on each array that it was made of."""

    tensors: dict[str, stored.Tensor]
    metadata: dict[str, str]
    lines: list[str]
    options: dict[str, int]  # rank, world_size, vocabulary_start, row_start, own_rows, where the file says them


def load(path: pathlib.Path) -> dict[str, Any]:
    """The arrays of a file by name. Raises DumpError, OSError."""
    with open(path, "rb") as file:
        head = file.read(4)
    try:
        if path.suffix == ".npz":
            import numpy as np

            with np.load(path, allow_pickle=False) as content:
                return {name: content[name] for name in content.files}
        if head[:2] == b"PK" or head[:1] == b"\x80":
            import torch

            with open(path, "rb") as file:
                mapped = file.read(2) == b"PK"  # an archive, whose tensors lie in it as they are
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped or None)
            if not isinstance(content, Mapping):
                raise DumpError(f"{path}: holds a {type(content).__name__}, not a mapping of tensors by name")
            return {str(name): value for name, value in content.items()}
        tensors, metadata = stored.map_safetensors(path)
        if "weight" not in tensors and "weight_file" in metadata:
            tensors["weight"] = _weight_of(path, metadata)
        return {**tensors, **{name: value for name, value in metadata.items() if _option_of(name)}}
    except ImportError as error:
        raise DumpError(f"{path}: reading it takes {error.name}, which is not installed here") from None
    except DumpError:
        raise
    except (ValueError, RuntimeError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        told = str(error).splitlines() or [type(error).__name__]
        raise DumpError(f"{path}: {told[0]}") from None


def _weight_of(path: pathlib.Path, metadata: Mapping[str, str]) -> stored.Tensor:
    """The weight of a call that plumbline.capture wrote with an earlier one."""
    other = path.parent / metadata["weight_file"]
    try:
        weight = stored.map_safetensors(other)[0].get("weight")
    except OSError as error:
        raise DumpError(f"{path}: its weight_file {other} cannot be read: {error.strerror}") from None
    if weight is None or weight.digest() != metadata.get("weight_digest"):
        raise DumpError(f"{path}: its weight_file {other} holds another weight now, or none")
    return weight


def _role_of(name: str) -> str | None:
    return next((role for role, pattern in _NAMES.items() if re.fullmatch(pattern, name.lower())), None)


def _option_of(name: str) -> str | None:
    return next((option for option, pattern in _OPTIONS.items() if re.fullmatch(pattern, name.lower())), None)


def _integer(name: str, value: Any) -> int:
    """An integer that a file holds as text, as a number, or as an array of one."""
    try:
        number = value.values()[0] if isinstance(value, stored.Tensor) and value.elements == 1 else value
        whole = int(number)
        if isinstance(number, str) or float(number) == whole:
            return whole
    except (TypeError, ValueError, OverflowError, RuntimeError):
        pass
    raise DumpError(f"{name} is {value!r}, not an integer")


def _roles(found: Mapping[str, Any], named: Mapping[str, str]) -> dict[str, str]:
    """The name of an array by its role."""
    roles: dict[str, str] = {}
    listed = ", ".join(sorted(found))
    for name in named:
        if name not in found:
            raise DumpError(f"--name {name}={named[name]}: there is no such array; there are {listed}")
    for name in found:
        role = named.get(name) or _role_of(name)
        if role is None or _option_of(name):
            continue
        if role not in _NAMES:
            raise DumpError(f"--name {name}={role}: no tensor of a dump; these are {', '.join(_NAMES)}")
        if role in roles and name not in named:
            if roles[role] in named:
                continue
            raise DumpError(f"{roles[role]} and {name} may both be {role}: say which by --name {name}={role}")
        roles[role] = name
    for role in signature.REQUIRED:
        if role not in roles:
            raise DumpError(f"no array is {role}; there are {listed}: say which by --name NAME={role}")
    return roles


def _narrow(tensor: stored.Tensor) -> stored.Tensor:
    # An array takes what fp32 does not hold as infinite, where struct.pack raises.
    return stored.Tensor("F32", tensor.shape, array.array("f", tensor.values()).tobytes())


def _tensor(name: str, value: Any) -> stored.Tensor:
    if isinstance(value, stored.Tensor):
        return value
    try:
        return arrays.tensor_of(name, value, view=True)
    except TypeError as error:
        raise DumpError(str(error)) from None


def _shaped(role: str, name: str, tensor: stored.Tensor, rows: tuple[int, ...], lines: list[str]) -> stored.Tensor:
    """A tensor as a dump has it: [N, H] or [N] where the job had [B, S, H] or [B, S]."""
    shape = tensor.shape
    if role in ("hidden", "grad_hidden") and len(shape) > 2:
        shape = (tensor.elements // max(shape[-1], 1), shape[-1])
    elif role in OF_ROWS and len(shape) > 1 and shape == rows:
        shape = (tensor.elements,)
    elif role == "loss" and tensor.elements == 1:
        shape = ()
    dtype = tensor.dtype
    if role in _NARROWED and dtype in ("float64", "F64"):
        tensor, dtype = _narrow(stored.Tensor("F64", tensor.shape, tensor.data)), "F32"
    told = stored.NAMES.get(dtype, dtype)
    lines.append(f"{role:<12} {list(shape)} {told} from {name}")
    if dtype not in stored.NAMES:
        raise DumpError(f"{name} is {dtype}, where {role} takes {', '.join(stored.NAMES.values())}: save what the kernel read")
    return stored.Tensor(dtype, shape, tensor.data)


def _vocabulary_size(asked: int | None, options: Mapping[str, Any], rows: int, shard: bool) -> int | None:
    """The number of rows of weight that are no padding; None where all are."""
    name, size = ("--vocabulary", asked) if asked is not None else ("vocabulary_size", options.get("vocabulary_size"))
    if size is None:
        return None
    if size < 1 or size > rows and not shard:
        raise DumpError(f"{name} {size}: weight has {rows} rows")
    return None if size == rows and not shard else size


def _options(found: Mapping[str, Any], roles: Mapping[str, str]) -> dict[str, Any]:
    """Metadata that the file holds, by the names of a dump: integers, but for the reduction."""
    options: dict[str, Any] = {}
    for name, value in found.items():
        option = _option_of(name)
        if option is None or name in roles.values():
            continue
        if option in options:
            raise DumpError(f"{name} is {value!r}, and there is another {option}, {options[option]!r}")
        options[option] = str(value) if option == "reduction" else _integer(name, value)
    return options


def make(
    found: Mapping[str, Any],
    named: Mapping[str, str] | None = None,
    *,
    vocabulary: int | None = None,
    ignore_index: int | None = None,
    reduction: str | None = None,
    shard: bool = False,
) -> Made:
    """A dump of arrays by name; with `shard`, of those of one rank. Raises DumpError."""
    roles = _roles(found, named or {})
    raw = {role: _tensor(name, found[name]) for role, name in roles.items()}
    rows = raw["hidden"].shape[:-1]
    lines: list[str] = []
    tensors = {role: _shaped(role, roles[role], tensor, rows, lines) for role, tensor in raw.items()}
    n = tensors["hidden"].shape[0] if tensors["hidden"].shape else 0
    loss = tensors.get("loss")
    if loss is not None and loss.shape == (n,) and n != 1:
        values = [-value for value in loss.values()]
        tensors["logprob"] = stored.Tensor("F32", (n,), struct.pack(f"<{n}f", *values))
        del tensors["loss"]
        lines.append("logprob      is -loss of each row; reduction none")
        reduction = reduction or "none"
    options = _options(found, roles)
    weight_rows = tensors["weight"].shape[0] if tensors["weight"].shape else 0
    size = _vocabulary_size(vocabulary, options, weight_rows, shard)
    if size is not None:
        lines.append(f"weight       rows from {size} on are padding (vocabulary_size)")
    left = [name for name in found if name not in roles.values() and not _option_of(name)]
    if left:
        lines.append(f"left out: {', '.join(sorted(left))}: --name NAME=ROLE takes them in")
    values = {
        "ignore_index": ignore_index if ignore_index is not None else options.get("ignore_index"),
        "reduction": reduction or options.get("reduction"),
        "vocabulary_size": size,
    }
    metadata = {key: str(value) for key, value in values.items() if value is not None}
    return Made(tensors, metadata, lines, {key: value for key, value in options.items() if key not in values})


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m plumbline.dump", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("file", type=pathlib.Path, metavar="FILE|FOLDER")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--name", action="append", default=[], metavar="FOUND=NAME")
    parser.add_argument("--vocabulary", type=int)
    parser.add_argument("--ignore-index", type=int)
    parser.add_argument("--reduction", choices=("none", "sum", "mean"))
    parser.add_argument("--rank", type=int)
    options = parser.parse_args(words)
    out = options.out or options.file.with_name(options.file.stem + ".dump.safetensors")
    named = dict(pair.rpartition("=")[::2] for pair in options.name)
    chosen = {"vocabulary": options.vocabulary, "ignore_index": options.ignore_index, "reduction": options.reduction}
    try:
        if options.file.is_dir():
            from . import shards

            made = shards.join(options.file, named, out=out, rows_of=options.rank, **chosen)
            stored.write_joined(out, made.parts, made.metadata)
        elif options.rank is not None:
            raise DumpError(f"--rank {options.rank}: {options.file} is no folder of ranks' files")
        else:
            if out.exists() and out.samefile(options.file):
                raise DumpError(f"--out {out}: that is the file itself")
            made = make(load(options.file), named, **chosen)
            stored.write_safetensors(out, made.tensors, made.metadata)
    except (DumpError, OSError) as error:
        print(f"plumbline.dump: {error}", file=sys.stderr)
        return 2
    print("\n".join(made.lines))
    print(f"wrote {out}; plumb check {out} judges it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
