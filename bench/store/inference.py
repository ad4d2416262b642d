# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store inference --python PYTHON [--seeds N] [--budget B] [--seed S] [--only NAME] [--as-built KEYS]
                                            [--at-once N] [--out FILE]

What the inference of shortcuts (fuzz/infer/INFERENCE.md) names and what it leaves, in two parts, by `plumb fuzz --infer`
from the release build. It stores bench/results/inference.json.

1. Each mutant of the host, and `host`, held to tensor-core-fp32, in seeds 1 to N [10]. A mutant that is a shortcut
   (SHORTCUTS) is named rightly where its words alone are named. The others' records say in which seeds a shortcut was
   named, and how many of the failing cases it explains. `names` has the words that were named and their seeds.
2. Each kernel of tests/fuzz/python/targets/shortcut_and_bug.py, which has one shortcut and one bug: a campaign of budget B
   [60s], seed S [1], one job; they go first. The shortcut is named rightly where its words alone are named; the bug is found where a
   finding shows in an output of this bug and no shortcut explains it. `right` has neither.

PYTHON has torch, triton and numpy.

  --only NAME  prints the record of this mutant or kernel, and stores nothing
  --as-built KEYS  takes the programs as they are built, on a machine without git or a compiler: KEYS is a file of
               what `python3 bench/store trees` printed where they were built
  --at-once N  runs N beside each other [1]; the result says so
  --out FILE   stores the result here [bench/results/inference.json]

Interrupt it (status 5) and call it again to go on: each mutant and kernel has a file in
build/campaigns/inference-N-B-S/ once it is through. It is refused where files that count are no longer those that it
began with.

Exit status: 0 every shortcut is named rightly in each seed, nothing is named of another mutant, `host` and `right`, and at
least 11 kernels of 12 have both named; 1 one of these is not so (stored too); 5 interrupted; 2 usage or another tree; 3
what plumb says is no result; 4 the target does not load.
"""

import argparse
import json
import math
import re
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, refusing

from store import python_targets, stored, trees
from store.python_targets import FILES, TARGETS
from store.record import COMPLETE, interrupted_with_plumb, said_by

ROOT = trees.ROOT
PLUMB = ROOT / "build/release/fuzz/plumb"
TABLE = ROOT / "fuzz/builtin/mutants/table.txt"
BASE = "tensor-core-fp32"
HOST, RIGHT = "host", "right"
LEAST_SHARE = 11 / 12  # of the kernels, both named
# The words that declare what a mutant rounds, or what is said of a rounding that no key declares. Every other one is a bug.
SHORTCUTS = {
    "logits-rounded": "logits=bf16", "logits-fp16": "logits=fp16", "logprob-rounded": "outputs.logprob=bf16",
    "loss-rounded": "outputs.loss=bf16", "plain-logprob": "plain_logprob=true", "plain-entropy": "plain_entropy=true",
    "probability-rounded": "probabilities=bf16", "d-logits-rounded": "d_logits=bf16",
    "small-p-skipped": "filter=0.000244140625", "grad-hidden-accumulator": "accumulator=bf16,vocab_chunk=256",
    "grad-weight-accumulator": "accumulator=bf16,row_chunk=16",
    "exponential-base": "no key: log2(e) rounded in the exponentials to bf16",
    "saved-sum-rounded": "no key: the softmax sum kept for backward in bf16",
    "inputs-tf32": "no key: hidden rounded to TF32 in the logits alone",
}


def mutants(table: str) -> list[str]:
    """The names of the host's mutants in the text of table.txt, in its order."""
    return re.findall(r"^([a-z0-9-]+) \| host \| [^|]*\| [^|]*$", table, re.MULTILINE)


def planted(module: Path) -> dict[str, tuple[str, str, str, tuple[str, ...]]]:
    """PLANTED of the module: (shortcut, its words, bug, the outputs that the bug shows in) by name. Refused where there is
    none."""
    with refusing("no kernels", 2):
        found = python_targets.planted_in(module)
        kernels = {str(name): (str(s), str(w), str(b), tuple(o)) for name, (s, w, b, o) in found.items()}
    if not kernels:
        raise Refused(f"{module} plants nothing")
    return kernels


def words_of(inference: dict[str, Any]) -> list[str]:
    """What was named: words that declare it, or "no key: " and what it is. A chunk that stands for one chunk in all
    (2^40) is left out."""
    found = []
    for each in inference["shortcuts"]:
        words = [word for word in each["declares"].split(",") if not word.endswith(f"={1 << 40}")]
        found.append(",".join(words) if each["declares"] else f"no key: {each['what']}")
    return found


