# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store check_dump [--n N] [--v V] [--h H] [--gradients | --store FILE] [--threads T]
                                       [--folder DIR] [--plumb PLUMB]

Times `plumb check` on a dump of a real size.

Writes N hidden states, N labels and a weight of V x H, bf16, with every byte written (no holes), into a
temporary folder; runs `plumb check` on it, the host target's forward pass included; prints one JSON object
with the seconds, the machine and what was judged. The default is 151936 x 4096, 1.25 GB, 64 rows. With
--store FILE it does so without gradients and with them, and FILE holds both, the date, the machine and the keys of
the rooms that they are about.

Exit status: that of plumb; 2 usage; 3 plumb, or the disk, gave no result.
"""

import argparse
import json
import os
import random
import struct
import tempfile
import time
from pathlib import Path
from typing import Any

from report.command_line import Refused, refusing

from store import stored, trees
from store.plumb import ask, machine


def bf16(generator: random.Random, count: int, exponent: int) -> bytearray:
    """`count` finite values with random signs and fractions, magnitudes from 2^(exponent-3) to 2^(exponent+1)."""
    table = bytes(((byte & 1) << 7) | ((exponent + 127 - 1 - (byte >> 1 & 1)) >> 1) for byte in range(256))
    out = bytearray(2 * count)
    out[0::2] = generator.randbytes(count)
    out[1::2] = generator.randbytes(count).translate(table)
    return out


def write(path: Path, n: int, v: int, h: int, gradients: bool) -> None:
    """A dump without recorded outputs; with upstream gradients where they are asked for."""
    generator = random.Random(1)
    entries, offset = {}, 0
    tensors = [("labels", "I64", [n], 8 * n)]
    if gradients:
        tensors += [("grad_logprob", "F32", [n], 4 * n), ("grad_entropy", "F32", [n], 4 * n)]
    tensors += [("hidden", "BF16", [n, h], 2 * n * h), ("weight", "BF16", [v, h], 2 * v * h)]
    for name, dtype, shape, size in tensors:
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.write(struct.pack(f"<{n}q", *(generator.randrange(v) for _ in range(n))))
        if gradients:
            file.writelines(struct.pack(f"<{n}f", *(scale * generator.gauss(0, 1) for _ in range(n)))
                            for scale in (1, 0.01))
        file.write(bf16(generator, n * h, 0))
        rows_at_a_time = max(1, (1 << 24) // h)
        file.writelines(bf16(generator, min(rows_at_a_time, v - first) * h, -5)
                        for first in range(0, v, rows_at_a_time))
        file.flush()
        os.fsync(file.fileno())


def measure(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """(plumb's status, what was measured)."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        dump = Path(folder) / "dump.safetensors"
        write(dump, options.n, options.v, options.h, options.gradients)
        before, start = os.times(), time.monotonic()
        status, result = ask(options.plumb, "check", dump, "--threads", str(options.threads))
        seconds = time.monotonic() - start
        usage = os.times()
        size = dump.stat().st_size
    return status, {
        "n": options.n, "v": options.v, "h": options.h, "gradients": options.gradients, "bytes": size,
        "threads": options.threads, "seconds": round(seconds, 2),
        "cpu_seconds": round(usage.children_user + usage.children_system - before.children_user
                                               - before.children_system, 2), "verdict": result["verdict"],
        "judged": {o["output"]: o["pass"] + o["fail"] for d in result["dumps"] for o in d.get("outputs", [])},
    }


def store_both(options: argparse.Namespace) -> int:
    """Measures without gradients and with them, and stores both; plumb's worst status."""
    about, runs, statuses = trees.committed_keys(trees.ROOT), [], []
    for options.gradients in (False, True):
        status, measured = measure(options)
        statuses.append(status)
        runs.append(measured)
    stored.write(options.store, "python3 bench/store check_dump --store", about, machine(options.plumb), runs=runs)
    return max(statuses)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store check_dump")
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--v", type=int, default=151936)
    parser.add_argument("--h", type=int, default=4096)
    parser.add_argument("--gradients", action="store_true",
                        help="with upstream gradients: both are asked for and judged")
    parser.add_argument("--store", type=Path, metavar="FILE", help="both, into FILE (bench/results/check-dump.json)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder", default=None, help="where the temporary folder goes")
    parser.add_argument("--plumb", default=trees.ROOT / "build/release/fuzz/plumb", type=Path)
    options = parser.parse_args(words)
    for name in ("n", "v", "h", "threads"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: at least 1 is needed")
    if not options.plumb.exists():
        raise Refused(f"no {options.plumb}; tests/run or fuzz/run builds it")
    if options.store and options.gradients:
        parser.error("--gradients: --store measures both without and with them")
    with refusing("no result", 3):
        if options.store:
            return store_both(options)
        status, measured = measure(options)
        print(json.dumps({**measured, "machine": machine(options.plumb)}))
        return status
