# SPDX-License-Identifier: Apache-2.0
"""usage: PLUMBLINE_CAPTURE=dir=DIR[,KEY=VALUE…] python -m plumbline.capture -- COMMAND…
       PLUMBLINE_CAPTURE=… python -m plumbline.capture --env

Runs a job as it is, and writes chosen calls of its linear cross-entropy as dumps for `plumb check` (fuzz/CAPTURE.md).
--env prints the variables, as JSON, with which a process that something else starts does the same: Ray's runtime_env.

  dir=DIR        where dumps are written; needed
  step=K         the call is made after K steps of an optimizer [0]; 100+200; all
  rank=R         whose rows are taken [0]; 0+8; all
  rows=K         rows of the call that are taken [all]
  calls=K        calls of a step [1]; all
  graph=any      calls that autograd does not record, too [needed]
  function=M:F   a function beside those that are recognised; M:F+M:G

Exit status: the command's; 2 where the variable is wrong, or dir cannot be written.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import types
from typing import Any

from .capturing import settings
from .capturing.session import say


def _environment(text: str) -> dict[str, str]:
    site = str(pathlib.Path(__file__).resolve().parent / "capturing" / "site")
    path = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder and folder != site]
    return {settings.VARIABLE: text, "PYTHONPATH": os.pathsep.join([site, *path])}


def _files(folder: pathlib.Path) -> set[tuple[str, int]]:
    return {(str(path), path.stat().st_mtime_ns) for path in folder.rglob("*.safetensors")}


def _run(command: list[str], environment: dict[str, str]) -> int:
    """The status of a command, to which signals are handed on."""
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []  # signals that came before there was a child

    def hand_on(number: int, _: object) -> None:
        for child in children:
            child.send_signal(number)
        if not children:
            early.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, hand_on)
    with subprocess.Popen(command, env={**os.environ, **environment}) as child:
        children.append(child)
        for number in early:
            child.send_signal(number)
        status = child.wait()
    return status if status >= 0 else 128 - status


def main(words: list[str]) -> int:
    if not words or words[0] not in ("--", "--env") or (words[0] == "--" and len(words) < 2):
        print(__doc__, file=sys.stderr if words[:1] != ["--help"] else sys.stdout)
        return 0 if words[:1] == ["--help"] else 2
    text = os.environ.get(settings.VARIABLE, "")
    try:
        asked = settings.parse(text)
        if words[0] != "--env":  # those variables are for other machines, too
            settings.writable(asked.dir)
    except settings.SettingsError as error:
        say(f"{settings.VARIABLE}: {error}")
        return 2
    if words[0] == "--env":
        print(json.dumps(_environment(text)))
        return 0
    before = _files(asked.dir)
    try:
        status = _run(words[1:], _environment(text))
    except OSError as error:
        say(f"{words[1]}: {error.strerror}")
        return 127
    if not _files(asked.dir) - before:
        named = f", nor of {', '.join(asked.functions)}, if its module was imported at all" if asked.functions else ""
        say(f"nothing was captured in {asked.dir}: no chosen call of a function that is recognised{named}")
    return status


class _Callable(types.ModuleType):
    """This module where it is imported: its name in the package stays the function."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from .capturing.context import capture

        return capture(*args, **options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
sys.modules[__name__].__class__ = _Callable
