# SPDX-License-Identifier: Apache-2.0
"""A small language model: its training by several heads (train), and log-ratios between rollout and training (ratios)."""
