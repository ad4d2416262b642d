# SPDX-License-Identifier: Apache-2.0
"""Fills bench/SIGHT.md: what `plumb check` sees of defects at production size, and what it does not."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from . import markdown, stored

RIGHT = "right"  # the name of a target without a defect
SEEN_FROM = 4.0  # times an honest kernel's error, from which on a defect is to be seen
DATA = ("ordinary", "massive", "confident")
CONTRACTS = ("black-box", "pytorch-fp32-logits", "hopper")
Run = dict[str, Any]


def seen_as(run: Run) -> str:
    """wrong: a bound is broken; named: by its shortcut; suspect; or clean."""
    if run["shortcuts"]:
        return "named"
    return {"findings": "wrong"}.get(run["verdict"], run["verdict"])


def own(run: Run) -> float:
    """The largest of its outputs' errors, root mean squares in units of an honest kernel's."""
    return max((each.get("rms", 0.0) for each in run["outputs"].values()), default=0.0)


def number(value: float) -> str:
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def cell(runs: Iterable[Run]) -> str:
    """How the runs of a defect ended, the surest verdict first; of clean ones the largest error as well."""
    runs = list(runs)
    count = Counter(map(seen_as, runs))
    said = [f"{count[kind]} {kind}" for kind in ("wrong", "named", "suspect") if count[kind]]
    clean = [own(run) for run in runs if seen_as(run) == "clean"]
    if clean:
        said.append(f"{len(clean)} clean, at most {number(max(clean))}")
    return "; ".join(said) or "–"


def defects(runs: list[Run]) -> list[str]:
    """In the order of the result, the targets without one first."""
    return list(dict.fromkeys(run["defect"] for run in runs))


def table(data: dict[str, Any]) -> str:
    runs = data["runs"]
    rows = [[defect.replace("-", " ") if defect != RIGHT else "none",
             *(cell(run for run in runs if run["defect"] == defect and run["contract"] == contract) for contract in CONTRACTS)]
            for defect in defects(runs)]
    return markdown.table(["defect", *CONTRACTS], "llll", rows)


def below(results: dict[str, dict[str, Any]]) -> str:
    """The runs of a defect that are clean: the output that errs most, with both errors, the largest of each defect and size."""
    rows = []
    for size, data in results.items():
        for defect in defects(data["runs"]):
            clean = [run for run in data["runs"] if run["defect"] == defect != RIGHT and seen_as(run) == "clean"]
            if not clean:
                continue
            run = max(clean, key=own)
            output, errs = max(run["outputs"].items(), key=lambda each: each[1].get("rms", 0.0))
            rows.append([size, defect.replace("-", " "), str(len(clean)), f"{run['data']}, {run['gradients']}, {run['contract']}",
                         f"`{output}`", *(f"{errs.get(key, 0):.2g}" for key in ("found", "honest")), number(own(run))])
    return markdown.table(["size", "defect", "clean runs", "the one that errs most: data, gradients, contract", "output", "it errs",
                           "an honest kernel", "ratio"], "llrllrrr", rows)


def summary(data: dict[str, Any]) -> str:
    """What is to be seen, what is seen of it, what was missed and what is left."""
    planted = [run for run in data["runs"] if run["defect"] != RIGHT]
    due = [run for run in planted if own(run) > SEEN_FROM or seen_as(run) == "wrong"]
    seen = sum(seen_as(run) != "clean" for run in due)
    right = [run for run in data["runs"] if run["defect"] == RIGHT]
    clean = sum(seen_as(run) == "clean" for run in right)
    text = (f"{len(planted)} runs with a defect: {len(due)} err more than {SEEN_FROM:g} times an honest kernel or break a bound, and "
            f"{seen} of these are seen; {sum(seen_as(run) != 'clean' for run in planted)} of all are. {clean} of {len(right)} runs "
            "without a defect are clean. Missed: " + ("; ".join(data["missed"]) or "none") + ".")
    if "repeated" in data:
        earlier = Counter(stored.trees({"trees": run["of"]}) for run in data["runs"] if run.get("of"))
        text += (" " + "; ".join(f"{count} runs were made with {keys}" for keys, count in earlier.items()) + ". "
                 f"{data['repeated']['runs']} others of those, made again with the present sources, had the same records.")
    left = data.get("left", [])
    return text + (f" **{len(left)} of {len(data['runs']) + len(left)} runs are left** and have not been made: "
                   + ", ".join(sorted(kind for kind in DATA if any(kind in name.split("-") for name in left)))
                   + " data." if left else "")


def values(small: dict[str, Any], large: dict[str, Any], real: dict[str, Any]) -> dict[str, str]:
    results = {"V = 32 003": small, "V = 151 936": large, "MiniLM": real}
    ran = {machine["cpu"] + ", " + machine["cores"] + " cores": None
           for data in results.values()
           for machine in [*data.get("machines", [data["machine"]]), *data.get("repeated", {}).get("machines", [])]}
    return {
        "machines": "; ".join(ran),
        "small": table(small), "small_summary": summary(small),
        "large": table(large), "large_summary": summary(large),
        "real": table(real), "real_summary": summary(real),
        "below": below(results),
        "commands": "\n".join(f"    {data['command']}" for data in results.values()),
    }
