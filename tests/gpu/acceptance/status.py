# SPDX-License-Identifier: Apache-2.0
"""Says of every stored result whether it is still about the present tree, and whether it passed."""

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from store import python_targets, trees

from acceptance.stages import stages

CURRENT, STALE, FAILED = range(3)
SKIPPED = 77  # exit status of --strict where something is stale and nothing has failed: ctest's SKIP_RETURN_CODE
SPEED = ("cuda_bench-", "peers-")  # results that are named by the key of the kernel, and may be carried over


class Line(NamedTuple):
    """What is said of one stored result."""

    standing: int
    text: str


class About(NamedTuple):
    """What a stored result says of itself."""

    device: str | None
    date: str
    keys: dict[str, str]
    carried_to: str | None
    words: list[str]  # what else comes before its name: FAILED and the stages, say


def read_acceptance(result: dict[str, Any]) -> About:
    kept = result["stages"]
    unfinished = [stage for stage, its in kept.items() if its["outcome"] != "passed"]
    # Scripts are in no key: a stage or step that is new in stages.py has no result here.
    unfinished += [stage for stage, steps in stages().items() if stage not in unfinished
                   and {step.name for step in steps} - set(kept.get(stage, {}).get("steps", {}))]
    verdict = "incomplete" if unfinished and result["verdict"] == "passed" else result["verdict"]
    words = [] if verdict == "passed" else [" ".join([verdict.upper(), *unfinished])]
    return About(result["device"], result["date"], dict(result["trees"]), None, words)


def read_speed(result: dict[str, Any]) -> About:
    about = result.get("context") or {**result, "device": result["machine"]["device"]}
    carried = result.get("carried", {}).get("to")
    return About(about["device"], about["date"][:10], {"kernel": about["kernel"]}, carried, [])


def unclean(result: dict[str, Any]) -> list[str]:
    """What a result of plumb says beside "clean": bench/store keeps findings (status 1) too. Where it lists what was
    `missed` (bench/store sight), its runs are of defects, and findings are what was asked for."""
    if "missed" in result:
        return []
    said = [each.get("verdict", "clean") for each in (result.get("result", {}), *result.get("runs", []))]
    return [f"FAILED {', '.join(other)}"] if (other := sorted({each for each in said if each != "clean"})) else []


def read_result(name: str, result: Any) -> About | None:
    """None where it does not say which trees it is about; KeyError and its kind where it says so wrongly."""
    if name.startswith("gpu-"):
        return read_acceptance(result)
    if name.startswith(SPEED):
        return read_speed(result)
    if isinstance(result, dict) and isinstance(result.get("trees"), dict):
        return About(None, result["date"], dict(result["trees"]), None, unclean(result))
    return None


def why_stale(name: str, about: About, now: dict[str, str]) -> list[str]:
    """What a result is about that the present tree is not; empty where it is current."""
    if about.carried_to is not None:
        stale = [] if about.carried_to == now["kernel"] else [f"it was carried over to kernel {about.carried_to}"]
    elif any(trees.is_old(str(key)) for key in about.keys.values()):
        stale = ["it names git trees, the key before v2, in which every file counted"]
    else:
        stale = [f"{room} was {str(about.keys[room])[:15]}" for room in now
                 if about.keys.get(room, now[room]) != now[room]]
        stale += [f"there is no room {room}" for room in about.keys if room not in now]
    if stale and name.startswith(SPEED):
        stale[-1] += "; to be carried over or made again"
    return stale


def status_line(name: str, result: Any, now: dict[str, str]) -> Line | None:
    """One stored result beside the present keys, or None where it does not say which trees it is about."""
    try:
        about = read_result(name, result)
        if about is None:
            return None
        stale = why_stale(name, about, now)
        missing = [room for room in trees.ACCEPTANCE if room not in about.keys] if name.startswith("gpu-") else []
        where = ", ".join(filter(None, [about.device, about.date]))
    except (KeyError, TypeError, AttributeError, ValueError) as fault:
        return Line(FAILED, f"STALE {name}: not a summary of this script ({fault!r})")
    is_stale = bool(stale) or not about.keys
    words = [*about.words, *(["carried"] if about.carried_to is not None and not stale else [])]
    missed = result.get("missed", [])
    notes = [*stale, *([f"{len(missed)} missed"] if missed else []), *([f"not recorded: {', '.join(missing)}"] if missing else [])]
    text = (", ".join(["STALE" if is_stale else "current", *words]) + f" {name} ({where})"
            + (": " + ", ".join(notes) if notes else ""))
    # What was not run of another tree is stale, as what passed there is; what failed there still counts.
    failed = any(word.startswith("FAILED") for word in about.words) or (about.words and not is_stale)
    return Line(FAILED if failed else STALE if is_stale else CURRENT, text)


def status_lines(root: Path) -> list[Line]:
    """One line a stored result that says which trees it is about."""
    try:
        now = trees.keys(root, trees.ROOMS)
        folder = root / python_targets.TARGETS.relative_to(python_targets.ROOT)
        now |= {name: python_targets.key_of(name, folder) for name, files in python_targets.FILES.items()
                if all((folder / file).is_file() for file in files)}
    except (OSError, subprocess.CalledProcessError):
        return [Line(STALE, "UNKNOWN: this is no git checkout; whether stored results are stale cannot be told")]
    lines = []
    if not list((root / "bench/results").glob("gpu-*.json")):
        lines.append(Line(STALE, "STALE: no GPU result is stored; tests/gpu/accept --help says how to make one"))
    for path in sorted((root / "bench/results").glob("*.json"), key=lambda p: (not p.name.startswith("gpu-"), p.name)):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as fault:
            lines.append(Line(FAILED, f"STALE {path.name}: cannot be read ({fault!r})"))
            continue
        line = status_line(path.name, result, now)
        if line:
            lines.append(line)
    return lines


def exit_status(lines: list[Line], strict: bool) -> int:
    """Always 0 unless strict; then 1 for what failed, cannot be read or is incomplete, SKIPPED for what is stale."""
    worst = max((line.standing for line in lines), default=CURRENT)
    return {CURRENT: 0, STALE: SKIPPED, FAILED: 1}[worst] if strict else 0
