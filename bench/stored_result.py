# SPDX-License-Identifier: Apache-2.0
"""What is stored of plumb: the command, the date, the git trees of the rooms it speaks of, the machine, and what was
found, a line each; and what other stored results share with it. bench/check_dump calls it; bench/record runs it as

  stored_result.py trees                          prints them, to be handed to
  stored_result.py store NAME SAID TREES WORD…    bench/results/NAME.json, of SAID/result and SAID/doctor, which hold
                                                  what `plumb WORD…` and `plumb doctor` printed
"""

import datetime
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("kernel", "oracle", "fuzz")


def trees():
    """By room, abbreviated, "-modified" where something is not committed."""
    def git(*words):
        done = subprocess.run(["git", "-C", ROOT, *words], check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout.strip()
    return {room: git("rev-parse", "--short=12", f"HEAD:{room}")
            + ("-modified" if git("status", "--porcelain", "--", room) else "") for room in ROOMS}


def without_folders(value):
    """The same with every absolute path cut to its last name: where a folder lies on a machine is nobody's business."""
    if isinstance(value, dict):
        return {key: without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_folders(inner) for inner in value]
    return re.sub(r"(?<![\w.])(?:/[\w.+-]+)+/(?=[\w.+-])", "", value) if isinstance(value, str) else value


def put(path, text):
    """Whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def keep(result, folder, program, device, of_trees):
    """Where the result of a program on a device now lies, named by the kernel's tree; what was kept of another tree
    goes to earlier/. ValueError where one of the trees is not a clean, committed one."""
    for name, stood in of_trees.items():
        if not re.fullmatch("[0-9a-f]{12,}", stood):
            raise ValueError(f"of no clean, committed tree: {name} is '{stood}'")
    slug = re.sub("[^a-z0-9]+", "-", device.lower().removeprefix("nvidia ")).strip("-")
    kept = folder / f"{program}-{slug}-{of_trees['kernel']}.json"
    put(kept, json.dumps(without_folders(result), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    for path in folder.glob(f"{program}-{slug}-*.json"):
        if path != kept:
            (folder / "earlier").mkdir(exist_ok=True)
            path.replace(folder / "earlier" / path.name)
    return kept


def last_object(text):
    """(the last line, the JSON object that it holds); ValueError where it holds none, or an empty one."""
    line = (text.splitlines() or [""])[-1]
    found = json.loads(line)
    if not isinstance(found, dict) or not found:
        raise ValueError("no object, or an empty one")
    return line, found


def write(path, command, of_trees, machine, **found):
    """`found` is JSON text, kept as it is."""
    head = {"command": command, "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}",
            "trees": of_trees, "machine": machine}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    text = "{" + ",\n ".join(lines + [f"{json.dumps(key)}: {value}" for key, value in found.items()]) + "}\n"
    json.loads(text)
    put(path, text)


def store(name, said, of_trees, *words):
    objects = {}
    for which in ("result", "doctor"):
        text = (Path(said) / which).read_text(encoding="utf-8")
        try:
            objects[which] = last_object(text)
        except ValueError as fault:
            last = (text.splitlines() or [""])[-1][:200]
            sys.exit(f"bench/record: nothing stored: plumb's {which} ends with {last!r}, no result: {fault}")
    # Of text, not of what it says: numbers stay as plumb wrote them.
    result = re.sub(r'("out": ?")[^"]*/', r"\1", objects["result"][0])
    command = shlex.join(["plumb", *(word.removeprefix(f"{ROOT}/") for word in words)])
    write(ROOT / f"bench/results/{name}.json", command, json.loads(of_trees), objects["doctor"][1]["machine"],
          result=result)


if __name__ == "__main__":
    print(json.dumps(trees())) if sys.argv[1] == "trees" else store(*sys.argv[2:])
