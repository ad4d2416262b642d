# SPDX-License-Identifier: Apache-2.0
"""The worker: a process in which the harness judges one Python function."""

# The name of the target, in a worker and in what forks them; None in every other process.
target: str | None = None
