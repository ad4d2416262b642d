# SPDX-License-Identifier: Apache-2.0
"""One live call of a linear cross-entropy in a running PyTorch program, written as a dump (fuzz/CAPTURE.md)."""
