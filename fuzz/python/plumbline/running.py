# SPDX-License-Identifier: Apache-2.0
"""Starts `plumb` and reads the JSON object that it ends with."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from . import library, progress, worker
from .findings import STATUS_WORDS, PlumbError
from .naming import with_search_path

_NO_VERDICT = (2, 3, 4, 5)


def _words(text: str, result: Mapping[str, Any]) -> str:
    """What plumb says of why there is no verdict."""
    said = [line.removeprefix("plumb: ") for line in text.splitlines() if line.startswith("plumb: ")]
    said = [line for line in said if not line.startswith(("fuzzing ", "gate of "))]
    return result.get("error", "") or "\n".join(said) or text.strip() or "plumb said nothing"


def _told(process: subprocess.Popen[str], shown: progress.Shown, said: list[str]) -> None:
    """Reads what plumb prints beside its result, to the end: progress is shown, all else kept. A fault of what shows it ends
    the showing, not the campaign."""
    show = shown.at
    for line in process.stderr or ():
        at = progress.of_line(line)
        if at is None:
            said.append(line)
            continue
        try:
            show(at)
        except Exception as error:  # noqa: BLE001
            warnings.warn(f"progress is shown no longer: {error!r}", stacklevel=2)
            show = progress.Silent().at


def run(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None, shown: progress.Shown | None = None
) -> tuple[dict[str, Any], str]:
    """Runs `plumb ARGUMENTS --json`. Returns its JSON object and what it printed for a person. How far it is is told to
    `shown` as it comes.

    Raises PlumbError where it ends without a verdict, and RuntimeError in a worker: a script that hunts as it is
    imported would start itself for ever. An interrupt is passed on to it, once, so that it
    saves its state.
    """
    if worker.target is not None:
        raise RuntimeError(
            f"the call of plumbline runs when a worker imports the module to find {worker.target}: "
            'put it under `if __name__ == "__main__":`'
        )
    command = [library.program(), *arguments, "--json"]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
        env=with_search_path({**os.environ, **(environment or {})}), text=True, encoding="utf-8", errors="replace",
    )
    said: list[str] = []
    reader = threading.Thread(target=_told, args=(process, shown or progress.Silent(), said))
    reader.start()
    try:
        output = process.stdout.read() if process.stdout else ""
    except BaseException:
        process.send_signal(signal.SIGINT)
        if process.stdout:
            process.stdout.read()  # its object may be longer than a pipe holds
        raise
    finally:
        process.wait()
        reader.join()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        if shown is not None:
            shown.close()
    text = "".join(said)
    lines = output.splitlines()
    try:
        result = json.loads(lines[-1]) if lines else {}
    except ValueError:
        result = {}
    status = process.returncode
    if status in _NO_VERDICT or not 0 <= status < len(STATUS_WORDS) or not result:
        folder = result.get("out")
        what = f"plumb {arguments[0]} ended with status {status}"
        if 0 <= status < len(STATUS_WORDS):
            what += f" ({STATUS_WORDS[status]})"
        raise PlumbError(f"{what}: {_words(text, result)}", status, pathlib.Path(folder) if folder else None)
    return result, text


def interpreter() -> list[str]:
    """The option by which workers run in this interpreter."""
    return ["--python", sys.executable]
