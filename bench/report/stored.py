# SPDX-License-Identifier: Apache-2.0
"""Finds stored results and says in one line what each was measured on."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from .command_line import load

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@dataclass(frozen=True)
class Stored:
    """A stored result: where it lies, and the JSON object that it holds."""
    path: Path
    data: dict

    def link(self, page: str) -> str:
        """Returns a Markdown link from `page`, which is named from the root of the tree."""
        return f"[{self.path.name}]({os.path.relpath(RESULTS / self.path.name, (ROOT / page).parent)})"


def find(pattern: str, folder: Path = RESULTS) -> Stored:
    """Returns the one stored result that `pattern` names. Raises ValueError where there is none, or several."""
    paths = sorted(folder.glob(pattern))
    if len(paths) != 1:
        raise ValueError(f"{len(paths)} stored results are named {pattern}; one is needed"
                         + (": " + ", ".join(path.name for path in paths) if paths else ""))
    return Stored(paths[0], load(paths[0]))


def find_all(pattern: str, folder: Path = RESULTS) -> list[Stored]:
    """Returns the stored results that `pattern` names, of which there may be none, by their names."""
    return [Stored(path, load(path)) for path in sorted(folder.glob(pattern))]


def driver(text: str) -> str:
    """Returns the number in what a driver says of itself."""
    number = re.search(r"\d+\.\d+(\.\d+)?", text or "")
    return number[0] if number else "unknown"


def short(tree: str) -> str:
    """Returns a git hash cut to 12 digits, with what stands around it."""
    return re.sub(r"([0-9a-f]{12})[0-9a-f]*", r"\1", tree)


def trees(data: dict) -> str:
    """Returns the trees that a result is about, abbreviated as git does."""
    named = data.get("trees") or {name: data[name] for name in ("kernel",) if name in data}
    return ", ".join(f"{name} {short(str(tree))}" for name, tree in named.items()) or "unknown"


def of_program(data: dict) -> str:
    context = data["context"]
    return (f"{context['device']}, driver {driver(context['driver'])}, CUDA {context['cuda']}, cuBLAS {context['cublas']}, "
            f"{context['date'][:10]}, tree {trees(context)}")


def of_peers(data: dict) -> str:
    machine = data["machine"]
    count = f"{machine['devices']} × " if machine["devices"] > 1 else ""
    return (f"{count}{machine['device']}, driver {driver(machine['driver'])}, CUDA {machine['cuda']}, PyTorch "
            f"{machine['torch']}, Triton {machine['triton']}, {data['date'][:10]}, tree {trees(data)}")


def of_device(data: dict) -> str:
    return f"{data['device']}, driver {data['driver']}, CUDA {data['cuda']}, {data['date']}, trees {trees(data)}"


def of_stage(data: dict) -> str:
    machine = data["machine"]
    return f"{machine['device']}, driver {machine['driver']}, {data['date']}, tree {trees(data['build'])}"


def of_plumb(data: dict) -> str:
    machine = data["machine"]
    return f"`{data['command']}`, {machine['cpu']}, {machine['cores']} cores, {machine['compiler']}, {data['date']}, " \
           f"trees {trees(data)}"


def about(data: dict) -> str:
    """Returns device, versions, date and trees of a stored result, whichever program wrote it."""
    kinds = {"context": of_program, "shapes": of_peers, "stages": of_device, "cublas": of_device, "build": of_stage}
    said = next((say for key, say in kinds.items() if key in data), of_plumb)(data)
    carried = data.get("carried")
    return said + (f", carried over to {short(carried['to'])}, whose main kernels have the same machine code" if carried
                   else "")


def spoken(shape: str) -> str:
    """Returns a shape's name as a page has it."""
    return shape.replace("_half_ignored", ", half ignored")


def grouped(number: float) -> str:
    """Returns a whole number with a space between thousands."""
    return f"{number:,.0f}".replace(",", " ")


def power(number: float, digits: int = 0) -> str:
    """Returns a number as a·10ᵇ, with `digits` after the point of a."""
    mantissa, exponent = f"{number:.{digits}e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"
