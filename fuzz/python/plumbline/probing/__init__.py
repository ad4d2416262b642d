# SPDX-License-Identifier: Apache-2.0
"""What a function that declares nothing can do, found by trying: fuzz/PYTHON.md, "Found by trying"."""
