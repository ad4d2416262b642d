# SPDX-License-Identifier: Apache-2.0
"""Fills bench/PUBLIC.md: public kernels hunted on a GPU machine, and how each finding is judged by hand.

What was measured is bench/results/public-kernels.json, where tensors lay on a GPU, public-kernels-cpu.json, where
kernels that take both had tensors of the CPU, and public-kernels-later*.json, hunts on a GPU of kernels whose first hunt did
not come to its end. What was judged is bench/public/judged.json, which a maintainer edits:
causes with their findings, the verdict, how it was reached, and the state of each bug.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from . import markdown
from .command_line import load
from .stored import ROOT, driver, grouped

JUDGED = ROOT / "bench/public/judged.json"
FOLDER = Path("corpus/public")
STATES = ("found", "reported", "confirmed", "fixed")
VERDICTS = ("bug", "limitation", "trade-off", "convention", "rounding", "unconfirmed")
ON_A_CPU = ", on a CPU"


def replaced(gpu: dict[str, Any], later: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """The result on a GPU with later hunts of kernels whose first one did not come to its end, in their places. ValueError for
    one that did, or of which there are two."""
    found = {each["kernel"]: each for each in gpu["kernels"]}
    through = {each["kernel"] for each in tried(gpu) if each["verdict"] != "interrupted"}
    for each in (each for data in later for each in tried(data)):
        if each["kernel"] not in found or each["kernel"] in through:
            raise ValueError(f"public-kernels-later: {each['kernel']} has no place, or another hunt of it came to its end")
        through.add(each["kernel"])
        found[each["kernel"]] = each
    return gpu | {"kernels": list(found.values())}


def joined(first: dict[str, Any], cpu: dict[str, Any], *later: dict[str, Any]) -> dict[str, Any]:
    """The results on a GPU with those kernels of the other one that were called in another way, under names of their own."""
    gpu = replaced(first, later)
    targets = {each["kernel"]: each["target"] for each in gpu["kernels"]}
    others = [each | {"kernel": each["kernel"] + ON_A_CPU} for each in tried(cpu) if targets[each["kernel"]] != each["target"]]
    own_operator = gpu["kernels"][-1:]
    return gpu | {"kernels": gpu["kernels"][:-1] + others + own_operator}


def own(kernel: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings of a kernel that are no part of a graver one."""
    return [each for each in kernel.get("findings", []) if not each["part_of"]]


