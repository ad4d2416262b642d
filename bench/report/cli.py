# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/report SUBCOMMAND …

  compare STORED.json NEW.json    says of every benchmark whether it is slower than it was, beyond its noise
  figures RESULT.json             the table of what the CUDA operator was asked to reach, of a result of cuda_bench
  history [RESULT.json…]          time, ratio and memory of the CUDA operator from commit to commit; --plot draws it
  history --store RESULT.json     keeps a result of cuda_bench in bench/results/
  mutants RESULT.json             the table of planted defects, of a stored `plumb selftest --seeds N`
  tightness RESULT.json…          the tables of the largest error over bound, of stored campaigns
  page NAME                       one generated page: speed, peers, tightness, found or gpu
  all [--folder DIR]              writes every generated page, in the tree or below DIR

Each says more with --help. Exit status: that of the subcommand; 2 usage.
"""

import sys
from collections.abc import Callable

from . import compare, figures, history, mutants, pages, tightness

COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "compare": compare.main, "figures": figures.main, "history": history.main, "mutants": mutants.main,
    "tightness": tightness.main, "page": pages.print_page, "all": pages.write_all}


def main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(__doc__.strip(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    command = COMMANDS.get(words[0])
    if command is None:
        print(f"bench/report: unknown subcommand '{words[0]}': there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return command(words[1:])
