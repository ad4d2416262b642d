# SPDX-License-Identifier: Apache-2.0
"""Reads results of plumb and of the benchmark programs: prints tables, compares runs and writes the generated pages."""
