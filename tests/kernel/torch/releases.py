# SPDX-License-Identifier: Apache-2.0
"""The releases that the patches of kernel/torch/patches are for: fetched, unpacked, patched, and run in processes of their own."""

import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
from support import PACKAGE, ROOT

FOLDER = ROOT / "kernel/torch/patches"
PATCHES = {patch.stem.rsplit("-", 1)[0]: patch for patch in sorted(FOLDER.glob("*.patch"))}
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "plumbline/releases"

run = functools.partial(subprocess.run, capture_output=True, text=True, check=False)


def unavailable(reason):
    """Nothing can be run here."""
    print(reason)
    sys.exit(77)


def fetched(name, *arguments):
    """The folder `name` of the cache, which pip fills if it is not there."""
    folder = CACHE / name
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            pip = run([sys.executable, "-m", "pip", *arguments, f"{scratch}/made"])
            if pip.returncode:
                unavailable(f"pip cannot fetch {name}: {(pip.stderr.strip().splitlines() or ['no reason'])[-1]}")
            os.rename(f"{scratch}/made", folder)
    return folder


def release(project):
    name = PATCHES[project].stem
    (archive,) = fetched(name, "download", "--quiet", "--no-deps", name.replace(f"{project}-", f"{project}=="), "--dest").iterdir()
    return archive


def packages():
    """What the releases import on the way to the patched modules, beside PyTorch and NumPy. Nothing is stubbed."""
    needed = FOLDER / "requirements.txt"
    folder = f"packages-{sys.implementation.cache_tag}-{hashlib.sha256(needed.read_bytes()).hexdigest()[:12]}"
    return fetched(folder, "install", "--quiet", "--no-deps", "--requirement", str(needed), "--target")


class Releases:
    """The unpacked releases, plain and patched, and what they compute."""

    def __init__(self, folder, program):
        self.folder, self.program = pathlib.Path(folder), program
        self.applied = {}
        for project, patch in PATCHES.items():
            for kind in ("plain", "patched"):
                shutil.unpack_archive(release(project), self.folder / kind / project, "zip")  # a wheel
            command = ["patch", "-p1", "--fuzz=0", "--batch", "-d", self.folder / "patched" / project, "-i", patch]
            self.applied[project] = run(command)

    def python(self, project, kind, *arguments):
        """A run of python with that release, the transformers that it needs, and no other files of this tree."""
        trees = (self.folder / kind / project, self.folder / "plain/transformers", packages(), PACKAGE)
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, trees)), HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
        return run([sys.executable, "-B", *arguments], env=environment)

    @functools.cache  # noqa: B019
    def computed(self, project, kind, on):
        path = self.folder / f"{project}-{kind}-{on}.pt"
        ran = self.python(project, kind, self.program, "--child", project, str(int(on)), str(path))
        assert ran.returncode == 0, f"{project}, {kind}, {on}:\n{ran.stdout[-2000:]}\n{ran.stderr[-4000:]}"
        found = torch.load(path)
        assert found["imported"].startswith(str(self.folder / kind / project)), found["imported"]
        return found
