# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store public-kernels --python PYTHON [--seconds S] [--at-once N] [--only NAME] [--begin-within S]
                                                [--grace S] [--as-built KEYS] [--keep DIR] [--out FILE]

Hunts every public kernel that is a target in Python (the list of `adapters`) and the operator `cuda` on a GPU, S seconds
each [300], seed 1, one job, N campaigns side by side [4], spread over the GPUs that CUDA_VISIBLE_DEVICES leaves. It stores
bench/results/public-kernels.json: of each kernel the versions, the share of its cases that is judged, what it declines, the
shortcuts that were inferred, and its findings. The script that shows a finding without plumb is made and run alone; its exit
status and last line are stored. The hunts, with cases, scripts and reports, lie in DIR [build/public-kernels].

PYTHON has PyTorch, Triton, NumPy, mpmath and the kernels' packages (bench/public/fetch). A package that cannot be imported,
or a kernel that takes none of the problems tried, is recorded with the reason.

  --only NAME      this kernel alone; given more than once, these. They are stored where --out says so, else printed
  --begin-within S begins no hunt later than this, for a machine that is there for a limited time
  --grace S        interrupts a hunt S seconds after its budget [900]: inference and shrinking come after it
  --as-built KEYS  takes the programs as they are built; KEYS is a file of what `python3 bench/store trees` printed

Interrupt it and call it again to go on: a kernel that is through has a file in DIR. A finding is no claim: whether it is a
bug or a trade-off that the project documents is judged by hand (bench/PUBLIC.md).

Exit status: 0 60 % or more judged of every kernel that could be tried; 1 less of one (stored too); 2 usage or another
tree; 3 what plumb says is no result; 4 PYTHON lacks torch or triton; 5 not every kernel is through: call it again.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, refusing

from store import python_targets, stored, trees
from store.adapters import ADAPTED, ADAPTERS, ENOUGH, Adapter, versions
from store.record import COMPLETE, INTERRUPTED

ROOT = trees.ROOT
OWN = "plumbline, cuda"
SCRIPT_SECONDS = 180
GRACE = 900.0  # seconds behind the budget: loading, trying, what is inferred, the last case and its shrinking
KILL_AFTER = 30.0  # seconds from an interruption on
WRITE = """
import sys, plumbline
found = plumbline.read_finding(sys.argv[1])
open(sys.argv[2], "w", encoding="utf-8").write(found.repro())
open(sys.argv[3], "w", encoding="utf-8").write(found.report())
"""


def gpus() -> list[str]:
    """The UUID of each GPU that CUDA_VISIBLE_DEVICES leaves, in its order, of which there is one at least."""
    asked = subprocess.run(["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"], capture_output=True, text=True,
                           check=False)
    rows = [line.split(", ") for line in asked.stdout.splitlines()] if asked.returncode == 0 else []
    by_name = {name.strip(): row[-1].strip() for row in rows for name in row}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    left = [row[0].strip() for row in rows] if visible is None else [name.strip() for name in visible.split(",") if name.strip()]
    if unknown := [name for name in left if name not in by_name]:
        raise Refused(f"CUDA_VISIBLE_DEVICES {visible}: nvidia-smi names no GPU {unknown[0]}", 4)
    if not left:
        raise Refused("nvidia-smi names no GPU" if visible is None else f"CUDA_VISIBLE_DEVICES '{visible}' leaves no GPU", 4)
    return [by_name[name] for name in left]


def chosen_kernels(parser: argparse.ArgumentParser, only: list[str]) -> list[str]:
    """The operator and the public kernels, or those of them that --only names."""
    names = [OWN, *(name for name in ADAPTERS if not name.endswith(" by name"))]  # on a GPU both are the same
    for name in only:
        if name not in names:
            parser.error(f"--only {name}: there are {', '.join(names)}")
    return [name for name in names if not only or name in only]


def slug(name: str) -> str:
    return re.sub(r"\W+", "-", name.lower()).strip("-")


def on_gpu(adapter: Adapter) -> str:
    """The target on a device: verl's kernel needs no stand-in there, and what takes tensors of either kind is declared."""
    if adapter.on_cuda:
        return f"on_cuda:{adapter.on_cuda}"
    return adapter.target.replace("verl_on_cpu:linear_cross_entropy",
                                  "verl.utils.kernel.linear_cross_entropy:LinearCrossEntropy.apply")


