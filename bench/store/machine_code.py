# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store machine_code LIBRARY     prints a sha256 over the main kernels' machine code

Machine code of the CUDA kernels in a static library, read without any tool of CUDA.

A member of the library carries its device code in the ELF section .nv_fatbin, as a list of entries; entry kind 2 is
machine code for one architecture, an ELF file of its own (cubin). It has a section .text.<mangled name> for each
kernel. A kernel's hash covers the bytes of that section, its relocations, its constants, the sizes of its shared
memory and parameters, its attributes (.nv.info: registers, launch bounds), and the constants and variables of its
whole file. A device function that it calls is listed beside it, as a kernel is. Addresses within the file, debug
information and source paths are in other sections and do not count.

nvcc puts a hash of the source's path into the names of what lies in an anonymous namespace; those are normalised.
"""

import hashlib
import re
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

# The products of logits, d_logits and both gradients on Hopper, and the sweep for few rows: nearly all of a pass's time.
MAIN = re.compile(r"6hopper1(?:3Product|1Sweep)Kernel")

CUBIN = 2  # kind of an entry of .nv_fatbin; 1 is PTX
COMPRESSED = 0xA000  # its flags: LZ4 (0x2000) or Zstandard (0x8000)
NO_BITS = 8  # type of a section that has a size and no bytes
# Sections of __constant__ and __device__ variables: they belong to a file, not to one kernel of it.
OF_A_FILE = re.compile(r"(\.rela)?\.nv\.(constant\d+|global|global\.init)")
REGISTERS = 0x2F  # .nv.info attribute EIATTR_REGCOUNT: symbol, count


class NotReadable(ValueError):
    """The file is no static library, or holds device code in a form that is not read here."""


def normalised(name: str) -> str:
    """`name`, mangled, with each anonymous namespace called `anonymous` whatever file it is of."""
    while found := re.search(r"(\d+)_GLOBAL__N_", name):
        length = int(found[1])
        name = name[:found.start()] + "9anonymous" + name[found.end(1) + length:]
    return re.sub(r"_INTERNAL_[0-9a-f]+_\d+_\w+?_cu_[0-9a-f]+_\d+", "anonymous", name)


def members(library: bytes) -> Iterator[bytes]:
    """Contents of each file in an ar archive."""
    if not library.startswith(b"!<arch>\n"):
        raise NotReadable("no static library")
    at = 8
    while at + 60 <= len(library):
        size = int(library[at + 48:at + 58])
        yield library[at + 60:at + 60 + size]
        at += 60 + size + size % 2


def sections(elf: bytes) -> list[tuple[str, int, int, bytes]]:
    """(name, type, size, bytes) of each section of a 64-bit ELF file."""
    start, = struct.unpack_from("<Q", elf, 40)
    count, names = struct.unpack_from("<HH", elf, 60)
    heads = [struct.unpack_from("<IIQQQQIIQQ", elf, start + 64 * i) for i in range(count)]
    table = elf[heads[names][4]:heads[names][4] + heads[names][5]]
    return [(table[head[0]:table.index(b"\0", head[0])].decode(), head[1], head[5],
             b"" if head[1] == NO_BITS else elf[head[4]:head[4] + head[5]]) for head in heads]


def cubins(elf: bytes) -> Iterator[bytes]:
    """Machine code in the .nv_fatbin section of an object file, an ELF file each."""
    for name, _, _, fat in sections(elf):
        at = 0
        while name == ".nv_fatbin" and at + 16 <= len(fat):
            magic, _, head, size = struct.unpack_from("<IHHQ", fat, at)
            if magic != 0xBA55ED50:
                raise NotReadable("device code in an unknown container")
            entry, at = at + head, at + head + size
            while entry < at:
                kind, _, head, size = struct.unpack_from("<HHIQ", fat, entry)
                flags, = struct.unpack_from("<Q", fat, entry + 40)
                if kind == CUBIN:
                    if flags & COMPRESSED:
                        raise NotReadable("compressed machine code; nvcc leaves it uncompressed unless told otherwise")
                    yield fat[entry + head:entry + head + size]
                entry += head + size


def symbols(found: dict[str, bytes]) -> list[str]:
    """Normalised names in an ELF file's symbol table, by index."""
    names, table = found.get(".strtab", b""), found.get(".symtab", b"")
    starts = [struct.unpack_from("<I", table, at)[0] for at in range(0, len(table), 24)]
    return [normalised(names[start:names.index(b"\0", start)].decode()) for start in starts]


