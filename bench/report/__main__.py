# SPDX-License-Identifier: Apache-2.0
"""Runs the package as `python3 bench/report SUBCOMMAND …`. Python puts this folder first among those that it imports
from; the packages lie beside it, in the folder above."""

import os.path
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from report.cli import main

sys.exit(main(sys.argv[1:]))
