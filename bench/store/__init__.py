# SPDX-License-Identifier: Apache-2.0
"""Stored results: how they are made, what they are about, and how they are carried over to another tree."""
