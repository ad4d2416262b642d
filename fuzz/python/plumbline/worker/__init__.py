# SPDX-License-Identifier: Apache-2.0
"""The worker: a process in which the harness judges one Python function."""
