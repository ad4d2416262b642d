# SPDX-License-Identifier: Apache-2.0
"""The acceptance of the CUDA operator on a GPU, in stages, on a machine that needs nothing of this tree.

usage: tests/gpu/accept --stage DIR [--build BUILD]     here: what the other machine needs, into DIR
       DIR/accept [--stages A,B] [--out OUT] [--minutes M] [--at-once N] [--again]      there: run it
       tests/gpu/accept --store OUT/summary.json        here: keep the summary in bench/results/, joined with what is there
       tests/gpu/accept --status [--strict]             which stored results are stale against this tree

A stage of the acceptance takes at most 8 minutes, all of them at most M (default 20). N stages share the GPUs and
the processors (default: one for every five processors, at most 3 a GPU): none of them measures time. GPUs are of one
kind, and each stage has one of them. A step that has passed or
failed for the same trees, programs and device is not run again (--again: its stage is); what was interrupted or
could not be run goes on, a campaign where it stopped. A step that does not end in its own time fails, unless it can
go on. OUT (default accept-out) holds a result and the output of every stage, and summary.json, written anew after
each. --store joins it with what is stored of the same trees, device and driver: stages that have passed or failed there
stand where they did not end here. PLUMB_MPS_CONTROL names CUDA's nvidia-cuda-mps-control; empty: none.

Exit status: 0 every stage passed, 1 one failed, 2 usage, 3 a stage could not be built or the harness is at fault,
4 no GPU, 5 stages are left (interrupted, out of time, or "unavailable": something that they need is not there).
--status: a line of each stored result: STALE, or current ("carried": its machine code is this tree's) and, where it
has not passed, FAILED or INCOMPLETE; how many planted defects were missed. Exit status 0; --strict: 1 where one has
failed, cannot be read, or is of this tree and incomplete, 77 where one is stale.
"""

import argparse
import sys
from pathlib import Path

from acceptance.running import accept
from acceptance.staging import make_stage, say


def at_once(text: str) -> int:
    """A number of stages, at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least one stage runs at once")
    return number


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument("--stage", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--status", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--strict", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)  # of another tree: tests
    parser.add_argument("--stages", help=argparse.SUPPRESS)
    parser.add_argument("--out", default="accept-out", help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=20, help=argparse.SUPPRESS)
    parser.add_argument("--at-once", type=at_once, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--again", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main(here: Path) -> int:
    """`here`: the folder of the launcher, tests/gpu or a stage."""
    options = parse()
    in_stage = (here / "stage.json").exists()
    if in_stage and not (options.status or options.stage or options.store):
        return accept(here, options)
    if in_stage or not (options.status or options.stage or options.store):
        say("accept: this is a stage; --stage, --store and --status are for the tree that it was made from (--help)"
            if in_stage else
            "accept: this is the source tree; --stage DIR makes what runs on a GPU machine (--help)")
        return 2
    # A stage has no bench/, so that these are imported here.
    sys.path.insert(1, str(here.parents[1] / "bench"))
    from store import trees
    root = options.root or here.parents[1]
    if options.status:
        from acceptance.status import exit_status, status_lines
        lines = status_lines(root)
        for line in lines:
            say(line.text)
        return exit_status(lines, options.strict)
    if options.stage:
        return make_stage(root, options.build or root / "build/release", options.stage, lambda: trees.keys(root))
    from acceptance.storing import store
    return store(root, options.store)
