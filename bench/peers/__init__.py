# SPDX-License-Identifier: Apache-2.0
"""Measures this operator and its peers, implementations of the same operation, side by side in one run."""
