# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store stretch-bounds [--as-built KEYS] [--out FILE.json]

Stores the whole bound of an element of grad_hidden with the stretches of `host-hopper` and without them, where logits are
exact, in bench/results/stretch-bounds.json: one row of 4 hidden values and V columns on a lattice, every product and sum of
which fp32 holds, an fp32 output, an upstream gradient of logprob or of entropy alone. `plumb check` says the bound of an
element that is far off, by three contracts: that of `host-hopper`, the same without `kept_argument`, and without
`grad_hidden_stretch` and `grad_hidden_stretches`, too, which is the one of the build before them.

  --as-built KEYS  takes the program as it is built; KEYS is a file of what `python3 bench/store trees` printed
  --out FILE       stores the result here [bench/results/stretch-bounds.json]

Exit status: 0; 2 usage; 3 plumb says no bound.
"""

import argparse
import json
import random
import struct
import tempfile
from pathlib import Path
from typing import Any

from report.command_line import refusing

from store import builds, plumb, stored, trees

ROOT = trees.ROOT
TARGET = "host-hopper"
VOCABULARIES = (131072, 151936, 256000)
DTYPES = {"bf16": "BF16", "fp16": "F16"}
STEPS = (0.25, 1)  # of weight's lattice: logits have standard deviations of about 1 and 4
UPSTREAM = {"logprob": (1.0, 0.0), "entropy": (0.0, 1.0)}
H = 4
STRETCHES = ("grad_hidden_stretch", "grad_hidden_stretches")
# The keys that each contract lacks.
WITHOUT = {"earlier": (*STRETCHES, "kept_argument"), "stretches": ("kept_argument",), "stretches_and_exponents": ()}
FAR_OFF = 1e30


def sixteen_bits(dtype: str, value: float) -> bytes:
    """A value that the dtype holds."""
    return struct.pack("<e", value) if dtype == "fp16" else struct.pack("<f", value)[2:]


def write_dump(path: Path, dtype: str, v: int, step: float, upstream: str) -> None:
    """A dump whose grad_hidden[0, 0] is far off."""
    generator = random.Random(1)
    hidden = [generator.choice((-1, -0.5, 0.5, 1)) for _ in range(H)]
    weight = [sixteen_bits(dtype, step * each) for each in range(-4, 5)]
    grad_logprob, grad_entropy = UPSTREAM[upstream]
    label = generator.randrange(v)
    tensors = [("labels", "I64", [1], struct.pack("<q", label)), ("grad_logprob", "F32", [1], struct.pack("<f", grad_logprob)),
               ("grad_entropy", "F32", [1], struct.pack("<f", grad_entropy)),
               ("hidden", DTYPES[dtype], [1, H], b"".join(sixteen_bits(dtype, value) for value in hidden)),
               ("weight", DTYPES[dtype], [v, H], b"".join(generator.choices(weight, k=v * H))),
               ("grad_hidden", "F32", [1, H], struct.pack(f"<{H}f", FAR_OFF, *[0.0] * (H - 1)))]
    header: dict[str, Any] = {"__metadata__": {"gradients": "fp32"}}
    offset = 0
    for name, kind, shape, data in tensors:
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for *_, data in tensors))


def contract_without(description: dict[str, Any], keys: tuple[str, ...]) -> str:
    contract = {key: value for key, value in description["contract"].items() if key not in keys}
    lacking = set(keys) - set(description["contract"])
    if lacking:
        raise ValueError(f"{TARGET} has no {', '.join(sorted(lacking))}")
    return json.dumps({**description, "contract": contract})


def bound(program: Path, dump: Path, contract: Path) -> float:
    """What plumb allows the element that is far off."""
    _, said = plumb.ask(program, "check", dump, "--contract", contract, "--rows", "all", "--arbiter", "1ms")
    worst = next(each["worst"] for each in said["dumps"][0]["outputs"] if each["output"] == "grad_hidden")
    if (worst["row"], worst["column"]) != (0, 0):
        raise ValueError(f"the worst is grad_hidden[{worst['row']}, {worst['column']}]")
    return float(worst["bound"])


def measure(program: Path) -> list[dict[str, Any]]:
    description = plumb.ask(program, "targets", TARGET)[1]["description"]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        dump, contracts = Path(folder) / "dump.safetensors", {}
        for name, keys in WITHOUT.items():
            contracts[name] = Path(folder) / f"{name}.json"
            contracts[name].write_text(contract_without(description, keys), encoding="utf-8")
        for dtype, v, step, upstream in [(dtype, v, step, upstream) for dtype in DTYPES for v in VOCABULARIES for step in STEPS
                                         for upstream in UPSTREAM]:
            write_dump(dump, dtype, v, step, upstream)
            bounds = {name: bound(program, dump, path) for name, path in contracts.items()}
            ratios = {name: round(bounds[name] / bounds["earlier"], 3) for name in WITHOUT if name != "earlier"}
            found.append({"dtype": dtype, "v": v, "step": step, "upstream": upstream,
                          "bounds": {name: float(f"{value:.4g}") for name, value in bounds.items()}, "over_earlier": ratios})
            print(f"{dtype} V={v} step {step:g} {upstream}: {ratios}", flush=True)
    return found


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store stretch-bounds")
    parser.add_argument("--as-built", type=Path, metavar="KEYS")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/stretch-bounds.json")
    given = parser.parse_args(words)
    rooms = ("oracle",)
    program = builds.release(ROOT, *(() if given.as_built else ("plumb",)))
    about = trees.keys_in(given.as_built, rooms) if given.as_built else trees.committed_keys(ROOT, rooms)
    with refusing("nothing stored", 3):
        measured = measure(program)
        stored.write(given.out, "python3 bench/store stretch-bounds", about, plumb.machine(program), measured=measured)
    return 0
