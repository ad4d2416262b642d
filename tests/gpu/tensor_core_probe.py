#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets the model of Hopper's tensor cores (kernel/host/tensor_core.h) against the GPU at hand, bit for bit.

usage: tensor_core_probe.py FILE        FILE from the program tensor_core_probe; needs PyTorch >= 2.8, Triton

Each dot product is one diagonal element of a 64 x 64 tile, computed three ways: Triton's tl.dot with four warps
(wgmma on Hopper) and with two (mma.sync), and cuBLAS. Prints one line a group and way, examples of what differs,
and one JSON object last. Exit status: 0 all equal, 1 not.
"""

import datetime
import json
import sys

import numpy as np
import torch
import triton
import triton.language as tl

KINDS = ["bell", "patterns", "special", "spread", "cancelling", "like", "subnormal", "tiny-dense",
         "tiny-sparse", "huge", "lost"]
TILE = 64


@triton.jit
def dots(a_ptr, b_ptr, out_ptr, K: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    k = tl.arange(0, 16)
    acc = tl.zeros((T, T), dtype=tl.float32)
    for start in tl.static_range(0, K, 16):
        a = tl.load(a_ptr + row[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + row[None, :] * K + (start + k)[:, None])
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + row[:, None] * T + tl.arange(0, T)[None, :], acc)


def by_triton(a, b, warps):
    n, k = a.shape
    out = torch.empty((n, TILE), dtype=torch.float32, device="cuda")
    handle = dots[(n // TILE,)](a, b, out, K=k, T=TILE, num_warps=warps)
    used = [name for name in ("wgmma", "mma.sync", "fma.rn.f32") if name in handle.asm["ptx"]]
    return torch.diagonal(out.view(-1, TILE, TILE), dim1=1, dim2=2).reshape(n), "+".join(used)


def by_cublas(a, b):
    n, k = a.shape
    tiles = torch.bmm(a.view(-1, TILE, k), b.view(-1, TILE, k).transpose(1, 2), out_dtype=torch.float32)
    return torch.diagonal(tiles, dim1=1, dim2=2).reshape(n), "cuBLAS"


WAYS = [lambda a, b: by_triton(a, b, 4), lambda a, b: by_triton(a, b, 2), by_cublas]


def groups(path):
    with open(path, "rb") as file:
        while head := file.read(16):
            fp16, k, n, _ = np.frombuffer(head, dtype="<i4")
            kind = np.frombuffer(file.read(n), dtype="u1")
            a = np.frombuffer(file.read(2 * n * k), dtype="<i2").reshape(n, k)
            b = np.frombuffer(file.read(2 * n * k), dtype="<i2").reshape(n, k)
            yield bool(fp16), int(k), kind, a, b, np.frombuffer(file.read(4 * n), dtype="<u4")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    totals = {}
    for fp16, k, kind, a, b, want in groups(sys.argv[1]):
        dtype = torch.float16 if fp16 else torch.bfloat16
        left, right = (torch.from_numpy(x.copy()).cuda().view(dtype) for x in (a, b))
        for way in WAYS:
            value, how = way(left, right)
            got = value.contiguous().view(torch.int32).cpu().numpy().view(np.uint32)
            wrong = np.nonzero(got != want)[0]
            dots_so_far, wrong_so_far = totals.get(how, (0, 0))
            totals[how] = (dots_so_far + len(want), wrong_so_far + len(wrong))
            print(f"{'fp16' if fp16 else 'bf16'} K={k} {how}: {len(wrong)} of {len(want)} differ")
            for i in wrong[:3]:
                print(f"  {KINDS[kind[i]]}: got {got[i]:08x}, the model {want[i]:08x}")
                print("   a " + " ".join(f"{x & 0xffff:04x}" for x in a[i]))
                print("   b " + " ".join(f"{x & 0xffff:04x}" for x in b[i]))
    print(json.dumps({
        "device": torch.cuda.get_device_name(),
        "driver": torch.cuda.driver_version() if hasattr(torch.cuda, "driver_version") else None,
        "torch": torch.__version__, "triton": triton.__version__,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "by": {how: {"dots": d, "differ": w} for how, (d, w) in totals.items()},
    }))
    sys.exit(any(w for _, w in totals.values()))


if __name__ == "__main__":
    main()
