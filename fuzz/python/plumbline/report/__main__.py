# SPDX-License-Identifier: Apache-2.0
"""plumb report DIR…: a report for people of campaigns, comparisons, checks and benchmarks (fuzz/REPORT.md).

Exit status: 0 the report is written, 2 an input that cannot be read (file and line are named), 3 a fault of this program,
4 a package is missing."""

from __future__ import annotations

import argparse
import pathlib
import sys
import traceback

from .. import __version__
from ..stored import FormatError
from .markdown import markdown
from .page import page
from .source import read


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("plumb report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", type=pathlib.Path, metavar="DIR",
                        help="a campaign's or a comparison's folder, a file that `plumb check --json` printed or Google Benchmark wrote")  # fmt: skip
    parser.add_argument("--markdown", action="store_true", help="at most 60 lines of Markdown, in place of a page")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="[report.html; with --markdown the terminal]")
    return parser.parse_args()


def main() -> int:
    given = _arguments()
    try:
        reports = read(given.inputs)
        text = markdown(reports) if given.markdown else page(reports, __version__)
        if given.markdown and given.out is None:
            sys.stdout.write(text)
            return 0
        out = given.out or pathlib.Path("report.html")
        out.write_text(text, encoding="utf-8")
    except ImportError as error:
        print(f"plumb report: {error}; `pip install jinja2 matplotlib` gives what a page needs", file=sys.stderr)
        return 4
    except (FormatError, OSError) as error:
        print(f"plumb report: {error}", file=sys.stderr)
        return 2
    except Exception:  # noqa: BLE001, status 1 says findings
        traceback.print_exc()
        print("plumb report: a fault of its own, and no report", file=sys.stderr)
        return 3
    print(f"plumb report: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
