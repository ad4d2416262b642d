# SPDX-License-Identifier: Apache-2.0
"""The acceptance of the CUDA operator on a GPU: its stages, how they travel to another machine, run and are stored."""