def tried(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The kernels that were hunted for as long as the command says."""
    budget = re.search(r"--seconds (\d+)", data.get("command", ""))
    whole = float(budget[1]) if budget else 0
    return [each for each in data["kernels"]
            if "unavailable" not in each and (each["verdict"] != "interrupted" or each.get("seconds", 0) > whole)]


def cut_off(data: dict[str, Any]) -> list[str]:
    """Kernels whose findings were not all minimised and set against each other, since that was interrupted."""
    return [each["kernel"] for each in tried(data) if each["verdict"] == "interrupted"]


def bugs(judged: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in judged["causes"] if each["verdict"] == "bug"]


def disagreements(data: dict[str, Any], judged: dict[str, Any]) -> list[str]:
    """What of the result is not judged, is judged twice or is not in it, and words that are none of the lists."""
    wrong = []
    found = Counter((kernel["kernel"], each["signature"]) for kernel in tried(data) for each in own(kernel))
    named = Counter((cause["kernel"], each) for cause in judged["causes"] for each in cause["findings"])
    parts = {(kernel["kernel"], each["signature"]) for kernel in tried(data) for each in kernel["findings"] if each["part_of"]}
    wrong += [f"{kernel}: {signature}: {found[kernel, signature]} own findings, judged {named[kernel, signature]} times"
              for kernel, signature in sorted(found | named) if found[kernel, signature] != named[kernel, signature]]
    for cause in judged["causes"]:
        if cause["verdict"] not in VERDICTS or (cause["verdict"] == "bug") != ("bug" in cause):
            wrong.append(f"{cause['id']}: verdict {cause['verdict']}")
        if "bug" in cause and cause["bug"]["state"] not in STATES:
            wrong.append(f"{cause['id']}: state {cause['bug']['state']}")
        wrong += [f"{cause['id']}: no part {each}" for each in cause.get("parts", []) if (cause["kernel"], each) not in parts]
    for names, key in (({each["kernel"] for each in tried(data)}, "kernels"),
                       ({each["kernel"] for each in data["kernels"]} - {each["kernel"] for each in tried(data)}, "not_tried")):
        wrong += [f"{key}: {name}" for name in sorted(names ^ set(judged[key]))]
    return wrong


def versions(kernel: dict[str, Any]) -> str:
    """The packages of a kernel with their versions; PyTorch, Triton and the interpreter are the same for all."""
    named = kernel.get("versions", {})
    apart = [f"{name} {number}" for name, number in named.items() if name not in ("python", "torch", "triton")]
    return ", ".join(apart) or (f"torch {named['torch']}" if named else "this tree")


def bug_cell(kernel: str, judged: dict[str, Any]) -> str:
    return "; ".join(f"{each['what']} ({each['bug']['state']})" for each in bugs(judged) if each["kernel"] == kernel) or "–"


def table(data: dict[str, Any], judged: dict[str, Any]) -> str:
    rows = []
    for kernel in tried(data):
        about = judged["kernels"][kernel["kernel"]]
        rows.append([kernel["kernel"], versions(kernel), about["device"], grouped(kernel["judged"]),
                     f"{100 * kernel['share']:.1f} %", "; ".join(about["limits"]) or "–", str(len(kernel["shortcuts"])),
                     str(len(own(kernel))), bug_cell(kernel["kernel"], judged)])
    return markdown.table(["kernel", "version", "device", "judged", "of the drawn", "limits", "shortcuts", "findings",
                           "bugs (state)"], "lllrrlrrl", rows)


def shortcuts(data: dict[str, Any]) -> str:
    rows = [[kernel["kernel"], each["what"], f"`{each['declares']}`", str(each["cases"])]
            for kernel in tried(data) for each in kernel["shortcuts"]]
    return markdown.table(["kernel", "shortcut", "declared as", "cases it explains"], "lllr", rows)


def folders(judged: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The first cause of each bug by its folder; one that was seen on a GPU and on a CPU has one folder."""
    first: dict[str, dict[str, Any]] = {}
    for each in bugs(judged):
        first.setdefault(each["bug"]["folder"], each)
    return first


def bug_table(judged: dict[str, Any]) -> str:
    rows = []
    for each in folders(judged).values():
        bug = each["bug"]
        report = f"[{bug['folder']}](../{FOLDER / bug['folder']}/report.md)"
        rows.append([each["kernel"], each["what"], report, bug["where"], bug["alone"], bug["state"], bug["public"] or "–"])
    return markdown.table(["kernel", "what is wrong", "case, script, report", "where the symptom points",
                           "the script, run alone", "state", "in the open"], "lllllll", rows)


def causes(judged: dict[str, Any]) -> str:
    rows = []
    for each in judged["causes"]:
        named = ", ".join(f"`{re.sub('@.*', '@…', signature)}`" for signature in each["findings"])
        rows.append([each["kernel"], each["what"], named or "a part", each["verdict"], each["how"]])
    return markdown.table(["kernel", "cause", "findings", "judged", "how"], "lllll", rows)


def listed(names: list[str]) -> str:
    return ", ".join(f"\"{each}\"" for each in names[:-1]) + (" and " if names[1:] else "") + f"\"{names[-1]}\""


def where(later: tuple[dict[str, Any], ...]) -> str:
    """Which rows were measured later, each file in a sentence."""
    said = []
    for data in later:
        at_once = re.search(r"--at-once (\d+)", data["command"])
        if not at_once or not tried(data):
            raise ValueError("public-kernels-later: it names no hunts side by side, or no kernel whose hunt came to its end")
        said.append(f"Rows {listed([each['kernel'] for each in tried(data)])} are of {data['date']}, from another machine, with\n"
                    f"one {data['machine']['device']}, driver {driver(data['machine']['gpu'])}: {at_once[1]} hunts side by side, "
                    "beside\nother programs of ours.")
        if cut := cut_off(data):
            said[-1] += f" Minimising was cut off behind the hunts of {listed(cut)}: not every finding has a case."
    return "\n".join(said)


def values(gpu: dict[str, Any], cpu: dict[str, Any], *later: dict[str, Any]) -> dict[str, str]:
    judged, data = load(JUDGED), joined(gpu, cpu, *later)
    wrong = disagreements(data, judged)
    if wrong:
        raise ValueError("bench/public/judged.json does not fit the result: " + "; ".join(wrong))
    counted = [each for each in judged["causes"] if each["findings"]]
    findings = sum(len(each["findings"]) for each in counted)
    few = [f"{each['kernel']} ({each['judged']})" for each in tried(data) if each["judged"] < 100]
    untried = markdown.table(["kernel", "why"], "ll", [[name, why] for name, why in judged["not_tried"].items()])
    machine = data["machine"]
    return {
        "device": machine["device"], "driver": driver(machine["gpu"]), "date": data["date"], "torch": machine["torch"],
        "triton": machine["triton"], "python": machine["python"], "judged_date": judged["date"],
        "later": where(later), "cpu_date": cpu["date"], "cpu_device": cpu["machine"]["device"], "few": "; ".join(few),
        "tried": str(len({each["kernel"].removesuffix(ON_A_CPU) for each in tried(data)}) - 1), "table": table(data, judged),
        "shortcuts": shortcuts(data), "bug_table": bug_table(judged), "bugs": str(len(folders(judged))), "causes": causes(judged),
        "untried": untried, "findings": str(findings), "cause_count": str(len(counted)),
        "per_cause": f"{findings / len(counted):.2f}", "verdicts": counts(counted), "command": f"    {data['command']}",
    }


def counts(judged: list[dict[str, Any]]) -> str:
    """How many causes have which verdict, in words."""
    number = Counter(each["verdict"] for each in judged)
    return ", ".join(f"{number[each]} {each}" for each in VERDICTS if number[each])
