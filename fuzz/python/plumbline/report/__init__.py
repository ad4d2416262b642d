# SPDX-License-Identifier: Apache-2.0
"""Reports of what plumb found, for people: Markdown of at most 60 lines, or one HTML page (fuzz/REPORT.md)."""