def environment_of(gpu: str | None, cache: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(ADAPTED), os.environ.get("PYTHONPATH", ""))))
    found = {"PYTHONPATH": path, "TRITON_CACHE_DIR": str(cache / "triton"), "XDG_CACHE_HOME": str(cache)}
    return found | ({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {})


def ran(words: list[str], environment: dict[str, str], seconds: float, folder: Path | None = None,
        log: Path | None = None) -> tuple[int | None, str, str]:
    """(status or None where it did not end, stdout, stderr). What it says on stderr is in `log` while it runs. It is
    interrupted once its time is over, so that plumb says what it has, and killed KILL_AFTER seconds later."""
    with (log.open("w+", encoding="utf-8", errors="replace") if log else contextlib.nullcontext(subprocess.PIPE) as errors,
          subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace", cwd=folder,
                           env=os.environ | environment, start_new_session=True) as process):
        try:
            out, why = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                out, why = process.communicate(timeout=KILL_AFTER)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return None, "", f"no end in {seconds:g} s"
    return process.returncode, out, log.read_text(encoding="utf-8", errors="replace") if log else why


def last_line(text: str) -> str:
    """The last line that is no verdict."""
    said = [line for line in text.strip().splitlines() if not line.startswith("plumb: verdict=")]
    return (said or [""])[-1].removeprefix("plumb: ")[:300]


def shows(signature: str, status: int | None, why: str, what: str = "") -> bool:
    """Whether a script's end shows the finding: a process that dies a crash, one that does not end a hang. A device that is
    lost ends Python with the error of the device, which `what` names. An exception ends Python with 1, as a wrong value
    does: it shows a finding that names this exception, and no other."""
    kind, _, word = signature.removesuffix(" (once)").partition("@")[0].rpartition(":")
    if word in ("crash", "hang"):
        lost = re.search(r"CUDA: ([\w -]+) \(cudaError", what)
        if lost and status and lost[1] in why:
            return True
        return status is None if word == "hang" else status is not None and (status < 0 or status > 128)
    _, raised, end = why.rpartition("Traceback (most recent call last)")
    if status != 1 or not raised:
        return status == 1
    return kind == "status" and re.search(rf"^(?:[\w.]+\.)?{re.escape(word)}\b", end, re.MULTILINE) is not None


def alone(case: Path, record: dict[str, Any], python: str, environment: dict[str, str]) -> dict[str, Any]:
    """Writes script and report of a stored case beside it, and runs the script without this package."""
    script, report = case.with_suffix(".repro.py"), case.with_suffix(".md")
    package = os.pathsep.join((str(ROOT / "build/staged"), str(ROOT / "build/release/python"), environment["PYTHONPATH"]))
    status, _, why = ran([python, "-c", WRITE, str(case), str(script), str(report)], environment | {"PYTHONPATH": package}, 120)
    if status:
        return {"script": f"none: {last_line(why)}"}
    status, said, why = ran([python, str(script)], environment, SCRIPT_SECONDS, case.parent)
    return {"script": script.name, "script_status": status, "script_shows": shows(record["signature"], status, why, record["what"]),
            "script_says": last_line(said + why)}


def finding_of(each: dict[str, Any], folder: Path, python: str, environment: dict[str, str]) -> dict[str, Any]:
    """What is stored of a finding."""
    kept = each.get("kept") or {}
    finding = kept.get("finding") or each["finding"]
    record = {"signature": each["signature"], "what": finding["what"][:400], "first_seconds": round(each["seconds"], 1),
              "regime": each["regime"], "shortcut": finding.get("shortcut", ""), "explained": kept.get("explain", []),
              "needs": kept.get("cause", {}).get("needs", []), "values": kept.get("values_after"),
              "part_of": each.get("part_of", ""), "file": kept.get("file", "")}
    case = folder / record["file"]
    if not record["file"] or not case.exists() or record["part_of"]:
        return record
    return record | alone(case, record, python, environment)


