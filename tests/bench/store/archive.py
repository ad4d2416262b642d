# SPDX-License-Identifier: Apache-2.0
"""Static libraries with device code in them, small ones, as nvcc lays them out."""

import struct

ANONYMOUS = "41_GLOBAL__N__82f2974f_9_finish_cu_11b3d61a"  # of a file finish.cu, by a hash of its path
MOVED = "41_GLOBAL__N__1c927e02_9_finish_cu_11b3d61a"


def elf(*listed):
    """An ELF file of (name, type, bytes or size) sections."""
    names, heads, body = b"\0", [b"\0" * 64], b""
    for name, kind, data in (*listed, (".shstrtab", 3, None)):
        start = len(names)
        names += name.encode() + b"\0"
        data = names if data is None else data
        size = data if isinstance(data, int) else len(data)
        heads.append(struct.pack("<IIQQQQIIQQ", start, kind, 0, 0, 64 + len(body), size, 0, 0, 0, 0))
        body += b"" if isinstance(data, int) else data
    head = b"\x7fELF".ljust(40, b"\0") + struct.pack("<Q", 64 + len(body)) + b"\0" * 12
    return head + struct.pack("<HH", len(heads), len(heads) - 1) + body + b"".join(heads)


def cubin(*kernels, debug=b"/home/a/finish.cu", more=()):
    """Machine code of (name, code, registers, shared bytes) kernels, and `more` sections."""
    strings, symbols, info, listed = b"\0", b"\0" * 24, b"", []
    for number, (name, code, registers, shared) in enumerate(kernels, 1):
        symbols += struct.pack("<IIQQ", len(strings), 0, 0, 0)
        strings += name.encode() + b"\0"
        info += struct.pack("<BBHII", 4, 0x2F, 8, number, registers)
        listed += [(f".text.{name}", 1, code), (f".nv.shared.{name}", 8, shared)]
    return elf((".strtab", 3, strings), (".symtab", 2, symbols), (".nv.info", 0x70000000, info), *listed,
               *more, (".debug_str", 1, debug))


def fatbin(*entries):
    """(kind, flags, bytes) entries, in the container that nvcc embeds."""
    body = b""
    for kind, flags, data in entries:
        body += struct.pack("<HHIQ", kind, 257, 64, len(data)) + b"\0" * 24
        body += struct.pack("<Q", flags) + b"\0" * 16 + data
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(*members):
    """An archive of members, each with the device code of a list of entries (None: a file of the host alone)."""
    text = b"!<arch>\n"
    for entries in members:
        data = elf((".text", 1, b"host")) if entries is None else elf((".nv_fatbin", 1, fatbin(*entries)))
        text += b"file.o/".ljust(48) + str(len(data)).encode().ljust(10) + b"`\n" + data + b"\n" * (len(data) % 2)
    return text
