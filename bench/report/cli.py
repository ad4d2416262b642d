# SPDX-License-Identifier: Apache-2.0
"""Prints tables, comparisons and the history of stored results, and writes the generated pages.

Each subcommand says more with --help. Exit status: that of the subcommand; 2 usage, or a file that is no such result.
"""

import argparse
import sys

from . import compare, figures, history, mutants, pages, tightness, training_page
from .command_line import Refused

COMMANDS = {"compare": compare, "figures": figures, "history": history, "mutants": mutants, "tightness": tightness,
            "training": training_page, "all": pages}


def main(words: list[str]) -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="bench/report", description=__doc__, formatter_class=raw)
    subcommands = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
    for name, module in COMMANDS.items():
        summary = module.__doc__.partition("\n\n")[0].replace("%", "%%")
        module.add_arguments(
            subcommands.add_parser(name, help=summary, description=module.__doc__, formatter_class=raw))
    arguments = parser.parse_args(words)
    try:
        return COMMANDS[arguments.subcommand].run(arguments)
    except Refused as why:
        print(f"bench/report {arguments.subcommand}: {why}", file=sys.stderr)
        return why.status
