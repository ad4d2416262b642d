# SPDX-License-Identifier: Apache-2.0
"""What is measured of Python targets on a machine with a GPU: the stage, the steps and their figures."""
