# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store sight (--v V [--h H] [--n N] | --dump FILE) [--at-once K] [--only NAME] [--as-built KEYS]
                                       [--minutes M] [--repeat K] [--out FILE]

What `plumb check` sees of defects at production size: N rows [64] of ordinary, massive-channel and confident data, V x H
[4096] weights, gradients in the dtype of the inputs and in fp32. Each of DEFECTS is run on them as a mutant of `host` (held
to black-box and pytorch-fp32-logits) and of `host-hopper` (held to hopper), beside the two without a defect. Each run's record
has, by output, the verdict, what an honest kernel of the contract and the target err (root mean squares beyond
rounding the output), and the shortcuts that explain it, in bench/results/sight-V.json.

A defect is asked to be seen where it errs more than 4 times the largest honest kernel in some output, and to be named
where it is a known rounding or form and was seen by its error alone. NumPy draws the data. With --dump the inputs are
those of a dump in bf16, at its own size, and the result is bench/results/sight-STEM.json.

  --at-once K  runs K checks beside each other, two threads each [1]
  --only NAME  prints the runs of this defect and stores nothing
  --as-built KEYS  takes the program as it is built; KEYS is a file of what `python3 bench/store trees` printed
  --minutes M  begins no run after M minutes; call it again to go on
  --repeat K   takes over the runs of a stored result of other trees, if K of them, evenly spread, have the same records
               again; each of the others says of which sources it is
  --out FILE   stores the result here [bench/results/sight-V.json]

Interrupt it and call it again to go on: each run has a file in build/campaigns/sight-V-H-N/ or sight-STEM/ once it is through.
A result with runs left is stored as well and names them. Runs of a stored result of the same trees are not run again. A
result has the machine of the last call, and a list of all that ran some of it.