def registers(info: bytes, names: list[str]) -> dict[str, int]:
    """Registers a thread, by function, from the section .nv.info; an attribute is format, kind, length, payload."""
    at, found = 0, {}
    while at + 4 <= len(info):
        form, kind, length = struct.unpack_from("<BBH", info, at)
        if form == 4 and kind == REGISTERS:
            symbol, count = struct.unpack_from("<II", info, at + 4)
            found[names[symbol]] = count
        at += 4 + (length if form == 4 else 0)  # other formats have their value in place of a length
    return found


def of_cubin(elf: bytes) -> Iterator[tuple[str, str]]:
    """(normalised name, sha256) of each kernel in one ELF file of machine code."""
    listed = sections(elf)
    found = {name: data for name, _, _, data in listed}
    names = symbols(found)
    counts = registers(found.get(".nv.info", b""), names)
    for name, _, _, code in listed:
        if not name.startswith(".text."):
            continue
        kernel = name.removeprefix(".text.")
        digest = hashlib.sha256(code)
        digest.update(f"registers {counts.get(normalised(kernel), 0)}\n".encode())
        for other, kind, size, data in listed:
            if other == name or not (other.endswith("." + kernel) or OF_A_FILE.fullmatch(other)):
                continue
            what = other.removesuffix("." + kernel)
            digest.update(f"{what} {size}\n".encode())
            if what == ".rela.text":
                for at in range(0, size, 24):
                    offset, about, addend = struct.unpack_from("<QQq", data, at)
                    symbol = names[about >> 32]
                    digest.update(f"{offset} {about & 0xFFFFFFFF} {symbol} {addend}\n".encode())
            elif kind != NO_BITS:
                digest.update(data)
        yield normalised(kernel), digest.hexdigest()


def kernels(archive: Path) -> dict[str, str]:
    """sha256 of the machine code of each kernel in a static library, by normalised mangled name.

    NotReadable where the file is no such library, OSError where it cannot be read.
    """
    found: dict[str, str] = {}
    try:
        for member in members(archive.read_bytes()):
            if member[:4] == b"\x7fELF":
                for cubin in cubins(member):
                    for name, digest in of_cubin(cubin):
                        unique, number = name, 2
                        while unique in found and found[unique] != digest:
                            unique, number = f"{name}#{number}", number + 1
                        found[unique] = digest
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as fault:
        raise NotReadable(f"damaged: {fault!r}") from fault
    except ValueError as fault:
        raise fault if isinstance(fault, NotReadable) else NotReadable(f"damaged: {fault!r}") from fault
    return found


def main_kernels(found: dict[str, str]) -> dict[str, str]:
    """Those of the kernels that a pass on Hopper spends its time in."""
    return {name: digest for name, digest in found.items() if MAIN.search(name)}


def differing(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Names of kernels whose machine code only one side has. A kernel that was only renamed does not differ."""
    before, after = Counter(old.values()), Counter(new.values())
    alone = (before - after) + (after - before)
    return sorted({name for side in (old, new) for name, digest in side.items() if digest in alone})


def key(digests: Iterable[str]) -> str:
    """One sha256 for machine code of several kernels, whatever their names and order."""
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


def main(words: list[str]) -> int:
    """Prints the key of the main kernels in a library: what a result is carried over by."""
    if len(words) != 1 or words[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        main_code = main_kernels(kernels(Path(words[0])))
    except (OSError, NotReadable) as fault:
        print(f"bench/store machine_code: {words[0]}: {fault}", file=sys.stderr)
        return 2
    print(key(main_code.values()) if main_code else "none")
    return 0
