# SPDX-License-Identifier: Apache-2.0
"""One benchmark of a Google Benchmark result, as bench/compare, bench/figures and bench/history read it."""


def name_of(entry):
    """Its name as it was registered: Google Benchmark adds what it was told of iterations and time."""
    return entry.get("run_name", entry["name"]).split("/iterations")[0]


def memory_of(entry):
    """MiB that the operator asked cuda_bench for: workspace and saved state together."""
    return entry["workspace_MiB"] + entry["saved_MiB"]
