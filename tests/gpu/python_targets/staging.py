# SPDX-License-Identifier: Apache-2.0
"""Makes the stage: the wheel with the GPU's code, pip for its installation, and the keys of the tree that it is of."""

import datetime
import hashlib
import importlib.util
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

MOST = 64 << 20  # bytes of a stage that travels
KEYS, MANIFEST = "keys", "stage.json"
# What of the wheel must have the GPU's code, and the section that has it in a stripped file too.
BINARIES = ("plumbline/bin/plumb", "plumbline/libplumbline_worker.so", "plumbline/torch/libplumbline_operator.so")
DEVICE_CODE = b".nv_fatbin"


class StageError(Exception):
    """There is no stage, or none can be made; the text says why."""


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_wheel(root: Path, out: Path) -> Path:
    """The wheel of the tree with the GPU's code, as tests/fuzz/python/wheel_test.py builds it."""
    path = root / "tests/fuzz/python/wheel_test.py"
    spec = importlib.util.spec_from_file_location("wheel_test", path)
    if spec is None or spec.loader is None:
        raise StageError(f"{path} cannot be loaded")
    wheel_test = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheel_test)
    os.environ["PLUMBLINE_WHEEL_CUDA"] = "1"
    return wheel_test.build(out)


def pip_wheel() -> Path | None:
    """The wheel of pip that this interpreter brings; None where it brings none."""
    import ensurepip

    found = sorted((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    return found[-1] if found else None


def check_wheel(wheel: Path) -> None:
    """Raises StageError unless the wheel has the GPU's code in both of its binaries."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in BINARIES:
                if DEVICE_CODE not in archive.read(name):
                    raise StageError(f"{wheel.name}: {name} has no code for a GPU; PLUMBLINE_WHEEL_CUDA=1 builds it")
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise StageError(f"{wheel} is no wheel of this package: {error}") from None


def make_stage(out: Path, keys: Callable[[], dict[str, str]], wheel: Path | None, root: Path) -> list[str]:
    """Writes the stage and returns a line on each file. Raises StageError."""
    out = out.resolve()
    inside = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if inside and MANIFEST not in inside or out.exists() and not out.is_dir():
        raise StageError(f"{out} is not a stage: name another folder, or move it away")
    with tempfile.TemporaryDirectory() as scratch:
        wheel = wheel or build_wheel(root, Path(scratch))
        check_wheel(wheel)
        pip = pip_wheel()
        sources = [wheel, *([pip] if pip else [])]
        size = sum(path.stat().st_size for path in sources)
        if size > MOST:
            raise StageError(f"the stage would take {size / 2**20:.1f} MiB, of {MOST >> 20}")
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        for path in sources:
            shutil.copy(path, out)
    (out / KEYS).write_text("".join(f"{room} {key}\n" for room, key in keys().items()), encoding="utf-8")
    files = {path.name: sha256(path) for path in sorted(out.iterdir())}
    built = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    manifest = {"wheel": wheel.name, "pip": pip.name if pip else None, "files": files, "built": built}
    (out / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return [f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB" for path in sorted(out.iterdir())]


def unpack(stage: Path, root: Path) -> dict[str, str]:
    """Puts the wheel's program where the release build has its own, and returns the manifest. Raises StageError where a
    file is not the one that was staged, or a build is there already."""
    try:
        manifest = json.loads((stage / MANIFEST).read_text(encoding="utf-8"))
        for name, digest in manifest["files"].items():
            if sha256(stage / name) != digest:
                raise StageError(f"{stage / name} is not the file that was staged")
    except (OSError, ValueError, KeyError) as error:
        raise StageError(f"{stage} is no stage: {error}") from None
    site, program = root / "build/staged", root / "build/release/fuzz/plumb"
    if program.exists() and not program.is_symlink():
        raise StageError(f"{program} is a build of this tree: run in a copy without one")
    shutil.rmtree(site, ignore_errors=True)
    with zipfile.ZipFile(stage / manifest["wheel"]) as archive:
        archive.extractall(site)
    (site / BINARIES[0]).chmod(0o755)
    program.parent.mkdir(parents=True, exist_ok=True)
    program.unlink(missing_ok=True)
    program.symlink_to(site / BINARIES[0])
    return manifest
