#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The largest error over bound of the CUDA operator and of PyTorch's unfused result, from the same inputs.

usage: tightness.py [--plumb PLUMB] [--folder FOLDER] [--threads T]        needs a GPU and PyTorch

Inputs at the size of a model, of a few kinds, are written as dumps (fuzz/check/CHECK.md) and judged by `plumb check`,
all rows, under the contract of `cuda`: what `cuda` and `cuda-portable` make of them, and what PyTorch makes of them as
people write it,

    logits = hidden @ weight.T                  rounded to the inputs' dtype; or of hidden.float(), weight.float()
    logp = torch.log_softmax(logits.float(), -1)
    logprob, entropy = logp.gather(-1, labels), -(logp.exp() * logp).sum(-1)

with autograd's gradients. Prints one Markdown table and, last, one JSON object. Exit status: 0 no element of cuda or
cuda-portable is beyond its bound, 1 one is, 3 anything else went wrong, 4 no GPU or no PyTorch.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

OUTPUTS = ["logprob", "entropy", "grad_hidden", "grad_weight"]
WAYS = ["cuda", "cuda-portable", "torch, logits in the inputs' dtype", "torch, logits in fp32"]
SHAPE = {"n": 256, "v": 32801, "h": 2048}  # no multiple of anything


def write_dump(path, tensors):
    names = {"torch.bfloat16": "BF16", "torch.float16": "F16", "torch.float32": "F32", "torch.int64": "I64"}
    header, offset = {}, 0
    ordered = sorted(tensors.items(), key=lambda entry: -entry[1].element_size())  # keeps all aligned
    for name, tensor in ordered:
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": names[str(tensor.dtype)], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in ordered:
            import torch
            file.write(tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu().numpy().tobytes())


