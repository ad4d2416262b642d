# SPDX-License-Identifier: Apache-2.0
"""The operator as a repository of Hugging Face's kernel hub (kernel/torch/hub/make), loaded offline by the package `kernels`,
which pip installs into a cache on first use.

    hub_test.py [--make] [TEST…]

Runs with this interpreter's PyTorch and with the newest, in an environment of the cache that --make or
PLUMBLINE_MAKE_TORCH_NEWEST=1 makes (some GB); without that environment the latter part is skipped.
"""

import importlib
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from support import PACKAGE, ROOT, bits_are_equal, leaf, problem

KERNELS = "kernels==0.17.2"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plumbline"
NEWEST = CACHE / "torch-newest"
NEWEST_PACKAGES = ("torch", "numpy")
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
# What the kernel is called with.
OPTIONS = ({"temperature": 0.7}, {"reduction": "sum"}, {"reduction": "mean", "temperature": torch.linspace(0.5, 2, 24)})
LIBRARY = "libplumbline_operator.so"
COMPILED = slice(3, 5)  # the problems that are compiled as well


def run(*words: object, check: bool = False, **options: object) -> subprocess.CompletedProcess[str]:
    """A command with its output as text, both streams together."""
    words = [str(word) for word in words]
    return subprocess.run(words, check=check, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def make(out: Path, package: Path = PACKAGE) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-B", ROOT / "kernel/torch/hub/make", "--out", out, "--package", package)


def kernels_for(python: Path) -> Path:
    """The folder of the cache that holds the package `kernels` for an interpreter."""
    tag = run(python, "-c", "import sys; print(sys.implementation.cache_tag)", check=True).stdout.strip()
    folder = CACHE / f"{KERNELS.replace('==', '-')}-{tag}"
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as made:
            done = run(python, "-m", "pip", "install", "--quiet", "--target", Path(made) / "site", KERNELS)
            if done.returncode:
                raise unittest.SkipTest(f"pip cannot fetch {KERNELS}: {done.stdout[-300:]}")
            if not folder.is_dir():  # another run of this test may have been faster
                os.rename(Path(made) / "site", folder)
    return folder


def newest_python() -> Path:
    """The interpreter with the newest PyTorch, whose environment is made if that is asked for. The marker is written last."""
    python, marker = NEWEST / "bin/python", NEWEST / "complete"
    if not marker.is_file():
        if not os.environ.get("PLUMBLINE_MAKE_TORCH_NEWEST"):
            raise unittest.SkipTest(f"there is no environment with the newest PyTorch at {NEWEST}: hub_test.py --make makes it")
        shutil.rmtree(NEWEST, ignore_errors=True)
        for words in ((sys.executable, "-m", "venv", NEWEST), (python, "-m", "pip", "install", "--quiet", *NEWEST_PACKAGES)):
            done = run(*words)
            if done.returncode:
                raise unittest.SkipTest(f"no environment with the newest PyTorch: {done.stdout[-300:]}")
        marker.write_text(" ".join(NEWEST_PACKAGES) + "\n")
    return python


def module_of_file(name: str, path: Path):
    """A package imported from its __init__.py, as a loader of the hub does."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def refuse(*_: object, **__: object):
    raise OSError("this test has no network")


def load(source: str):
    """plumbline.torch: "package" is the build's; "old:FOLDER" a variant as early versions of `kernels` import it; "named:FOLDER"
    what a program gets that asks the hub; else a repository, behind a backend and "=" where one is asked for."""
    if source == "package":
        sys.path.insert(0, str(PACKAGE))
        import plumbline.torch

        return plumbline.torch
    if importlib.util.find_spec("plumbline") and "plumbline" not in sys.modules:
        raise AssertionError("plumbline is installed here: the test cannot tell whether the kernel needs it")
    if source.startswith("old:"):
        folder = Path(source[4:]) / "plumbline_lce"
        return module_of_file("of_an_early_loader", folder / "__init__.py")
    sys.path.append(os.environ["PLUMBLINE_HUB_KERNELS"])
    socket.getaddrinfo = refuse
    from kernels import get_kernel, get_local_kernel

    if source.startswith("named:"):
        os.environ["LOCAL_KERNELS"] = f"somebody/plumbline-lce={source[6:]}"
        return get_kernel("somebody/plumbline-lce", version=0)
    backend, _, repository = source.rpartition("=")
    return get_local_kernel(Path(repository), backend=backend or None)


def answers(function, hidden, weight, labels, upstream, **options) -> list[torch.Tensor]:
    """Outputs and gradients of one problem."""
    inputs = leaf(hidden), leaf(weight)
    result, entropy, lse = function(*inputs, labels, **options, return_lse=True)
    ((result * upstream).sum() + 0.1 * entropy.sum()).backward()
    return [result.detach().reshape(-1), entropy.detach(), lse.detach(), inputs[0].grad, inputs[1].grad]


def child(problems: str, out: str, *sources: str) -> None:
    """Loads all sources into this process; writes their answers, one after another, and the names of their modules."""
    problems, found, names = torch.load(problems), [], []
    for module in [load(source) for source in sources]:
        function = module.linear_cross_entropy
        names.append(function.__module__)
        importlib.import_module(f"{names[-1].rpartition('.')[0]}._sharding")  # else the first DTensor imports it
        for given, options in problems["eager"]:
            found.append(answers(function, *given, **options))
        for given, options in problems["compiled"]:
            found.append(answers(torch.compile(function, fullgraph=True), *given, **options))
    torch.save(found, out)
    print(json.dumps({"torch": torch.__version__, "modules": names}))


class Fixture:
    """The repository, and problems with the answers of the build's package in a process of its own."""

    folder: tempfile.TemporaryDirectory

    @classmethod
    def set_up(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        cls.hub = cls.root / "hub"
        made = make(cls.hub)
        if made.returncode:
            raise AssertionError(made.stdout)
        dtypes = torch.float32, torch.bfloat16, torch.float16
        cls.eager = [([each.detach() for each in problem(dtype=dtype)], options) for dtype in dtypes for options in OPTIONS]
        cls.reference = cls.run_child(sys.executable, "package", compiled=False)[0]

    @classmethod
    def run_child(cls, python: object, *sources: object, compiled: bool = True) -> tuple[list[list[torch.Tensor]], dict]:
        """The answers of each source in turn, in one new process, and what the process says of itself."""
        problems, out = cls.root / "problems.pt", cls.root / "answers.pt"
        torch.save({"eager": cls.eager, "compiled": cls.eager[COMPILED] if compiled else []}, problems)
        kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        done = run(python, "-B", __file__, "--child", problems, out, *sources, cwd=cls.root, env=kept | OFFLINE | {
            "PLUMBLINE_HUB_KERNELS": str(kernels_for(python)), "PLUMBLINE_PYTHON_PACKAGE": str(PACKAGE)})  # fmt: skip
        if done.returncode:
            raise AssertionError(done.stdout)
        return torch.load(out), json.loads(done.stdout.splitlines()[-1])


def setUpModule() -> None:
    Fixture.set_up()


def tearDownModule() -> None:
    Fixture.folder.cleanup()


def variants() -> list[Path]:
    return sorted((Fixture.hub / "build").iterdir())


def changed_package(folder: Path, name: str, text: str) -> Path:
    """A copy of the build's package with text behind one file of plumbline.torch."""
    shutil.copytree(PACKAGE / "plumbline/torch", folder / "plumbline/torch", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE / "plumbline/__init__.py", folder / "plumbline/__init__.py")
    with (folder / "plumbline/torch" / name).open("a") as file:
        file.write(text)
    return folder


class Layout(unittest.TestCase):
    """What the loader and the hub want of the repository."""

    @classmethod
    def setUpClass(cls) -> None:
        os.environ.update(OFFLINE)
        sys.path.append(str(kernels_for(sys.executable)))

    # Fails if a variant's folder or metadata is none for the loader, or a digest is not that of the file.
    def test_metadata(self):
        from kernels import Metadata
        from kernels._rust import Digest, DigestAlgorithm
        from kernels.variants import parse_variant

        self.assertTrue(variants())
        for variant in variants():
            self.assertEqual(parse_variant(variant.name).variant_str, variant.name)
            metadata = Metadata.read_from_file(variant / "metadata.json")
            self.assertEqual((str(metadata.name), metadata.python_depends), ("plumbline-lce", []))
            self.assertRegex(metadata.id, r"^_plumbline_lce_(cpu|cuda)_[0-9a-f]{12}$")
            digest = Digest.hash_variant(DigestAlgorithm.SHA256, variant)
            self.assertIn(LIBRARY, digest.files)
            metadata.digest.validate(digest)

    # Fails if a system gets a variant that it cannot run, or none though there is one.
    def test_variants(self):
        from kernels.backends import CPU, CUDA
        from kernels.variants import _resolve_variant_for_system, get_variants_local
        from packaging.version import Version

        def chosen(backend, processor="x86_64", version="2.11"):
            found, _ = _resolve_variant_for_system(
                get_variants_local(Fixture.hub / "build"), backend, processor, "linux", Version(version), True, None
            )
            return found[0].variant_str.split("-", 3)[3].partition("-")[0] if found else None

        self.assertEqual(chosen(CPU()), "cpu")
        self.assertEqual(chosen(CPU(), version="3.4"), "cpu")
        self.assertIsNone(chosen(CPU(), version="2.10"))
        self.assertIsNone(chosen(CPU(), processor="aarch64"))
        with_cuda = [found[1] for each in variants() if (found := re.search(r"-(cu(\d+)(\d))-", each.name))]
        for backend in with_cuda:
            major, minor = int(backend[2:-1]), int(backend[-1])
            self.assertEqual(chosen(CUDA(version=Version(f"{major}.{minor + 2}")), version="2.15"), backend)
            self.assertIsNone(chosen(CUDA(version=Version(f"{major - 1}.9"))))

    # Fails if the hub is told other GPUs than those that the build compiles for.
    def test_archs(self):
        built = re.search(r"set\(PLUMBLINE_CUDA_ANY (.*)\)", (ROOT / "CMakeLists.txt").read_text())[1]
        archs = {}
        for codes in re.findall(r'code=\[?([^"\]]+)', built):
            for kind, major, minor in re.findall(r"(compute|sm)_(\d+)(\d)\b", codes):
                archs[f"{major}.{minor}"] = archs.get(f"{major}.{minor}", False) or kind == "compute"
        archs = {device + "+PTX" * ptx for device, ptx in archs.items()}
        for variant in variants():
            backend = json.loads((variant / "metadata.json").read_text())["backend"]
            self.assertEqual(set(backend.get("archs", ())), archs if backend["type"] == "cuda" else set())

    # Fails if a library brings its symbols, or a licence does not come with each variant, which is fetched alone.
    def test_files(self):
        for variant in variants():
            self.assertIn("no symbols", run("objdump", "-t", variant / LIBRARY).stdout)
            for name in ("LICENSE", "THIRD_PARTY.md"):
                self.assertEqual((variant / name).read_bytes(), (ROOT / name).read_bytes())

    # Fails if the same build has another id, or another one the same: both would register one namespace.
    def test_id(self):
        def ids(repository):
            return {json.loads(path.read_text())["id"] for path in repository.glob("build/*/metadata.json")}

        with tempfile.TemporaryDirectory() as folder:
            again, other = Path(folder) / "again", Path(folder) / "other"
            package = changed_package(Path(folder) / "package", "memory.py", "# another build\n")
            self.assertEqual([make(again).returncode, make(other, package).returncode], [0, 0])
            self.assertEqual(ids(again), ids(Fixture.hub))
            self.assertEqual(ids(other) & ids(Fixture.hub), set())
            self.assertEqual(len(ids(other)), len(ids(Fixture.hub)))

    # Fails if a package that would register under plumbline's own name, or needs another package, becomes a kernel.
    def test_refusals(self):
        refused = {
            'getattr(torch.ops, "plumbline")\n': "namespace",
            "operators = torch.ops\noperators.plumbline.linear_cross_entropy\n": "namespace",
            "import numpy\n": "imports numpy",
            "from plumbline import api\n": "imports plumbline",
            "from .. import api\n": "imports ..",
            "from ..api import check\n": "imports ..api",
        }
        for number, (text, why) in enumerate(refused.items()):
            with tempfile.TemporaryDirectory() as folder:
                package = changed_package(Path(folder) / "package", "memory.py", text)
                made = make(Path(folder) / "hub", package)
                self.assertEqual((made.returncode, why in made.stdout), (1, True), (number, made.stdout))
                self.assertFalse((Path(folder) / "hub").exists())
        self.assertEqual(make(Fixture.hub).returncode, 1)  # it would mix two repositories
        self.assertEqual(run(sys.executable, ROOT / "kernel/torch/hub/make", "--package", PACKAGE).returncode, 2)


class Loaded(unittest.TestCase):
    """The repository in processes of one interpreter."""

    python = sys.executable

    def assert_answers(self, sources: tuple[object, ...], compiled: bool = True) -> list[str]:
        """Holds each source's answers to those of the build's package; returns the names of their modules."""
        found, said = Fixture.run_child(self.python, *sources, compiled=compiled)
        expected = (Fixture.reference + (Fixture.reference[COMPILED] if compiled else [])) * len(sources)
        self.assertEqual(len(found), len(expected))
        for number, (outputs, others) in enumerate(zip(found, expected, strict=True)):
            for one, other in zip(outputs, others, strict=True):
                self.assertTrue(bits_are_equal(one, other), (said, number))
        return said["modules"]

    # Fails if the kernel needs plumbline or a network, a bit differs, or a graph breaks.
    def test_bits(self):
        (module,) = self.assert_answers((Fixture.hub,))
        self.assertRegex(module, r"^_plumbline_lce_(cpu|cuda)_[0-9a-f]{12}\.functional$")

    # Fails if a variant for CPUs cannot be had where PyTorch has CUDA, by loaders that import a subfolder, or by the name of a
    # repository.
    def test_other_ways(self):
        cpu = next(each for each in variants() if "-cpu-" in each.name)
        for source in (f"cpu={Fixture.hub}", cpu, f"old:{cpu}"):
            (module,) = self.assert_answers((source,), compiled=False)
            self.assertIn("_plumbline_lce_cpu_", module)
        self.assert_answers((f"named:{Fixture.hub}",), compiled=False)

    # Fails if operators, modules or libraries of two builds and of the package are one in a process that loads all.
    def test_side_by_side(self):
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder) / "other"
            self.assertEqual(make(other, changed_package(Path(folder) / "package", "memory.py", "# other\n")).returncode, 0)
            modules = self.assert_answers((f"cpu={Fixture.hub}", "package", other, Fixture.hub))
        self.assertEqual(modules[1], "plumbline.torch.functional")
        # Where the loader takes the variant for CPUs, too, the first and the last are one.
        self.assertEqual(len(set(modules)), 4 if "_cuda_" in modules[3] else 3, modules)

    # Fails if the example of the repository's page does not run as it stands.
    def test_example(self):
        blocks = re.findall(r"^```python\n(.*?)^```", (Fixture.hub / "README.md").read_text(), re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 1)
        environment = os.environ | OFFLINE | {"PYTHONPATH": str(kernels_for(self.python))}
        done = run(self.python, "-B", "-c", blocks[0] + "\nprint(loss.item() > 0)", cwd=Fixture.hub, env=environment)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1:]), (0, ["True"]), done.stdout)


class LoadedInNewest(Loaded):
    """The same with the newest PyTorch, against the bits of this one's."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.python = newest_python()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        sys.exit()
    if "--make" in sys.argv:
        sys.argv.remove("--make")
        os.environ["PLUMBLINE_MAKE_TORCH_NEWEST"] = "1"
    try:
        kernels_for(sys.executable)
    except unittest.SkipTest as why:
        print(why)
        sys.exit(77)
    unittest.main()
