#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes three dumps into the folder that is named: clean.safetensors, wrong.safetensors, inputs.safetensors.

The values are powers of two, small integers and exact fractions, and the outputs are computed in float64.
wrong.safetensors has logprob computed without the temperature; inputs.safetensors has no outputs.
"""

import json
import math
import struct
import sys
from pathlib import Path

N, V, H = 6, 40, 8
TEMPERATURE = 0.5
Tensor = tuple[str, list[int], bytes]


def f32(values: list[float]) -> bytes:
    """The values as fp32."""
    return struct.pack(f"<{len(values)}f", *values)


def bf16(values: list[float]) -> bytes:
    """The values as bf16; each must be representable."""
    words = [struct.unpack("<I", struct.pack("<f", x))[0] for x in values]
    assert all(word & 0xFFFF == 0 for word in words)
    return b"".join(struct.pack("<H", word >> 16) for word in words)


def write(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """A safetensors file: the tensors in the order of their sizes, so that each is aligned."""
    header: dict[str, object] = {"__metadata__": metadata}
    at, body = 0, b""
    for name, (dtype, shape, data) in sorted(tensors.items(), key=lambda t: (t[1][0] != "I64", t[1][0] != "F32")):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at, body = at + len(data), body + data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def main(folder: Path) -> None:
    """Computes and writes all three."""
    hidden = [[((3 * i + 5 * d) % 7 - 3) / 4 for d in range(H)] for i in range(N)]
    weight = [[((2 * j + 3 * d) % 11 - 5) / 4 for d in range(H)] for j in range(V)]
    labels = [(7 * i + 2) % V for i in range(N)]
    labels[3] = -100
    logprob, entropy, lse, unscaled = [], [], [], []
    for row, label in zip(hidden, labels, strict=True):
        logits = [sum(a * b for a, b in zip(row, column, strict=True)) for column in weight]
        for scale, out in ((TEMPERATURE, logprob), (1.0, unscaled)):
            z = [x / scale for x in logits]
            total = math.log(math.fsum(math.exp(x) for x in z))
            out.append(0.0 if label == -100 else z[label] - total)
            if out is logprob:
                lse.append(0.0 if label == -100 else total)
                entropy.append(0.0 if label == -100 else total - math.fsum(x * math.exp(x - total) for x in z))
    inputs: dict[str, Tensor] = {
        "hidden": ("BF16", [N, H], bf16([x for row in hidden for x in row])),
        "weight": ("BF16", [V, H], bf16([x for row in weight for x in row])),
        "labels": ("I64", [N], struct.pack(f"<{N}q", *labels)),
        "temperature": ("F32", [], f32([TEMPERATURE])),
        "grad_logprob": ("F32", [N], f32([-0.25] * N)),
    }
    metadata = {"ignore_index": "-100", "reduction": "none"}
    outputs: dict[str, Tensor] = {"logprob": ("F32", [N], f32(logprob)), "entropy": ("F32", [N], f32(entropy)),
                                  "lse": ("F32", [N], f32(lse))}
    write(folder / "clean.safetensors", inputs | outputs, metadata)
    write(folder / "wrong.safetensors", inputs | outputs | {"logprob": ("F32", [N], f32(unscaled))}, metadata)
    write(folder / "inputs.safetensors", inputs, metadata)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
