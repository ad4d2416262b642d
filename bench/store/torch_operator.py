# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store torch-operator --python PYTHON [--as-built KEYS] [--out FILE]

What plumbline.torch costs beyond the operator's library, in an interpreter with PyTorch: the host's time of a forward and
backward with the two passes replaced by nothing, beside a linear layer's; on a GPU also a step against the passes alone,
and the most memory against what the library asks for. Stored in bench/results/torch-operator.json
(bench/store/timed/torch_operator.py measures; medians of 15 rounds of 400 calls, and of 15 steps).

Exit status: 0 stored, 2 usage or another tree, 3 the program gave no result, 4 the interpreter lacks PyTorch.
"""

import argparse
import os
import subprocess
from pathlib import Path

from report.command_line import Refused, refusing

from store import builds, plumb, stored, trees

ROOT = trees.ROOT
PROGRAM = Path(__file__).resolve().parent / "timed" / "torch_operator.py"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store torch-operator")
    parser.add_argument("--python", required=True, help="an interpreter with torch")
    parser.add_argument("--as-built", type=Path, metavar="KEYS", help="takes the package as it is built")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/torch-operator.json")
    given = parser.parse_args(words)
    program = builds.release(ROOT, *(() if given.as_built else ("plumb", "plumbline_worker", "plumbline_operator")))
    about = trees.keys_in(given.as_built) if given.as_built else trees.committed_keys(ROOT)
    path = os.pathsep.join(filter(None, (str(ROOT / "build/release/python"), os.environ.get("PYTHONPATH", ""))))
    ran = subprocess.run([given.python, "-B", PROGRAM], capture_output=True, text=True, check=False,
                         env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"})
    if ran.returncode:
        raise Refused(f"nothing stored: {(ran.stderr.strip().splitlines() or ['no word'])[-1]}", 4 if "ModuleNotFound" in ran.stderr else 3)
    with refusing("nothing stored", 3):
        found = stored.last_object(ran.stdout)
    stored.write(given.out, "python3 bench/store torch-operator --python PYTHON", about, plumb.machine(program), **found)
    print({name: each["median_us"] for name, each in found["host"].items()}, found.get("steps", ""))
    return 0