def measured(program: Path, name: str, given: argparse.Namespace, gpu: str | None) -> dict[str, Any]:
    """The record of one kernel; read from its file where it is through."""
    kept = given.keep / f"{slug(name)}.json"
    if kept.exists():
        return load(kept)
    if time.monotonic() > given.last_begin:
        return {"kernel": name, "not_begun": True}
    with tempfile.TemporaryDirectory() as scratch:
        environment = environment_of(gpu, Path(scratch))
        adapter = ADAPTERS.get(name, Adapter("cuda", ()))
        target = "cuda" if name == OWN else f"python:{on_gpu(adapter)}"
        found: dict[str, Any] = {"kernel": name, "target": target, "date": stored.today()}
        if name != OWN:
            found["versions"] = versions(given.python, adapter.packages)
        folder = given.keep / slug(name)
        words = [str(program), "fuzz", "--target", target, "--budget", f"{given.seconds}s", "--seed", "1", "--jobs", "1",
                 "--case-timeout", "60s", "--out", str(folder), "--json"]
        words += [] if name == OWN else ["--python", given.python]
        shutil.rmtree(folder, ignore_errors=True)  # of a hunt that was interrupted
        begun = time.monotonic()
        status, said, why = ran(words, environment, given.seconds + given.grace)
        (given.keep / f"{slug(name)}.log").write_text(why, encoding="utf-8")
        if status not in (*COMPLETE, INTERRUPTED) or not said.strip():
            print(f"{name}: {last_line(why)}", flush=True)
            return kept_as(kept, found | {"unavailable": f"status {status}: {last_line(why)}"})
        with refusing(f"{name}: no result", 3):
            found |= result_of(stored.last_object(said), folder, given.python, environment)
    found["seconds"] = round(time.monotonic() - begun, 1)
    print(f"{name}: {found['judged']} of {found['drawn']} judged, {found['verdict']}, {len(found['shortcuts'])} shortcuts, "
          f"{sum(not each['part_of'] for each in found['findings'])} findings", flush=True)
    return kept_as(kept, found)


def kept_as(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    stored.put(path, record)
    return record


def result_of(said: dict[str, Any], folder: Path, python: str, environment: dict[str, str]) -> dict[str, Any]:
    target, = said["targets"]
    seconds = said["elapsed_seconds"]
    inferred = [each for inference in said.get("inference", []) for each in inference.get("shortcuts", [])]
    judged = target["pass"] + target["suspect"] + target["fail"]
    return {"held_to": target.get("target", ""), "drawn": target["cases"], "judged": judged,
            "share": round(judged / max(target["cases"], 1), 4), "failing": target["fail"], "suspect": target["suspect"],
            "judged_a_second": round(judged / max(seconds - said["time"]["shrinking"], 1e-3), 1),
            "skipped": target.get("skip_reasons", {}), "verdict": said["verdict"],
            "shortcuts": [{key: each.get(key) for key in ("what", "declares", "cases", "output", "error")} for each in inferred],
            "not_inferred": [each["incomplete"] for each in said.get("inference", []) if each.get("incomplete")],
            "findings": [finding_of(each, folder, python, environment)
                         for each in [*said["sightings"], *said.get("parts", [])]]}


def held(runs: list[dict[str, Any]]) -> bool:
    """True if enough was judged of every kernel that could be tried."""
    return all(each["share"] >= ENOUGH for each in runs if "unavailable" not in each)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store public-kernels")
    python_targets.add_options(parser)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--begin-within", type=float, default=float("inf"))
    parser.add_argument("--grace", type=float, default=GRACE)
    parser.add_argument("--keep", type=Path, default=ROOT / "build/public-kernels")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(words)
    chosen = chosen_kernels(parser, given.only)
    if given.seconds < 1 or given.at_once < 1:
        parser.error(f"--seconds {given.seconds}, --at-once {given.at_once}: both are at least 1")
    program, about, machine = python_targets.start(given)
    devices = gpus()
    given.keep, given.last_begin = given.keep.resolve(), time.monotonic() + given.begin_within
    stored.begin(given.keep, about | {"seconds": str(given.seconds)})
    # The operator judges what the others are judged by: it goes last, when they leave the device.
    chosen.sort(key=lambda name: name == OWN)
    with ThreadPoolExecutor(given.at_once) as pool:
        runs = list(pool.map(lambda at: measured(program, at[1], given, devices[at[0] % len(devices)]), enumerate(chosen)))
    waiting = [each["kernel"] for each in runs if "not_begun" in each]
    if waiting:
        print(f"nothing stored: not begun are {', '.join(waiting)}; call it again")
        return INTERRUPTED
    if given.only and not given.out:
        print(json.dumps(runs, indent=1))
        return int(not held(runs))
    command = f"python3 bench/store public-kernels --python PYTHON --seconds {given.seconds} --at-once {given.at_once}"
    command += f" --grace {given.grace:g}" * (given.grace != GRACE)
    command += "".join(f' --only "{name}"' for name in given.only)
    stored.write(given.out or ROOT / "bench/results/public-kernels.json", command, about, machine,
                 kernels=json.loads(json.dumps(stored.without_folders(runs))))
    return int(not held(runs))
