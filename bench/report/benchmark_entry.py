# SPDX-License-Identifier: Apache-2.0
"""Reads one benchmark of a Google Benchmark result."""


def name_of(entry: dict) -> str:
    """Returns its name as it was registered: Google Benchmark adds what it was told of iterations and time."""
    return entry.get("run_name", entry["name"]).split("/iterations")[0]


def memory_of(entry: dict) -> float:
    """Returns the MiB that the operator asked cuda_bench for: workspace and saved state together."""
    return entry["workspace_MiB"] + entry.get("saved_MiB", 0)
