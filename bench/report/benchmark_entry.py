# SPDX-License-Identifier: Apache-2.0
"""Reads one benchmark of a Google Benchmark result."""

from .median_interval import spoken_interval


def name_of(entry: dict) -> str:
    """Returns its name as it was registered: Google Benchmark adds what it was told of iterations and time."""
    return entry.get("run_name", entry["name"]).split("/iterations")[0]


def memory_of(entry: dict) -> float:
    """Returns the MiB that the operator asked cuda_bench for: workspace and saved state together."""
    return entry["workspace_MiB"] + entry.get("saved_MiB", 0)


def ratio_of(entry: dict) -> str:
    """Returns its ratio to the reference with the 95 % interval, as pages have it."""
    return spoken_interval(entry["ratio"], entry["ratio_low"], entry["ratio_high"])