Exit status: 0 every defect that errs more than 4 times an honest kernel is seen, and the targets without one are clean; 1
one of these is not so (stored too), or a record is another when it is repeated (nothing is stored); 2 usage or another tree; 3
what plumb says is no result; 5 runs are left (stored too).
"""

import argparse
import functools
import json
import multiprocessing
import struct
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, refusing
from report.sight_page import DATA, RIGHT, SEEN_FROM, own

from store import builds, plumb, stored, trees
from store.record import COMPLETE, said_by

ROOT = trees.ROOT
PLUMB = ROOT / "build/release/fuzz/plumb"
# What names each; empty: it is a bug, which no shortcut may explain.
DEFECTS = {
    "logits-rounded": "logits rounded to bf16", "logits-fp16": "logits rounded to fp16",
    "exponential-base": "log2(e) rounded to bf16 in the exponentials", "logprob-rounded": "logprob stored in bf16",
    "plain-logprob": "logprob formed as x_y - lse", "plain-entropy": "entropy formed as lse - sum p x",
    "saved-sum-rounded": "the softmax sum kept in bf16 for backward",
    "probability-rounded": "probabilities rounded to bf16 before the label's 1 is subtracted",
    "small-p-skipped": "no gradient from probabilities below 2^-12",
    "grad-hidden-accumulator": "grad_hidden accumulated in bf16 every",
    "grad-weight-accumulator": "grad_weight accumulated in bf16 every", "d-logits-rounded": "d_logits rounded to bf16",
    "inputs-tf32": "", "tail-dropped": "", "tail-unmasked": "", "splits-not-merged": "", "grad-hidden-partial": "",
    "backward-tail-unmasked": "", "entropy-grad-dropped": "", "entropy-grad-without-h": "",
}
FP32_INPUTS = ("d-logits-rounded", "inputs-tf32")  # these do nothing to inputs of 16 bits
HELD_TO = (("mutant:", "host", "black-box"), ("mutant:", "host", "pytorch-fp32-logits"),
           ("hopper-mutant:", "host-hopper", "hopper"))


def to_bf16(values: Any) -> Any:
    """fp32 rounded to bf16, as its bits."""
    import numpy as np

    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def widened(bits: Any) -> Any:
    """bf16 as fp32."""
    import numpy as np

    return (bits.astype(np.uint32) << 16).view(np.float32)


def write_dump(path: Path, n: int, v: int, h: int, data: str, dtype: str, gradients: str) -> None:
    """A dump without outputs. Logits have a standard deviation of about 2.5; `massive` has 4 channels of hidden 100 times the
    others and T = 0.7; labels of `confident` lead by up to 22."""
    import numpy as np

    generator = np.random.default_rng([7, DATA.index(data), v])
    hidden = 2 * generator.standard_normal((n, h), dtype=np.float32)
    if data == "massive":
        hidden[:, generator.integers(0, h, 4)] *= 100
    labels = generator.integers(0, v, n)
    weight = np.empty((v, h), np.uint16)
    for first in range(0, v, 8192):
        weight[first:first + 8192] = to_bf16(0.02 * generator.standard_normal((min(8192, v - first), h), dtype=np.float32))
    if data == "confident":
        rows = widened(weight[labels])
        hidden += rows * (generator.uniform(0, 22, n) / (rows * rows).sum(1))[:, None].astype(np.float32)
    g = generator.standard_normal(n, dtype=np.float32)
    tensors = {
        "hidden": ("BF16", to_bf16(hidden)) if dtype == "bf16" else ("F32", hidden),
        "weight": ("BF16", weight) if dtype == "bf16" else ("F32", widened(weight)),
        "labels": ("I64", labels.astype(np.int64)), "grad_logprob": ("F32", g),
        "grad_entropy": ("F32", 0.01 * generator.standard_normal(n, dtype=np.float32)),
        "temperature": ("F32", np.array([0.7 if data == "massive" else 1], np.float32)),
    }
    header: dict[str, Any] = {"__metadata__": {"gradients": gradients}}
    offset = 0
    for name, (kind, values) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * ((56 - len(text)) % 64)  # with the 8 bytes of its length: data begin at a multiple of 64
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            values.tofile(file)


def rewrite_dump(source: Path, path: Path, gradients: str) -> None:
    """The same dump, which says the dtype of its gradients."""
    data = source.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.setdefault("__metadata__", {})["gradients"] = gradients
    text = json.dumps(header).encode()
    text += b" " * ((56 - len(text)) % 64)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length:])


def record_of(said: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """What is stored of a check."""
    dump, = said["dumps"]
    honest = dump["honest_errors"]
    explanation = honest.get("explanation", {})
    outputs: dict[str, Any] = {each["output"]: {"wrong": each["fail"], "error_over_bound": float(f"{each['tightness']:.3g}")}
                               for each in dump["outputs"]}
    for each in honest["outputs"]:
        ratio = max(each["rms"], each["median"], each["largest"])
        of_output = outputs[each["output"]]
        if ratio >= of_output.get("ratio", 0):
            of_output |= {"honest": float(f"{each['honest']:.3g}"), "found": float(f"{each['found']:.3g}"),
                          "rms": round(each["rms"], 2), "ratio": round(ratio, 2), "verdict": each["verdict"]}
    return about | {"verdict": said["verdict"], "shortcuts": explanation.get("shortcuts", []),
                    "explains": explanation.get("explains", []), "outputs": outputs}


def dump_in(folder: Path, data: str, dtype: str, gradients: str) -> Path:
    return folder / f"{data}-{dtype}-{gradients}.safetensors"


def name_of(run: dict[str, Any]) -> str:
    return f"{run['defect']}-{run['data']}-{run['dtype']}-{run['gradients']}-{run['contract']}"


def file_in(kept: Path, run: dict[str, Any]) -> Path:
    """The file of a run's record, which is there once it is through."""
    return kept / f"{name_of(run)}.json"


def keep(runs: list[dict[str, Any]], kept: Path) -> None:
    """Puts records where `check` finds them."""
    for run in runs:
        if not file_in(kept, run).exists():
            stored.put(file_in(kept, run), run)


def machines(known: list[dict[str, str]], kept: Path, machine: dict[str, str]) -> list[dict[str, str]]:
    """Those of the stored result, those of earlier calls and this one, each once."""
    file = kept / "machines.json"
    with refusing(f"{file}"):
        known = known + (load(file)["machines"] if file.exists() else [])
    known.append({key: machine[key] for key in ("cpu", "cores", "compiler", "libraries") if key in machine})
    once = [each for at, each in enumerate(known) if each not in known[:at]]
    stored.put(file, {"machines": once})
    return once


