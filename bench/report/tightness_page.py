# SPDX-License-Identifier: Apache-2.0
"""Fills bench/TIGHTNESS.md: what the stored campaigns judged, and how near to the bounds their errors came."""

from . import markdown, tightness
from .stored import grouped, power
from .tightness import OUTPUTS, campaigns, percent, shares


def campaign_table(results: list[dict]) -> str:
    """Returns what each campaign judged, and what may be claimed after it (fuzz/campaign/search/assurance.h)."""
    rows = []
    for data in results:
        result = data["result"]
        tally, = result["targets"]
        coverage = result["coverage"][tally["target"]]
        counts = shares(campaigns(data))
        vacuous = max(percent(counts["sharp", output], "vacuous") for output in OUTPUTS)
        judged = tally["elements"]["pass"] + tally["elements"]["fail"]
        rows.append([f"`{tally['target']}`", grouped(result["cases"]), str(result["findings"]), power(judged, 2),
                     grouped(tally["arbitrated"]), f"at most {vacuous:.2f}", f"< {power(3 / coverage['blind'])}",
                     power(coverage["chance_of_new"], 1), f"< {power(coverage['chance_of_new_at_most'], 1)}"])
    return markdown.table(["arithmetic", "cases", "findings", "elements judged", "put to the arbiter",
                           "vacuous in sharp regimes, %", "failures a case, 95 %", "new combination in a further case",
                           "of that, 95 %"], "l" + "r" * 8, rows)


def values(*results: dict) -> dict[str, str]:
    by_target = {tally["target"]: [tally] for data in results for tally in campaigns(data)}
    return {
        "campaigns": campaign_table(list(results)),
        "smallest": tightness.smallest_table(by_target),
        "tables": "\n".join(tightness.table(target, tallies) for target, tallies in by_target.items()),
        "commands": "\n".join(f"    {data['command']}" for data in results),
    }
