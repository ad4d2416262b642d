#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what `plumb --json` printed (or a summary.json) and prints the part of it that must stay, for expected/.

Left out are times, paths of the machine, what the arbiter was asked, and words that may be put better.
"""

import json
import sys
from typing import Any

OF_CAMPAIGN = ["budget", "seed", "regime", "recipe", "shard", "blind", "targets", "stop_after", "corpus_cases"]
OF_TARGET = ["target", "cases", "pass", "fail", "suspect", "vacuous", "skipped", "skip_reasons", "faults", "retried",
             "signatures", "elements", "aims", "tightness"]
OF_FINDING = ["kind", "output", "row", "column", "got"]
OF_WORST = ["row", "column", "failure", "got", "expected"]
OF_DUMP = ["file", "judged", "contract", "dtype", "n", "v", "h", "rows", "reduction", "wrong_rows", "diagnosis"]


def pick(record: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """The members of these names, where they are there."""
    return {key: record[key] for key in keys if key in record}


def case(record: dict[str, Any]) -> dict[str, Any]:
    """A result of `plumb replay`."""
    findings = [pick(finding, OF_FINDING) for finding in record["result"].get("findings", [])]
    return pick(record, ["file", "outcome", "target", "was", "state", "next_state"]) | {
        "result": {"verdict": record["result"]["verdict"], **({"findings": findings} if findings else {})}}


def dump(record: dict[str, Any]) -> dict[str, Any]:
    """A result of `plumb check`."""
    return pick(record, OF_DUMP) | {"outputs": [
        pick(output, ["output", "pass", "fail", "vacuous", "unspecified"]) | {"worst": pick(output["worst"], OF_WORST)}
        for output in record["outputs"]]}


def keep(whole: dict[str, Any]) -> dict[str, Any]:
    """The part of an object of `--json` that is compared."""
    kept = pick(whole, ["verdict", "status", "cases", "findings"])
    if "results" in whole:
        kept["results"] = [case(record) for record in whole["results"]]
    if "dumps" in whole:
        kept["dumps"] = [dump(record) for record in whole["dumps"]]
    if "campaign" in whole:
        kept["campaign"] = pick(whole["campaign"], OF_CAMPAIGN)
        kept["targets"] = [pick(target, OF_TARGET) for target in whole["targets"]]
        kept["coverage"] = {name: pick(its, ["blind", "cases", "cells"]) for name, its in whole["coverage"].items()}
        kept["yield"] = {name: {regime: pick(its, ["blind", "cases", "fail", "new_cells"])
                                for regime, its in regimes.items()} for name, regimes in whole["yield"].items()}
    return kept


def lines(value: Any, depth: int = 0) -> str:
    """JSON with one record a line: the two outer levels are broken."""
    if depth == 2 or not isinstance(value, (dict, list)) or not value:
        return json.dumps(value, separators=(",", ":"))
    inner = ",\n".join((f"{json.dumps(key)}: " if isinstance(value, dict) else "")
                       + lines(value[key] if isinstance(value, dict) else key, depth + 1) for key in value)
    return f"{{\n{inner}\n}}" if isinstance(value, dict) else f"[\n{inner}\n]"


if __name__ == "__main__":
    print(lines(keep(json.loads(sys.stdin.read().strip().rsplit("\n", 1)[-1]))))