def check(run: dict[str, Any], dumps: Path, kept: Path) -> dict[str, Any]:
    """Runs one check, unless its file is there; its record."""
    file = file_in(kept, run)
    if file.exists():
        with refusing(f"{file}"):
            return load(file)
    dump = dump_in(dumps, run["data"], run["dtype"], run["gradients"])
    words = ["check", str(dump), "--run", "--target", run["target"], "--contract", run["contract"], "--rows", "all",
             "--threads", "2", "--arbiter", "1ms"]
    begun = time.monotonic()
    status, text = said_by(PLUMB, words, None)
    if status not in COMPLETE:
        raise Refused(f"{' '.join(words)}: status {status}, nothing stored", 3)
    with refusing(f"{file}: nothing stored", 3):
        found = record_of(stored.last_object(text), run) | {"seconds": round(time.monotonic() - begun, 1)}
    stored.put(file, found)
    worst = max((each.get("ratio", 0) for each in found["outputs"].values()), default=0)
    print(f"{run['defect']} {run['data']} {run['gradients']} {run['contract']}: {found['verdict']}, {worst:g} times, "
          f"{', '.join(found['shortcuts'])} ({found['seconds']} s)", flush=True)
    return found


def repeat(before: dict[str, Any], kept: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Takes over a result of other trees, if given.repeat of its runs have the same records; what is stored of that. A run that
    is not made again has `of`, the sources that it was made with."""
    runs = before["runs"]
    count = min(given.repeat, len(runs))
    if count == 0:
        return {}
    some = [runs[at * len(runs) // count] for at in range(count)]
    wanted = [{key: run[key] for key in ("defect", "data", "dtype", "gradients", "contract", "target")} for run in some]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.at_once) as pool:
        make_dumps(Path(folder), [run for run in wanted if not file_in(kept, run).exists()], given)
        again = list(pool.map(functools.partial(check, dumps=Path(folder), kept=kept), wanted))
    aside = {"seconds": 0, "of": {}}  # they may be others
    others = [name_of(was) for was, now in zip(some, again, strict=True) if was | aside != now | aside]
    if others:
        raise Refused(f"{len(others)} of {count} stored records are others now, nothing is taken over: {', '.join(others)}", 1)
    keep([{"of": before["trees"]} | run for run in runs], kept)
    return {"runs": count, "machines": before.get("machines", [])}


def runs_of(only: str | None, dump: Path | None) -> list[dict[str, Any]]:
    """All runs, those of one dump together."""
    runs = []
    for data in (dump.stem,) if dump else DATA:
        for dtype in ("bf16",) if dump else ("bf16", "fp32"):
            for gradients in ("input", "fp32") if dtype == "bf16" else ("input",):
                for defect in (RIGHT, *DEFECTS):
                    if (defect in FP32_INPUTS) != (dtype == "fp32") and defect != RIGHT or only not in (None, defect):
                        continue
                    for prefix, right, contract in HELD_TO:
                        if dtype == "fp32" and contract == "hopper":
                            continue  # it has no fp32 inputs
                        runs.append({"defect": defect, "data": data, "dtype": dtype, "gradients": gradients,
                                     "contract": contract, "target": right if defect == RIGHT else prefix + defect})
    return runs


def missed(runs: list[dict[str, Any]]) -> list[str]:
    """The runs in which a defect that errs SEEN_FROM times an honest kernel is not seen, a bug is called a rounding, or a
    right target is not clean."""
    found = []
    for run in runs:
        name = f"{run['defect']} {run['data']} {run['gradients']} {run['contract']}"
        if run["defect"] == RIGHT:
            found += [] if run["verdict"] == "clean" else [f"{name}: {run['verdict']}"]
        elif run["verdict"] == "clean" and own(run) > SEEN_FROM:
            found.append(f"{name}: clean at {own(run):g}")
        elif run["shortcuts"] and not DEFECTS[run["defect"]]:
            found.append(f"{name}: called {run['shortcuts'][0]}")
    return found


def make_dumps(folder: Path, runs: list[dict[str, Any]], given: argparse.Namespace) -> None:
    """Writes the dumps that these runs need, at_once beside each other, in processes of their own. Those that differ in the
    dtype of gradients alone have the same data."""
    needed = sorted({(run["data"], run["dtype"], run["gradients"]) for run in runs})
    drawn = {(data, dtype): gradients for data, dtype, gradients in needed}  # one of each
    if not given.dump:
        with ProcessPoolExecutor(given.at_once, multiprocessing.get_context("spawn")) as pool:
            writing = [pool.submit(write_dump, dump_in(folder, data, dtype, gradients), given.n, given.v, given.h, data, dtype,
                                   gradients) for (data, dtype), gradients in drawn.items()]
            for each in writing:
                each.result()
    for data, dtype, gradients in needed:
        path = dump_in(folder, data, dtype, gradients)
        if not path.exists():
            rewrite_dump(given.dump or dump_in(folder, data, dtype, drawn[data, dtype]), path, gradients)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store sight")
    inputs = parser.add_mutually_exclusive_group(required=True)
    inputs.add_argument("--v", type=int)
    inputs.add_argument("--dump", type=Path)
    parser.add_argument("--h", type=int, default=4096)
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--as-built", type=Path, metavar="KEYS")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--repeat", type=int, metavar="K")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(words)
    for name in ("v", "h", "n", "at_once", "repeat"):
        if getattr(given, name) is not None and getattr(given, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(given, name)}: it is at least 1")
    if given.only not in (None, RIGHT, *DEFECTS):
        parser.error(f"--only {given.only}: there are {RIGHT}, {', '.join(DEFECTS)}")
    end = time.monotonic() + 60 * given.minutes
    program = builds.release(ROOT, *(() if given.as_built else ("plumb",)))
    about = trees.keys_in(given.as_built) if given.as_built else trees.committed_keys(ROOT)
    with refusing("nothing stored", 3):
        machine = plumb.machine(program)
    kept = ROOT / "build/campaigns" / (f"sight-{given.dump.stem}" if given.dump else f"sight-{given.v}-{given.h}-{given.n}")
    stored.begin(kept, about)
    result = given.out or ROOT / f"bench/results/sight-{given.dump.stem if given.dump else given.v}.json"
    repeated: dict[str, Any] = {}
    known: list[dict[str, str]] = []
    with refusing(f"{result}"):
        before = load(result) if result.exists() else {"trees": about, "runs": []}
        same = before["trees"] == about
        if same:
            keep(before["runs"], kept)
            repeated, known = before.get("repeated", {}), before.get("machines", [])
    if given.repeat and not same:
        repeated = repeat(before, kept, given)
    beside = machines(known, kept, machine)
    runs = runs_of(given.only, given.dump)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.at_once) as pool:
        in_time = time.monotonic() < end  # a dump is gigabytes
        make_dumps(Path(folder), [run for run in runs if in_time and not file_in(kept, run).exists()], given)
        one = functools.partial(check, dumps=Path(folder), kept=kept)
        records = list(pool.map(lambda run: one(run) if time.monotonic() < end else None, runs))
    done = [record for record in records if record is not None]
    wrong = missed(done)
    print("\n".join(wrong) or "nothing is missed", flush=True)
    if given.only:
        return int(bool(wrong))
    left = [name_of(run) for run, record in zip(runs, records, strict=True) if record is None]
    what = f"--dump {given.dump}" if given.dump else f"--v {given.v} --h {given.h} --n {given.n}"
    shape = {} if given.dump else {"n": given.n, "v": given.v, "h": given.h}
    stored.write(result, f"python3 bench/store sight {what}", about, machine, **shape, machines=beside, missed=wrong, left=left,
                 **({"repeated": repeated} if repeated else {}), runs=done)
    if left:
        print(f"{len(left)} of {len(runs)} runs are left", flush=True)
        return 5
    return int(bool(wrong))
