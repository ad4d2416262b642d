# SPDX-License-Identifier: Apache-2.0
"""What is kept of a step's output: the numbers that a summary is read for. The whole is in the stage's log.

A digest takes the path of the step's gtest report (which only test programs write) and its output.
"""

import json
import re
from pathlib import Path
from typing import Any


def last_json(_: Path | None, output: str) -> dict[str, Any]:
    """The last line that begins as a JSON object does; {} where there is none."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


def probe(_: Path | None, output: str) -> dict[str, Any]:
    """Returns what `plumb doctor --probe` says of the probe alone."""
    result = last_json(None, output)
    return result.get("probe", result)


def campaign(_: Path | None, output: str) -> dict[str, Any]:
    """Totals, the largest error over bound of each output by dtype, and what the device is where the program says it."""
    result = last_json(None, output)
    targets = []
    for tally in result.get("targets", []):
        largest: dict[str, float] = {}
        for entry in tally.get("classes", []):
            for name, counts in entry.get("outputs", {}).items():
                if isinstance(counts.get("tightness"), (int, float)):
                    key = f"{name} {entry['dtype']}"
                    if name.startswith("grad_"):
                        key += f" to {entry.get('grads', '')}"
                    largest[key] = max(largest.get(key, 0), counts["tightness"])
        targets.append({"target": tally.get("target"), "cases": tally.get("cases"), "largest": largest,
                        "arbitrated": tally.get("arbitrated"), "skipped": tally.get("skipped"),
                        "faults": tally.get("faults"), "elements": tally.get("elements")})
    device = {key: result[key] for key in ("device", "compute_capability", "cuda_driver", "cuda_runtime") if key in result}
    return {"cases": result.get("cases"), "findings": result.get("findings"), "seconds": result.get("elapsed_seconds"),
            "oracle_seconds": result.get("time", {}).get("oracle"),
            "waiting_seconds": result.get("time", {}).get("waiting"), "sightings": result.get("sightings"),
            "targets": targets, **device}


def replay(_: Path | None, output: str) -> dict[str, Any]:
    """Cases, findings and verdict."""
    result = last_json(None, output)
    return {key: result.get(key) for key in ("cases", "findings", "verdict")}


def selftest(_: Path | None, output: str) -> dict[str, Any]:
    """The outcome of each hunt, without the case that it found."""
    result = last_json(None, output)
    hunts = []
    for hunt in result.get("mutants", []):
        sighting = hunt.get("sighting") or {}
        kept = sighting.get("kept") or {}
        hunts.append({"target": hunt.get("target"), "killed": hunt.get("killed"), "cases": hunt.get("cases"),
                      "signature": sighting.get("signature"), "values_before": kept.get("values_before"),
                      "values_after": kept.get("values_after"), "seconds": sighting.get("seconds")})
    statistics = {key: value for key, value in result.get("statistics", {}).items() if key != "mutants"}
    return {"verdict": result.get("verdict"), "hunts": hunts, "statistics": statistics}


def gtest(report: Path, _: str) -> dict[str, Any]:
    """Counts, and the reason of every test that was skipped; a run that tested nothing is a failure."""
    data = json.loads(report.read_text(encoding="utf-8"))
    ran, failed, skipped = 0, [], {}
    for suite in data["testsuites"]:
        for test in suite["testsuite"]:
            name = f"{suite['name']}.{test['name']}"
            if test.get("result") == "SKIPPED":
                reasons = [entry.get("message", "").strip() for entry in test.get("skipped", [])]
                skipped[name] = reasons[-1] if reasons else "no reason given"
            else:
                ran += 1
                if test.get("failures"):
                    failed.append(name)
    return {"ran": ran, "failed": failed, "skipped": skipped, "nothing": ran == 0}


def gtest_with_properties(report: Path, output: str) -> dict[str, Any]:
    """The same, and the numbers that the tests recorded, by name."""
    usual = {"name", "file", "line", "status", "result", "timestamp", "time", "classname"}
    suites = json.loads(report.read_text(encoding="utf-8"))["testsuites"]
    recorded = {key: int(value) for suite in suites for test in suite["testsuite"] for key, value in test.items()
                if key not in usual and isinstance(value, str) and value.isdigit()}
    return {**gtest(report, output), "recorded": recorded}


def gtest_or_empty(report: Path, output: str) -> dict[str, Any]:
    """The same where no test may be left by the filter; tests that are there must not all be skipped."""
    result = gtest(report, output)
    return {**result, "nothing": result["nothing"] and bool(result["skipped"])}


def sanitizer(_: Path | None, output: str) -> dict[str, Any]:
    """What corpus_once says, and compute-sanitizer's last summary."""
    found = re.findall(r"(ERROR SUMMARY: .*|RACECHECK SUMMARY: .*)", output)
    return {**last_json(None, output), "summary": found[-1] if found else "no summary"}


def says_nothing(result: dict[str, Any]) -> bool:
    """Whether a step that ended well tested nothing, or did not say what: such a step has not passed."""
    counts = [result[key] for key in ("cases", "runs", "hunts") if key in result]
    return not result or bool(result.get("nothing")) or not all(counts) or result.get("summary") == "no summary"