def inputs(torch, kind, dtype, seed):
    """ordinary: logits of deviation 1.3. confident: p near 1 at most labels. offset: all logits share about 200."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    n, v, h = SHAPE["n"], SHAPE["v"], SHAPE["h"]

    def bell(*shape):
        return torch.randn(*shape, generator=generator, device="cuda")
    hidden, weight = bell(n, h), bell(v, h) * 0.03
    labels = torch.randint(0, v, (n,), generator=generator, device="cuda")
    if kind == "confident":
        hidden = weight[labels] * (12 * torch.rand(n, 1, generator=generator, device="cuda") + 4) + 0.1 * hidden
    if kind == "offset":
        hidden[:, 7], weight[:, 7] = 50, 4
    return {"hidden": hidden.to(dtype), "weight": weight.to(dtype), "labels": labels,
            "grad_logprob": bell(n), "grad_entropy": bell(n) * 0.05}


def by_torch(torch, given, wide):
    hidden = given["hidden"].detach().requires_grad_()
    weight = given["weight"].detach().requires_grad_()
    logits = hidden.float() @ weight.float().T if wide else hidden @ weight.T
    logp = torch.log_softmax(logits.float(), dim=-1)
    logprob = logp.gather(-1, given["labels"][:, None])[:, 0]
    entropy = -(logp.exp() * logp).sum(-1)
    (logprob * given["grad_logprob"] + entropy * given["grad_entropy"]).sum().backward()
    return {"logprob": logprob, "entropy": entropy, "grad_hidden": hidden.grad, "grad_weight": weight.grad}


def check(plumb, dump, words, threads):
    command = [plumb, "check", str(dump), "--rows", "all", "--threads", str(threads), "--arbiter", "1ms", "--json",
               *words]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1, 6):  # 6: suspect, as PyTorch's outputs of rounded logits are
        raise RuntimeError(f"{' '.join(command)}: status {run.returncode}: {run.stderr[-400:]}")
    try:
        return json.loads(run.stdout.splitlines()[-1])["dumps"][0]
    except (ValueError, KeyError, IndexError, TypeError) as fault:
        raise RuntimeError(f"{' '.join(command)}: status {run.returncode}, and no JSON object with a dump last: "
                           f"{fault!r}: {run.stdout[-400:]}") from fault


def rows_of(kind, dtype, way, dump):
    for entry in dump["outputs"]:
        if entry["output"] not in OUTPUTS:
            continue
        worst = entry.get("worst", {})
        error = None
        if isinstance(worst.get("got"), (int, float)) and isinstance(worst.get("expected"), (int, float)):
            error = abs(worst["got"] - worst["expected"])
        yield {"inputs": kind, "dtype": dtype, "by": way, "output": entry["output"], "tightness": entry["tightness"],
               "error": error, "judged": entry["pass"] + entry["fail"], "beyond": entry["fail"],
               "vacuous": entry["vacuous"]}


def table(figures):
    """The largest error over bound, and the error there, over all kinds of inputs of a dtype."""
    lines = ["| inputs | by | " + " | ".join(OUTPUTS) + " |", "|---|---|" + "---:|" * len(OUTPUTS)]
    for dtype in dict.fromkeys(f["dtype"] for f in figures):
        for way in WAYS:
            cells = []
            for output in OUTPUTS:
                mine = [f for f in figures if (f["dtype"], f["by"], f["output"]) == (dtype, way, output)]
                if not mine:
                    cells.append("–")
                    continue
                top = max(mine, key=lambda f: float(f["tightness"]))  # "inf" and "nan" are strings in JSON
                error = "" if top["error"] is None else f" ({top['error']:.1e})"
                cells.append(f"{float(top['tightness']):.3g}{error}")
            if set(cells) != {"–"}:
                lines.append(f"| {dtype} | {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plumb", default=str(Path(__file__).resolve().parents[2] / "build/release/fuzz/plumb"))
    parser.add_argument("--folder", type=Path, default=Path("tightness-dumps"))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("tightness.py: PyTorch is not installed", file=sys.stderr)
        return 4
    if not torch.cuda.is_available():
        print("tightness.py: PyTorch sees no GPU", file=sys.stderr)
        return 4
    torch.backends.cuda.matmul.allow_tf32 = False
    options.folder.mkdir(parents=True, exist_ok=True)
    wanted = [("bf16", kind) for kind in ("ordinary", "confident", "offset")]
    wanted += [("fp16", "ordinary"), ("fp16", "offset"), ("fp32", "ordinary"), ("fp32", "offset")]
    dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    jobs = []
    for seed, (dtype, kind) in enumerate(wanted):
        given = inputs(torch, kind, dtypes[dtype], seed)
        bare = options.folder / f"{dtype}-{kind}.safetensors"
        write_dump(bare, given)
        for way in WAYS[:2]:
            jobs.append((kind, dtype, way, bare, ["--target", way]))
        for way, wide in [(WAYS[2], False), (WAYS[3], True)]:
            if dtype == "fp32" and not wide:
                continue  # the same
            dump = options.folder / f"{dtype}-{kind}-{'wide' if wide else 'narrow'}.safetensors"
            write_dump(dump, {**given, **by_torch(torch, given, wide)})
            jobs.append((kind, dtype, way, dump, ["--target", "cuda"]))  # outputs in the dump, cuda's contract
    torch.cuda.empty_cache()
    at_once = max(1, min(4, options.threads // 4))
    with ThreadPoolExecutor(at_once) as pool:
        threads = max(1, options.threads // at_once)
        dumps = list(pool.map(lambda j: check(options.plumb, j[3], j[4], threads), jobs))
    figures = [row for job, dump in zip(jobs, dumps) for row in rows_of(*job[:3], dump)]
    text = table(figures)
    (options.folder / "table.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    beyond = sum(f["beyond"] for f in figures if f["by"] in WAYS[:2])
    print(json.dumps({"shape": SHAPE, "torch": torch.__version__, "device": torch.cuda.get_device_name(),
                      "beyond": beyond, "table": text.splitlines(), "figures": figures}))
    for path in {job[3] for job in jobs}:
        path.unlink()
    return 1 if beyond else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:  # noqa: BLE001  Python would end with status 1, which says that an element is beyond its bound
        traceback.print_exc()
        sys.exit(3)
