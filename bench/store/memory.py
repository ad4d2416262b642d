# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store memory [--earlier LIBRARY --revision GIT] [--out FILE.json]

Stores what a step of the operator holds beyond inputs, outputs and gradients in bench/results/memory.json, by what the
operator itself says of its sizes: it takes no GPU. It has for each shape the MiB of workspace and saved state together:

  recomputed   two calls that keep no logits
  consumed     all logits kept for one backward pass, which writes over them
  surviving    all logits kept for any number of backward passes
  in_forward   gradients in forward, of a mean, with the default limit

Sizes depend on shapes alone, so those of half the rows ignored are those of none.

  --earlier LIBRARY  peers_operator.so of an earlier build, whose sizes stand beside these; without it those that FILE has
  --revision GIT     the revision of which that library was built
  --out FILE         stores the result here [bench/results/memory.json]

An earlier library that knows no surviving state keeps the same in both. Exit status: 0; 2 usage; 3 a library says no sizes.
"""

import argparse
from pathlib import Path
from typing import Any

from peers.command import SHAPES
from peers.operator_call import POINTERS, CallLayout, Library
from peers.worker import shape_of
from report.command_line import load, refusing

from store import builds, plumb, stored, trees

ROOT = trees.ROOT
FEW_ROWS = [f"{rows}x4096x151936" for rows in (256, 512, 1024, 2048)]
MEASURED = [shape for shape in SHAPES if "half_ignored" not in shape] + FEW_ROWS
# What a call has beside its shape, by form.
FORMS = {"recomputed": {}, "consumed": {"saved_logits": 1}, "surviving": {"saved_logits": 1, "saved_survives": 1},
         "in_forward": {"mean": 1}}
SOMEWHERE = 64  # an address: GetSizes reads no tensor


def mebibytes(library: Library, shape: str, form: str) -> float:
    """Returns what one form holds at a shape, workspace and saved state together."""
    n, h, v, _ = shape_of(shape)
    call = CallLayout(n=n, h=h, v=v, gradients=1, **FORMS[form], **dict.fromkeys(POINTERS, SOMEWHERE))
    function, count = ("plumbline_at_once_size", 1) if form == "in_forward" else ("plumbline_sizes", 2)
    return round(sum(library.sizes(function, call, count)) / 2**20, 3)


def sizes_of(path: Path) -> list[dict[str, Any]]:
    """Returns the MiB of every form at every shape, as a library says them."""
    with refusing(f"{path}", 3):
        library = Library(path)
        try:
            return [{"shape": shape, "MiB": {form: mebibytes(library, shape, form) for form in FORMS}} for shape in MEASURED]
        except RuntimeError as fault:  # which the operator's refusals are
            raise ValueError(str(fault)) from fault


def earlier_of(given: argparse.Namespace) -> dict[str, Any]:
    """Returns the revision of the earlier build, and its sizes."""
    if given.earlier:
        return {"revision": given.revision, "measured": sizes_of(given.earlier)}
    with refusing(f"{given.out}: no earlier build's sizes; --earlier LIBRARY is needed"):
        return load(given.out)["earlier"]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store memory")
    parser.add_argument("--earlier", type=Path, metavar="LIBRARY")
    parser.add_argument("--revision", metavar="GIT")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/memory.json")
    given = parser.parse_args(words)
    if bool(given.earlier) != bool(given.revision):
        parser.error("--earlier LIBRARY and --revision GIT go together")
    earlier = earlier_of(given)
    program = builds.release(ROOT, "peers_operator")
    measured = sizes_of(ROOT / "build/release/bench/peers_operator.so")
    stored.write(given.out, "python3 bench/store memory", trees.committed_keys(ROOT, ("kernel",)), plumb.machine(program),
                 earlier=earlier, measured=measured)
    print(f"{len(measured)} shapes: {given.out.name}")
    return 0
