# SPDX-License-Identifier: Apache-2.0
"""usage: python -m plumbline.dump FILE [--out DUMP.safetensors] [--name FOUND=NAME]… [--vocabulary K]
                                [--ignore-index I] [--reduction none|sum|mean]

Makes a dump for `plumb check` of what a training job saved: FILE is a mapping of arrays as torch.save (.pt, .pth; tensors
and numbers alone), numpy.savez (.npz) or safetensors wrote it, of any shapes and names that frameworks use. Prints what
became of each array.

  [B, S, H]   is flattened to [N, H], and what belongs to rows likewise
  names       hidden_states, lm_head.weight, target, logprobs … are told by themselves; --name says the others
  fp64        outputs, temperature and upstream gradients are rounded to fp32, half a unit in the last place
  loss        one value a row is stored as logprob, negated, with reduction none
  --vocabulary K  rows of weight from K on are padding that the kernel masks: they are left out, and of grad_weight too

Exit status: 0; 2 what cannot be read, or told, with the array and what is known of it.
"""

from __future__ import annotations

import argparse
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

_OUTPUTS = {
    "logprob": r"(token_|per_token_|new_|selected_)?(logprobs?|log_probs?|logps?|lp)",
    "entropy": r"(token_)?(entropy|entropies|ent)",
    "lse": r"lse|logsumexp|log_z|logz",
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
_OF_ROWS = ("labels", "logprob", "entropy", "lse", "temperature", "grad_logprob", "grad_entropy", "loss")
_NARROWED = ("logprob", "entropy", "lse", "loss", "temperature", "grad_logprob", "grad_entropy")


class DumpError(ValueError):
    """What a job saved cannot be made a dump of; the text names the array and what is known of it."""


@dataclasses.dataclass
class Made:
    """A dump, and a line on each array that it was made of."""

    tensors: dict[str, stored.Tensor]
    metadata: dict[str, str]
    lines: list[str]


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

            content = torch.load(path, map_location="cpu", weights_only=True)
            if not isinstance(content, Mapping):
                raise DumpError(f"{path}: holds a {type(content).__name__}, not a mapping of tensors by name")
            return {str(name): value for name, value in content.items()}
        tensors, metadata = stored.read_safetensors(path)
        return {**tensors, **{name: metadata[name] for name in ("ignore_index", "reduction") if name in metadata}}
    except ImportError as error:
        raise DumpError(f"{path}: reading it takes {error.name}, which is not installed here") from None
    except DumpError:
        raise
    except (ValueError, RuntimeError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        told = str(error).splitlines() or [type(error).__name__]
        raise DumpError(f"{path}: {told[0]}") from None


def _role_of(name: str) -> str | None:
    return next((role for role, pattern in _NAMES.items() if re.fullmatch(pattern, name.lower())), None)


def _roles(found: Mapping[str, Any], named: Mapping[str, str]) -> dict[str, str]:
    """The name of an array by its role."""
    roles: dict[str, str] = {}
    listed = ", ".join(sorted(found))
    for name in named:
        if name not in found:
            raise DumpError(f"--name {name}={named[name]}: there is no such array; there are {listed}")
    for name in found:
        role = named.get(name) or _role_of(name)
        if role is None or role in ("ignore_index", "reduction"):
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
    values = tensor.values()
    return stored.Tensor("F32", tensor.shape, struct.pack(f"<{tensor.elements}f", *values))


def _tensor(name: str, value: Any) -> stored.Tensor:
    if isinstance(value, stored.Tensor):
        return value
    try:
        return arrays.tensor_of(name, value)
    except TypeError as error:
        raise DumpError(str(error)) from None


def _shaped(role: str, name: str, tensor: stored.Tensor, rows: tuple[int, ...], lines: list[str]) -> stored.Tensor:
    """A tensor as a dump has it: [N, H] or [N] where the job had [B, S, H] or [B, S]."""
    shape = tensor.shape
    if role in ("hidden", "grad_hidden") and len(shape) > 2:
        shape = (tensor.elements // max(shape[-1], 1), shape[-1])
    elif role in _OF_ROWS and len(shape) > 1 and shape == rows:
        shape = (tensor.elements,)
    elif role == "loss" and tensor.elements == 1:
        shape = ()
    dtype = tensor.dtype
    if role in _NARROWED and dtype in ("float64", "F64"):
        tensor, dtype = _narrow(stored.Tensor("F64", tensor.shape, tensor.data)), "F32"
    told = stored.NAMES.get(dtype, dtype)
    lines.append(f"{role:<13}{list(shape)} {told} from {name}")
    if dtype not in stored.NAMES:
        raise DumpError(f"{name} is {dtype}, where {role} takes {', '.join(stored.NAMES.values())}: save what the kernel read")
    return stored.Tensor(dtype, shape, tensor.data)


def _cut(role: str, tensor: stored.Tensor, rows: int) -> stored.Tensor:
    """The first rows of a matrix."""
    if not 0 < rows <= tensor.shape[0]:
        raise DumpError(f"--vocabulary {rows}: {role} has {tensor.shape[0]} rows")
    width = len(tensor.data) // max(tensor.shape[0], 1)
    return stored.Tensor(tensor.dtype, (rows, *tensor.shape[1:]), tensor.data[: rows * width])


def make(
    found: Mapping[str, Any],
    named: Mapping[str, str] | None = None,
    *,
    vocabulary: int | None = None,
    ignore_index: int | None = None,
    reduction: str | None = None,
) -> Made:
    """A dump of arrays by name. Raises DumpError."""
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
    for role in ("weight", "grad_weight"):
        if vocabulary is not None and role in tensors:
            tensors[role] = _cut(role, tensors[role], vocabulary)
            lines.append(f"{role:<13}rows from {vocabulary} on are left out")
    left = [name for name in found if name not in roles.values() and name not in ("ignore_index", "reduction")]
    if left:
        lines.append(f"left out: {', '.join(sorted(left))}: --name NAME=ROLE takes them in")
    metadata = {}
    index = ignore_index if ignore_index is not None else found.get("ignore_index")
    if index is not None:
        metadata["ignore_index"] = str(int(index))
    kind = reduction or found.get("reduction")
    if kind is not None:
        metadata["reduction"] = str(kind)
    return Made(tensors, metadata, lines)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m plumbline.dump", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--name", action="append", default=[], metavar="FOUND=NAME")
    parser.add_argument("--vocabulary", type=int)
    parser.add_argument("--ignore-index", type=int)
    parser.add_argument("--reduction", choices=("none", "sum", "mean"))
    options = parser.parse_args(words)
    out = options.out or options.file.with_suffix(".dump.safetensors")
    named = dict(pair.rpartition("=")[::2] for pair in options.name)
    try:
        made = make(load(options.file), named, vocabulary=options.vocabulary, ignore_index=options.ignore_index,
                    reduction=options.reduction)
        stored.write_safetensors(out, made.tensors, made.metadata)
    except (DumpError, OSError) as error:
        print(f"plumbline.dump: {error}", file=sys.stderr)
        return 2
    print("\n".join(made.lines))
    print(f"wrote {out}; plumb check {out} judges it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
