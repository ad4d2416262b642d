# SPDX-License-Identifier: Apache-2.0
"""The text that the model is trained on, and its vocabulary, both made by script; neither is part of the tree.

The text is the first 20 MiB of the GNU Collaborative International Dictionary of English, from Debian's package dict-gcide
(GPL, version 2 or later). The vocabulary is 256 bytes and the most frequent words of the text; any other word is spelled
byte by byte, so that every text has tokens.
"""

import array
import collections
import gzip
import hashlib
import io
import json
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from report.command_line import Refused, load, refusing

PACKAGE = "dict-gcide"
INSIDE = "./usr/share/dictd/gcide.dict.dz"
LICENCE = "GPL-2.0-or-later"
MOST = 20 << 20  # bytes of the text that are used
SHA256 = "a41b2723befaa59b6f736d0684f889c8a0a1cdac3eccaf0c7547bb5888a2187e"
WORD = re.compile(rb" ?[A-Za-z]+| ?[0-9]+| ?[^A-Za-z0-9\s]|\s+")
BYTES = 256
TOKENS, ABOUT = "tokens.u16", "about.json"


def cut(raw: bytes) -> bytes:
    """At most MOST bytes of whole lines."""
    return raw if len(raw) <= MOST else raw[:raw.rindex(b"\n", 0, MOST) + 1]


def fetched() -> bytes:
    """The text out of the archive's package; nothing is installed. Refused where it is not to be had, or is another one."""
    with tempfile.TemporaryDirectory() as scratch, refusing(f"package {PACKAGE}", 3):
        subprocess.run(["apt-get", "download", PACKAGE], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        package, = Path(scratch).glob(f"{PACKAGE}_*.deb")
        files = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, stdout=subprocess.PIPE).stdout
        with tarfile.open(fileobj=io.BytesIO(files)) as archive:
            member = archive.extractfile(INSIDE)
            if member is None:
                raise ValueError(f"{INSIDE} is no file")
            text = cut(gzip.decompress(member.read()))
    if (digest := hashlib.sha256(text).hexdigest()) != SHA256:
        raise Refused(f"the text in {PACKAGE} is another one: sha256 {digest}; --text FILE takes a text as it is", 3)
    return text


def vocabulary_of(words: list[bytes], size: int) -> dict[bytes, int]:
    """Numbers of the most frequent words, the first seen first among equals; bytes have the numbers below them."""
    counted = collections.Counter(words).most_common(size - BYTES)
    return {word: BYTES + number for number, (word, _) in enumerate(counted)}


def tokens_of(text: bytes, size: int) -> array.array:
    """The numbers of a text's tokens."""
    words = WORD.findall(text)
    known = vocabulary_of(words, size)
    found = array.array("H")
    for word in words:
        number = known.get(word)
        found.extend(word) if number is None else found.append(number)
    return found


def prepare(folder: Path, size: int, text: bytes, source: str) -> dict[str, Any]:
    """Writes the tokens of a text and what they are of. Refused where the text is too short for the vocabulary."""
    if not BYTES < size <= 1 << 16:
        raise Refused(f"a vocabulary of {size}: more than {BYTES}, at most {1 << 16}")
    tokens = tokens_of(text, size)
    used = len(set(tokens))
    if len(tokens) < 2 * size:
        raise Refused(f"{len(tokens)} tokens are too few for a vocabulary of {size}")
    raw = tokens.tobytes()
    about = {"source": source, "bytes": len(text), "text_sha256": hashlib.sha256(text).hexdigest(), "vocabulary": size,
             "tokens": len(tokens), "used": used, "spelled": sum(each < BYTES for each in tokens),
             "tokens_sha256": hashlib.sha256(raw).hexdigest()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TOKENS).write_bytes(raw)
    (folder / ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")
    return about


def prepared(folder: Path, size: int) -> dict[str, Any]:
    """What lies in the folder; Refused where it is not whole, or of another vocabulary."""
    with refusing(f"{folder} has no tokens, --prepare makes them"):
        about = load(folder / ABOUT)
        digest = hashlib.sha256((folder / TOKENS).read_bytes()).hexdigest()
        if (about["vocabulary"], about["tokens_sha256"]) != (size, digest):
            raise ValueError(f"a vocabulary of {about['vocabulary']}, sha256 {digest}")
    return about
