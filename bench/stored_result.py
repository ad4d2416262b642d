# SPDX-License-Identifier: Apache-2.0
"""The former name of bench/store/stored.py."""

from store.stored import keep

__all__ = ["keep"]
