# SPDX-License-Identifier: Apache-2.0
"""Folders of campaigns of hours, as `plumb fuzz` would leave them, made of a short one in a second."""

import json
import shutil

REGIMES = [f"regime-{number}" for number in range(64)]
DTYPES = ("bf16", "fp16", "fp32")
OUTPUTS = {"p": 7, "e": 7, "s": 7, "h": 7 * 33, "w": 129 * 33}  # elements of N = 7, V = 129, H = 33


def large_campaign(folder, model, findings=300, cases=100_000, what="off by far"):
    """Fills `folder` with as many findings, as many more signs of them, and cases. They are copies of one finding of the
    campaign in `model`, under signatures of their own, and of one case."""
    summary = json.loads((model / "summary.json").read_text(encoding="utf-8"))
    sighting = summary["sightings"][0]
    stored = model / sighting["kept"]["file"]
    (folder / "findings").mkdir(parents=True)
    shutil.copy(stored, folder / "findings")
    summary |= {"cases": cases, "judged": cases, "findings": findings, "ranking": []}
    kept = sighting["kept"] | {"file": f"findings/{stored.name}"}
    kept["finding"] = kept["finding"] | {"what": what}
    signatures = [f"bound:output-{number}" for number in range(findings)]
    summary["sightings"] = [sighting | {"signature": each, "kept": kept} for each in signatures]
    summary["parts"] = [sighting | {"signature": f"sign-of-{each}", "part_of": each, "kept": kept} for each in signatures]
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    with (folder / "journal.jsonl").open("w", encoding="utf-8") as journal:
        journal.write(json.dumps({"journal": 2, "campaign": summary["campaign"]}) + "\n")
        for kind in range(len(REGIMES) * len(DTYPES)):
            dtype = DTYPES[kind % len(DTYPES)]
            line = {"kind": kind, "regime": REGIMES[kind // len(DTYPES)], "class": ["gaussian", "sharp", dtype, dtype]}
            journal.write(json.dumps(line) + "\n")
        for number, each in enumerate(signatures):
            journal.write(json.dumps({"sighting": {"seconds": number, "signature": each}}) + "\n")
        for item in range(cases):
            near = 2.0 ** -(item % 20)
            line = {"done": [item, item, 90, item % (len(REGIMES) * len(DTYPES))],
                    "o": {letter: [count, near] for letter, count in OUTPUTS.items()}}  # fmt: skip
            journal.write(json.dumps(line) + "\n")
