# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store honest CASES [--narrow] [--jobs N]

Runs campaigns of CASES cases in all on the foreign kernels (tests/fuzz/honest/), seed 1, from the release build: equal
parts, but a third of one for kernels that compute a tensor core bit by bit, which take three times as long. It stores
one result, bench/results/honest-kernels.json: of each kernel its verdict, cases, judged cases, findings, signatures of
findings, and the largest error over bound of each output.

  --narrow  those that round a step to 16 bits, as the keys of a contract that they declare allow at most
            (kernels_narrow.cc), and stores narrow-kernels.json; without it the others (kernels.cc)

Interrupt it (status 5) and call it again to go on: each kernel has a folder in build/campaigns/honest-CASES/ or
narrow-CASES/, with its summary once it is through. It is refused where files that count are no longer those that it began
with.

Exit status: 0 no finding, 1 findings or suspect ones (stored too), 5 interrupted, 2 usage or another tree, else that of plumb.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, refusing

from store import builds, plumb, stored, trees
from store.record import COMPLETE, run

ROOT = trees.ROOT
BUILD = ROOT / "build/release"
ABOUT = (*trees.PLUMB, "honest")
BIT_BY_BIT = ("ampere", "ampere-split", "tf32", "planes", "silent-volta")


def kernels(file: str) -> list[str]:
    """Their names, as the file has them; Refused where there is none."""
    with refusing("no kernels"):
        text = (ROOT / "tests/fuzz/honest" / file).read_text(encoding="utf-8")
    names = re.findall(r'Kernel\{\.name = "([a-z0-9-]+)"', text)
    if not names:
        raise Refused(f"tests/fuzz/honest/{file} names no kernel")
    return names


def share(cases: int, names: list[str]) -> dict[str, int]:
    """Cases of each kernel: they add up to `cases`, and each has one at least."""
    parts = {name: 1 if name in BIT_BY_BIT else 3 for name in names}
    shares = {name: max(1, cases * part // sum(parts.values())) for name, part in parts.items()}
    shares[names[0]] += cases - sum(shares.values())
    return shares


def record_of(kernel: str, result: dict[str, Any]) -> dict[str, Any]:
    """What is stored of a campaign's result."""
    target, = result["targets"]
    return {"kernel": kernel, "verdict": result["verdict"], "cases": target["cases"], "judged": target["pass"] +
            target["suspect"] + target["fail"], "suspect": target["suspect"], "skipped": target["skipped"], "vacuous":
            target["vacuous"], "findings": result["findings"], "signatures": target["signatures"], "tightness":
            target["tightness"]}


def campaign(kernel: str, cases: int, out: Path, jobs: int) -> dict[str, Any]:
    """Runs the campaign of one kernel, or goes on with it; its result. Refused, with plumb's status, where it has none."""
    kept = out.with_name(f"{kernel}.json")
    if kept.exists():
        with refusing(f"{kept}"):
            return load(kept)
    plugin = BUILD / f"tests/fuzz/honest/honest-{kernel}.so"
    words = (["fuzz", "--resume", str(out)] if (out / "journal.jsonl").exists() else
             ["fuzz", "--target", f"plugin:{plugin}", "--budget", f"{cases}cases", "--seed", "1", "--jobs", str(jobs),
              "--out", str(out)])
    status, said = run(BUILD / "fuzz/plumb", words, None)
    if status not in COMPLETE:
        raise Refused(f"{kernel}: status {status}, nothing stored", status)
    with refusing(f"{kernel}: nothing stored", 3):
        found = record_of(kernel, stored.last_object(said))
    stored.put(kept, found)
    print(f"{kernel}: {found['verdict']}, {found['judged']} of {found['cases']} cases judged", flush=True)
    return found


def begin(out: Path) -> None:
    """Makes the folder of the campaigns; Refused where it was begun with other trees."""
    begun_with = out / "trees.json"
    now = trees.keys(ROOT, ABOUT)
    if begun_with.exists() and load(begun_with) != now:
        raise Refused(f"{out} was begun with other files; finish it there or remove it")
    out.mkdir(parents=True, exist_ok=True)
    begun_with.write_text(json.dumps(now) + "\n", encoding="utf-8")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store honest")
    parser.add_argument("cases", type=int)
    parser.add_argument("--narrow", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args(words)
    names = kernels("kernels_narrow.cc" if given.narrow else "kernels.cc")
    if given.cases < len(names) or given.jobs < 1:
        parser.error(f"{given.cases} cases, {given.jobs} jobs: at least {len(names)} and 1 are needed")
    program = builds.release(ROOT, "plumb", "honest_plugins")
    kind = "narrow" if given.narrow else "honest"
    out = ROOT / f"build/campaigns/{kind}-{given.cases}"
    begin(out)
    about = trees.committed_keys(ROOT, ABOUT)
    with refusing("nothing stored", 3):
        machine = plumb.machine(program)
    runs = [campaign(name, cases, out / name, given.jobs) for name, cases in share(given.cases, names).items()]
    command = f"python3 bench/store honest {given.cases}" + (" --narrow" if given.narrow else "")
    stored.write(ROOT / f"bench/results/{kind}-kernels.json", command, about, machine,
                 cases=sum(each["cases"] for each in runs), judged=sum(each["judged"] for each in runs),
                 findings=sum(each["findings"] for each in runs), runs=runs)
    return int(any(each["verdict"] != "clean" for each in runs))
