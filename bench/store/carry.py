# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store carry RESULT.json… [--old BUILD_OR_ARCHIVE] [--new BUILD_OR_ARCHIVE]

Carries speed results (cuda_bench-*.json and peers-*.json of bench/results/) over to the present tree, if the machine
code of the main kernels is the same as when they were measured: the products of logits, d_logits and both gradients on
Hopper (bench/store/machine_code.py). A result then says so and is renamed by the present key of kernel/:

  "carried": {"from": key measured, "to": present key, "date": date, "machine_code": sha256 over the main kernels}

What is not compared: the host's side of a call, and the small kernels beside the products; where one of those differs,
that is said. A build of each side is needed:

  --old   the build folder, or its kernel/libplumbline_kernel.a, that the results were measured with; not needed where
          a result names its machine code, as one that was carried before does
  --new   that of the present tree (default: build/release). A folder that CMake configured is built first, and refused
          where it is of another source tree; anything else is taken as it is, which is said

Exit status: 0 carried, or already about this tree; 1 the machine code differs, and nothing was changed; 2 usage, or a
file that cannot be read.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, refusing

from store import builds, machine_code, stored, trees

ARCHIVE = "kernel/libplumbline_kernel.a"
NAME = re.compile(r"((?:cuda_bench|peers)-[a-z0-9-]+?)-(?:v2-)?[0-9a-f]{12,40}\.json")


def kernels_of(build: Path) -> dict[str, str]:
    """Hashes of the kernels in a build folder or archive; Refused where it has no main kernel."""
    archive = build / ARCHIVE if build.is_dir() else build
    try:
        found = machine_code.kernels(archive)
    except (OSError, machine_code.NotReadable) as fault:
        raise Refused(f"{archive}: {fault}") from fault
    if not machine_code.main_kernels(found):
        raise Refused(f"{archive} has none of the main kernels: it was built without CUDA")
    return found


def built(build: Path) -> str:
    """Builds the library of the present tree in a folder; what is to be said where that cannot be known.

    Refused where the folder is of another source tree, or does not build.
    """
    if not builds.is_configured(build):
        return f"; {build} is taken to be of the present tree"
    if why := builds.why_not_built(build, trees.ROOT, "plumbline_kernel"):
        raise Refused(why)
    return ""


def measured_with(result: dict[str, Any]) -> tuple[str, str | None]:
    """(key of the kernel that a result was measured with, sha256 of its machine code where it says that)."""
    about = result.get("context", result)
    code = result.get("carried", about).get("machine_code")
    return about["kernel"], code if re.fullmatch("[0-9a-f]{64}", code or "") else None


def same_code(measured: str | None, old: dict[str, str] | None, new: dict[str, str]) -> tuple[str, list[str]]:
    """(sha256 over the main kernels, names of other kernels that differ); Refused where a main kernel differs.

    `measured` is the machine code that the result names, `old` the kernels it was measured with: one may be None.
    """
    main = machine_code.main_kernels(new)
    code = machine_code.key(main.values())
    if old is None:
        if measured is None:
            raise Refused("it does not name its machine code: --old is needed")
        if measured != code:
            raise Refused("the machine code of the main kernels is not that of its measurement", 1)
        return code, []
    before = machine_code.main_kernels(old)
    if measured is not None and measured != machine_code.key(before.values()):
        raise Refused("--old is not the machine code that it was measured with")
    names = machine_code.differing(before, main)
    if names:
        raise Refused("the machine code differs in\n  " + "\n  ".join(names), 1)
    return code, [name for name in machine_code.differing(old, new) if not machine_code.MAIN.search(name)]


def carry(path: Path, old: dict[str, str] | None, new: dict[str, str], present: str) -> str:
    """Carries one result over; what to say of it."""
    named = NAME.fullmatch(path.name)
    if named is None:
        raise Refused("no result of cuda_bench or peers by its name")
    with refusing("no result of cuda_bench or peers"):
        result = load(path)
        measured, recorded = measured_with(result)
    code, others = same_code(recorded, old, new)
    if present in (measured, result.get("carried", {}).get("to")):
        return "already about this tree"
    result["carried"] = {"from": measured, "to": present, "date": stored.today(), "machine_code": code}
    kept = path.with_name(f"{named[1]}-{present}.json")
    stored.put(kept, result)
    path.unlink()
    return f"carried over to {kept.name}" + (f"; other kernels differ: {', '.join(others)}" if others else "")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store carry")
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--old", type=Path)
    parser.add_argument("--new", type=Path, default=trees.ROOT / "build/release")
    options = parser.parse_args(words)
    status = 0
    old = kernels_of(options.old) if options.old else None
    unknown = built(options.new)
    new = kernels_of(options.new)
    present = trees.key(trees.ROOT, "kernel")
    for path in options.results:
        try:
            print(f"{path.name}: {carry(path, old, new, present)}{unknown}")
        except Refused as why:
            print(f"bench/store carry: {path.name}: {why}", file=sys.stderr)
            status = max(status, why.status)
    return status
