# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store COMMAND …     (COMMAND --help says more)

  record          stores what a plumb command says
  campaign        runs a long campaign in pieces and stores it at its end
  honest          runs campaigns of the foreign kernels and stores one result
  false-alarms    how often the second tier suspects an honest kernel
  limited         runs campaigns within declared capabilities and stores the shares judged
  adapters        runs campaigns on public kernels in Python and stores the shares judged
  public-kernels  hunts public kernels on a GPU: limits, shortcuts, findings with a script each
  compare         sets public kernels and the operator side by side on a GPU
  old-bugs        hunts known defects of public kernels at the releases that had them
  split           where the time of a campaign goes
  planted-triton  hunts each planted defect of the Triton targets, cold
  inference       what the inference of shortcuts names of mutants, and of kernels with a shortcut and a bug
  triton-rate     how fast a Triton target is judged, and what compiling and shrinking take
  production-sight  judges roundings at production size on a GPU
  speed           measures the CUDA operator in pieces, a shape at a time, and joins what they say
  traffic         the bytes that each kernel of a pass moves, by ncu
  memory          what a step holds beyond inputs and outputs, by the sizes that the operator says
  first-calls     what the first step of a process takes beside its second
  torch-operator  what plumbline.torch costs beyond the operator's library
  training        trains a small model by several heads beside the spread of five orders of rows
  rollout         what a head is to blame for in the ratio of rollout and training
  sight           what plumb check sees of defects at production size
  stretch-bounds  the whole bound of grad_hidden with stretches and without, where logits are exact
  check_dump      times plumb check on a dump of a real size
  search          compares the search of two builds of plumb
  carry           carries speed results over to a tree with the same machine code
  trees           prints the keys of what stored results are about
  machine_code    prints the key of a library's main kernels
"""

import importlib
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from report.command_line import Refused

HELP = (["-h"], ["--help"])
COMMANDS = ("record", "campaign", "honest", "false-alarms", "limited", "adapters", "public-kernels", "compare", "old-bugs",
            "split", "planted-triton", "inference", "triton-rate", "production-sight", "speed", "traffic", "memory",
            "first-calls", "torch-operator", "training", "rollout", "sight", "stretch-bounds",
            "check_dump", "search", "carry", "trees", "machine_code")


def main(words: list[str]) -> int:
    if words[:1] in HELP:
        print(__doc__.strip())
        return 0
    if not words or words[0] not in COMMANDS:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    command = importlib.import_module(f"store.{words[0].replace('-', '_')}")
    if words[1:2] in HELP:
        print(command.__doc__.strip())
        return 0
    try:
        return command.main(words[1:])
    except Refused as why:
        print(f"bench/store {words[0]}: {why}", file=sys.stderr)
        return why.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
