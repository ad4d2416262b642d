# SPDX-License-Identifier: Apache-2.0
"""Runs the package as `python3 bench/peers …`, and a worker of it as `python3 bench/peers worker SHAPE …`. Python puts
this folder first among those that it imports from; the packages lie beside it, in the folder above."""

import os.path
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from peers import command, worker

sys.exit(worker.main(sys.argv[2:]) if sys.argv[1:2] == ["worker"] else command.main(sys.argv[1:]))