def mutant_record(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What is stored of a mutant, or of `host`: over its seeds the words that were named and the cases they explain."""
    rightly = SHORTCUTS.get(name)
    names: dict[str, list[int]] = {}
    for run in runs:
        names.setdefault(" and ".join(run["named"]) or "nothing", []).append(run["seed"])
    found: dict[str, Any] = {"mutant": name, "shortcut": rightly, "names": names,
                             "failing": [run["failing"] for run in runs],
                             "explained": [run["failing"] - run["unexplained"] for run in runs],
                             "seconds": round(statistics.median(run["seconds"] for run in runs), 2)}
    if rightly is not None:
        return found | {"rightly": sum(run["named"] == [rightly] for run in runs), "seeds": len(runs)}
    partly = [run["seed"] for run in runs if run["named"] and run["unexplained"]]
    return found | {"partly": partly, "wholly": [run["seed"] for run in runs if run["failing"] > run["unexplained"] == 0]}


def infer_mutant(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """The record of a mutant over all seeds. Refused, with plumb's status, where it has none."""
    runs = []
    for seed in range(1, given.seeds + 1):
        with tempfile.TemporaryDirectory() as folder, refusing(f"{name}, seed {seed}: nothing stored", 3):
            target = f"{name if name == HOST else f'mutant:{name}'}@{BASE}"
            begun = time.monotonic()
            status, said = said_by(PLUMB, ["fuzz", "--target", target, "--infer", "--budget", "1cases", "--seed", str(seed),
                                           "--jobs", "1", "--out", f"{folder}/hunt"], None)
            seconds = time.monotonic() - begun
            if status not in COMPLETE:
                raise Refused(f"{name}, seed {seed}: status {status}, nothing stored", status)
            inference, = stored.last_object(said)["inference"]
            if inference["incomplete"]:
                raise Refused(f"{name}, seed {seed}: {inference['incomplete']}", 3)
            runs.append({"seed": seed, "named": words_of(inference), "failing": inference["failing"],
                         "unexplained": inference["unexplained"], "seconds": seconds})
    return mutant_record(name, runs)


def findings_of(said: dict[str, Any]) -> list[dict[str, Any]]:
    """Each finding and each part of one in few words, those first that came first."""
    found = [{"signature": each["signature"], "seconds": round(each["seconds"], 1), "regime": each["regime"],
              "shortcut": each["finding"].get("shortcut", ""), "what": each["finding"]["what"][:160]}
             for each in [*said["sightings"], *said.get("parts", [])]]
    return sorted(found, key=lambda each: each["seconds"])


def shows(finding: dict[str, Any], outputs: tuple[str, ...]) -> bool:
    """Whether a finding is one of a bug that shows in these outputs: no shortcut explains it. What is
    suspect counts for none."""
    kind, _, output = finding["signature"].rpartition(":")
    return output in outputs and not finding["shortcut"] and not kind.startswith("suspect")


def kernel_record(name: str, of: tuple[str, str, str, tuple[str, ...]], said: dict[str, Any]) -> dict[str, Any]:
    """What is stored of the campaign of a kernel."""
    shortcut, words, bug, outputs = of
    inference, = said["inference"]
    if inference["incomplete"]:
        raise Refused(f"{name}: {inference['incomplete']}", 3)
    target, = said["targets"]
    named, found = words_of(inference), findings_of(said)
    of_bug = [each for each in found if shows(each, outputs)]
    return {"kernel": name, "shortcut": shortcut, "bug": bug, "named": named,
            "rightly": named == ([words] if words else []), "failing": inference["failing"],
            "explained": inference["failing"] - inference["unexplained"], "bug_found": bool(of_bug),
            "bug_seconds": of_bug[0]["seconds"] if of_bug else None, "findings": said["findings"], "cases": target["cases"],
            "judged": target["judged"], "says": of_bug[0]["what"] if of_bug else "",
            "found": [f"{each['signature']}: {each['shortcut'] or 'no shortcut explains it'}" for each in found]}


def hunt_kernel(name: str, kernels: dict[str, tuple], given: argparse.Namespace) -> dict[str, Any]:
    """The record of a kernel. Refused, with plumb's status, where it has none."""
    of = kernels.get(name, ("", "", "", ()))
    with tempfile.TemporaryDirectory() as folder, refusing(f"{name}: nothing stored", 3):
        words = ["fuzz", "--target", f"python:shortcut_and_bug:{name}", "--python", given.python, "--infer", "--budget",
                 given.budget, "--seed", str(given.seed), "--jobs", "1", "--out", f"{folder}/hunt"]
        begun = time.monotonic()
        status, said = said_by(PLUMB, words, TARGETS, PYTHONPATH=str(TARGETS))
        if status not in COMPLETE:
            raise Refused(f"{name}: status {status}, nothing stored", status)
        return kernel_record(name, of, stored.last_object(said)) | {"seconds": round(time.monotonic() - begun, 1)}


def kept(path: Path, make: Any) -> dict[str, Any]:
    """The record in the file, or else what `make` returns, which is then kept there."""
    if path.exists():
        with refusing(f"{path}"):
            found = load(path)
            if path.stem not in (found.get("mutant"), found.get("kernel")):
                raise ValueError(f"of {found}")
            return found
    found = make()
    stored.put(path, found)
    print(json.dumps({key: value for key, value in found.items() if key != "found"}), flush=True)
    return found


def figures(records: list[dict[str, Any]], kernels: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures over all mutants and kernels; `right` is no kernel here."""
    shortcuts = [each for each in records if each["shortcut"] is not None]
    bugs = [each for each in records if each["shortcut"] is None]
    return {"shortcuts": len(shortcuts), "named_rightly": sum(each["rightly"] for each in shortcuts),
            "runs": sum(each["seeds"] for each in shortcuts), "bugs": len(bugs),
            "explained_partly": sum(len(each["partly"]) for each in bugs),
            "explained_wholly": sum(len(each["wholly"]) for each in bugs), "kernels": len(kernels),
            "shortcut_named": sum(each["rightly"] for each in kernels), "bug_found": sum(each["bug_found"] for each in kernels),
            "both_named": sum(each["rightly"] and each["bug_found"] for each in kernels)}


def held(over_all: dict[str, Any], right: dict[str, Any]) -> bool:
    """True if the figures are as asked."""
    return (over_all["named_rightly"] == over_all["runs"] and not over_all["explained_partly"]
            and not over_all["explained_wholly"] and right["rightly"] and not right["findings"]
            and over_all["both_named"] >= math.ceil(LEAST_SHARE * over_all["kernels"]))


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/store inference")
    python_targets.add_options(parser)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="prints this mutant or kernel and stores nothing")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/inference.json")
    given = parser.parse_args(words)
    if given.seeds < 1 or given.at_once < 1:
        parser.error(f"{given.seeds} seeds, {given.at_once} at once: both are at least 1")
    given.mutants = [*mutants(TABLE.read_text(encoding="utf-8")), HOST]
    given.kernels = planted(TARGETS / FILES["shortcut_and_bug"][0])
    if given.only not in (None, *given.mutants, *given.kernels, RIGHT):
        parser.error(f"--only {given.only}: no mutant of the host, and none of {', '.join([*given.kernels, RIGHT])}")
    return given


def main(words: list[str]) -> int:
    given = arguments(words)
    _, about, machine = python_targets.start(given)
    about |= {"shortcut_and_bug": python_targets.key_of("shortcut_and_bug")}
    makes = {name: lambda name=name: hunt_kernel(name, given.kernels, given) for name in [*given.kernels, RIGHT]}
    makes |= {name: lambda name=name: infer_mutant(name, given) for name in given.mutants}
    if given.only:
        with interrupted_with_plumb():
            print(json.dumps(makes[given.only](), indent=1))
        return 0
    out = ROOT / f"build/campaigns/inference-{given.seeds}-{given.budget}-{given.seed}"
    python_targets.begin(out, about, machine, given.at_once)
    with interrupted_with_plumb(), ThreadPoolExecutor(given.at_once) as pool:
        found = list(pool.map(lambda name: kept(out / f"{name}.json", makes[name]), makes))
    kernels, right, of_mutants = found[:len(given.kernels)], found[len(given.kernels)], found[len(given.kernels) + 1:]
    over_all = figures(of_mutants, kernels)
    command = (f"python3 bench/store inference --python PYTHON --seeds {given.seeds} --budget {given.budget} "
               f"--seed {given.seed}")
    stored.write(given.out, command, about, machine, at_once=given.at_once, figures=over_all, right=right, kernels=kernels,
                 mutants=of_mutants)
    print(json.dumps(over_all), flush=True)
    return int(not held(over_all, right))
