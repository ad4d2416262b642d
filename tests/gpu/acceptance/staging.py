# SPDX-License-Identifier: Apache-2.0
"""Makes the stage: a folder with what another machine needs to run the acceptance."""

import datetime
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

PROGRAMS = {"plumb": "fuzz/plumb", "cuda_tests": "tests/cuda_tests", "hopper_tests": "tests/hopper_tests",
            "fuzz_tests": "tests/fuzz_tests", "oracle_tests": "tests/oracle_tests", "corpus_once": "tests/corpus_once"}
PACKED = "programs.tar.xz"
SCRIPTS = ["accept", "tightness.py"]
PACKAGE = "acceptance"
STAGED = {"bin", "lib", "corpus", "stage.json", PACKED, PACKAGE, *SCRIPTS}  # what --stage and unpacking put there


def say(text: str) -> None:
    print(text, flush=True)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def needed_libraries(program: Path) -> dict[str, Path | None]:
    """Shared objects that are not part of every glibc system; None for one that is not found."""
    listing = subprocess.run(["ldd", str(program)], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = re.findall(r"^\s*(\S+) => (not found|\S+)", listing, re.MULTILINE)
    glibc = ("libc.so", "libm.so", "ld-linux", "libdl.so", "libpthread.so", "librt.so")
    return {name: None if path == "not found" else Path(path)
            for name, path in found if not name.startswith(glibc)}


def refused(out: Path) -> str | None:
    """Why the stage is not made in `out`."""
    if out.exists() and not out.is_dir():
        return f"{out} is no folder"
    inside = {path.name for path in out.iterdir()} if out.exists() else set()
    foreign = sorted(inside - STAGED if "stage.json" in inside else inside)
    if foreign:
        return (f"{out} holds {', '.join(foreign[:5])}, which --stage did not put there: name another folder, or "
                "move it away")
    return None


def unbuilt(root: Path, build: Path) -> str | None:
    """Builds the programs, for what runs there must be what the keys say; why they are not built."""
    cache = build / "CMakeCache.txt"
    if cache.is_file():
        home = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache.read_text(encoding="utf-8"), re.MULTILINE)
        if home is None or Path(home[1]).resolve() != root.resolve():
            return f"{build} is of another source tree: {home[1] if home else 'none'}"
        built = subprocess.run(["cmake", "--build", str(build), "--target", *PROGRAMS, "on_cuda"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if built.returncode != 0:
            say(built.stdout[-2000:])
            return f"{build} does not build {', '.join(PROGRAMS)}; they need a CUDA compiler"
    missing = [path for path in PROGRAMS.values() if not (build / path).is_file()]
    return f"{build} has no {', '.join(missing)}: build the tree with a CUDA compiler first" if missing else None


def pack(out: Path) -> None:
    """Puts programs and libraries into one archive: device code is most of every program, and the same in all, so
    that they take an eighth of their size."""
    with tarfile.open(out / PACKED, "w:xz", preset=3) as archive:
        for folder in ["bin", "lib"]:
            archive.add(out / folder, folder)
            shutil.rmtree(out / folder)


def make_stage(root: Path, build: Path, out: Path, keys: Callable[[], dict[str, str]]) -> int:
    """Installs programs (RPATH $ORIGIN/../lib), libraries, corpus, scripts and stage.json into `out`."""
    out = out.resolve()
    if why := refused(out):
        say(f"accept: {why}")
        return 2
    if why := unbuilt(root, build):
        say(f"accept: {why}")
        return 3
    libraries: dict[str, Path] = {}
    for program in PROGRAMS.values():
        needed = needed_libraries(build / program)
        absent = [library for library, path in needed.items() if path is None]
        if absent:
            say(f"accept: {build / program} needs {', '.join(absent)}, which ldd does not find")
            return 3
        libraries.update({library: path for library, path in needed.items() if path})
    shutil.rmtree(out, ignore_errors=True)
    (out / "lib").mkdir(parents=True)
    subprocess.run(["cmake", "--install", str(build), "--component", "gpu_stage", "--strip", "--prefix", str(out)],
                   check=True, stdout=subprocess.DEVNULL)
    for library, path in libraries.items():
        shutil.copyfile(path, out / "lib" / library)
    shutil.copytree(root / "corpus", out / "corpus", ignore=shutil.ignore_patterns("new", "public", "*.py", "*.md"))
    for script in SCRIPTS:
        shutil.copy(root / "tests/gpu" / script, out)
    shutil.copytree(root / "tests/gpu" / PACKAGE, out / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    files = {str(path.relative_to(out)): sha256(path) for path in sorted(out.rglob("*")) if path.is_file()}
    for folder in ["bin", "lib", "corpus"]:
        paths = [path for path in (out / folder).rglob("*") if path.is_file()]
        say(f"{folder}: {len(paths)} files, {sum(path.stat().st_size for path in paths) / 2**20:.1f} MiB"
            + ("" if folder == "corpus" else ": " + ", ".join(sorted(path.name for path in paths))))
    pack(out)
    manifest = {"trees": keys(), "files": files,
                "built": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    (out / "stage.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    say(f"{out}: {size / 2**20:.1f} MiB in all; copy it to the GPU machine and run {out.name}/accept there")
    return 0
