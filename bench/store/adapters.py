# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store adapters --python PATH [--cases N] [--seconds S] [--only NAME]

Runs a campaign, seed 1, one job, on each public kernel that is a target in Python by its name or by a function of
bench/store/adapted/, on the CPU, and stores bench/results/adapters.json: the share of its cases that is judged, judged
cases a second, and what was found. Triton kernels run in Triton's interpreter.

  --python PATH  the interpreter that has PyTorch and the kernels' packages
  --cases N      cases of a kernel that runs at its own speed [200]
  --seconds S    the budget of one that is interpreted, or compiled for each kind of case [300]
  --only NAME    prints this kernel, and stores nothing

Interrupt it, and call it again to go on: the kernels that are through lie in build/campaigns/adapters-N.json.

A package that cannot be imported, or a kernel that takes none of the problems tried, is recorded with the reason. What is
found is no claim: a finding may be a rounding that the kernel means to make and does not declare.

Exit status: 0 60 % or more judged of every kernel that could be tried; 1 less of one (stored too); 2 usage or another
tree; 3 plumb said no result.
"""

import argparse
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report.command_line import refusing

from store import builds, plumb, stored, trees

ROOT = trees.ROOT
ENOUGH = 0.6
ADAPTED = Path(__file__).resolve().parent / "adapted"


@dataclass(frozen=True)
class Adapter:
    """A public kernel as a target: MODULE:FUNCTION, the packages whose versions matter, and whether Triton interprets.
    on_cuda: its name in adapted/on_cuda.py, of one that takes tensors of either kind."""

    target: str
    packages: tuple[str, ...]
    interpreted: bool = False
    compiled: bool = False
    on_cuda: str = ""


ADAPTERS = {
    "PyTorch, eager": Adapter("pytorch_functions:eager", ("torch",), on_cuda="pytorch_eager"),
    "PyTorch, linear_cross_entropy": Adapter("torch.nn.functional:linear_cross_entropy", ("torch",),
                                             on_cuda="pytorch_linear_cross_entropy"),
    "verl, FusedLinearForPPO": Adapter("verl.utils.experimental.torch_functional:FusedLinearForPPO", ("torch", "verl"),
                                       on_cuda="verl_for_ppo"),
    "Liger": Adapter("liger_kernel.transformers.functional:liger_fused_linear_cross_entropy",
                     ("torch", "triton", "liger_kernel"), True),
    "CCE": Adapter("cut_cross_entropy:linear_cross_entropy", ("torch", "triton", "cut_cross_entropy"), True),
    "verl, Triton kernel": Adapter("verl_on_cpu:linear_cross_entropy", ("torch", "triton", "verl"), True),
    "verl, Triton kernel by name": Adapter("verl.utils.kernel.linear_cross_entropy:linear_cross_entropy",
                                           ("torch", "triton", "verl"), True),
    "Liger, scaled": Adapter(
        "liger_kernel.ops.fused_linear_scaled_cross_entropy:LigerFusedLinearScaledCrossEntropyFunction.apply",
        ("torch", "liger_kernel"), on_cuda="liger_scaled"),
    "TRL, chunked log-probs": Adapter("trl_functions:chunked_log_prob", ("torch", "trl", "transformers"),
                                      on_cuda="trl_chunked"),
    "unsloth, fused loss": Adapter("unsloth_functions:fused_ce", ("torch", "unsloth_zoo", "unsloth"),
                                   on_cuda="unsloth_fused"),
    "flash-linear-attention": Adapter("fla_functions:loss", ("torch", "triton", "fla-core"), True),
    "quack, chunked": Adapter("quack_functions:chunked", ("torch", "quack-kernels")),
    "quack, scaled exponentials": Adapter("quack_functions:scaled", ("torch", "quack-kernels")),
    "Megatron": Adapter("megatron.core.fusions.fused_linear_cross_entropy:fused_linear_cross_entropy",
                        ("torch", "megatron-core")),
    "unsloth, log-probs": Adapter("unsloth_functions:log_probs", ("torch", "unsloth_zoo", "unsloth"), compiled=True,
                                  on_cuda="unsloth_log_probs"),
    "PyTorch, compiled": Adapter("pytorch_functions:compiled", ("torch",), compiled=True, on_cuda="pytorch_compiled"),
    "CCE, torch_compile": Adapter("cce_functions:torch_compile", ("torch", "cut_cross_entropy"), compiled=True,
                                  on_cuda="cce_torch_compile"),
}


def versions(python: str, packages: tuple[str, ...]) -> dict[str, str]:
    """Versions of packages as the interpreter has them; "missing" of those that it has not."""
    script = ("import importlib.metadata as m, json, sys\n"
              "def of(name):\n"
              "    try: return m.version(name)\n"
              "    except m.PackageNotFoundError: return 'missing'\n"
              "print(json.dumps({n: of(n) for n in sys.argv[1:]} | {'python': sys.version.split()[0]}))\n")
    ran = subprocess.run([python, "-c", script, *packages], check=True, capture_output=True, text=True)
    return stored.last_object(ran.stdout)


def reason(program: Path, adapter: Adapter, python: str, environment: dict[str, str]) -> str | None:
    """Why a kernel is no target here, in plumb's words; None if it is one."""
    ran = subprocess.run([program, "targets", f"python:{adapter.target}"], capture_output=True, text=True, check=False,
                         env={**os.environ, **environment})
    if ran.returncode == 0:
        return None
    said = (ran.stderr.strip().splitlines() or [f"status {ran.returncode}"])[-1]
    return said.removeprefix(f"plumb: python:{adapter.target}: ").removesuffix(f" ({python})")


def findings(said: dict[str, Any]) -> list[str]:
    """Signature and first words of each finding."""
    return [f"{each['signature']}: {each.get('finding', {}).get('what', '')[:200]}" for each in said["sightings"]]


def measured(program: Path, name: str, given: argparse.Namespace, cache: Path) -> dict[str, Any]:
    """The record of one kernel."""
    adapter = ADAPTERS[name]
    environment = {"PLUMBLINE_PYTHON": given.python, "XDG_CACHE_HOME": str(cache)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ADAPTED), os.environ.get("PYTHONPATH", ""))))
    environment["TRITON_INTERPRET"] = "1" if adapter.interpreted else "0"
    found: dict[str, Any] = {"kernel": name, "target": adapter.target, "interpreted": adapter.interpreted,
                             "versions": versions(given.python, adapter.packages)}
    why = reason(program, adapter, given.python, environment)
    if why is not None:
        print(f"{name}: {why}", flush=True)
        return found | {"unavailable": why}
    slow = adapter.interpreted or adapter.compiled
    budget = f"{given.seconds}s" if slow else f"{given.cases}cases"
    more = ["--case-timeout", "300s"] if slow else []  # a large case in NumPy, and a compilation, take longer than 20 s
    with tempfile.TemporaryDirectory() as folder, refusing("nothing stored", 3):
        _, said = plumb.ask(program, "fuzz", "--target", f"python:{adapter.target}", "--budget", budget,
                            "--seed", "1", "--jobs", "1", *more, "--out", Path(folder) / "hunt", environment=environment)
    target, = said["targets"]
    seconds, shrinking = said["elapsed_seconds"], said["time"]["shrinking"]
    found |= {"drawn": target["cases"], "judged": target["judged"],
              "share": round(target["judged"] / max(target["cases"], 1), 4), "failing": target["fail"],
              "suspect": target["suspect"], "seconds": round(seconds, 1),
              "judged_per_second": round(target["judged"] / max(seconds - shrinking, 1e-3), 2),
              "skipped": target["skip_reasons"], "verdict": said["verdict"], "findings": findings(said),
              "cases_by_what_they_show": target["signatures"]}
    print(f"{name}: {found['judged']} of {found['drawn']} judged, {found['judged_per_second']}/s without shrinking, "
          f"{said['verdict']}, {len(found['findings'])} findings, {found['seconds']} s", flush=True)
    return found


def all_of(program: Path, names: list[str], given: argparse.Namespace, about: dict[str, str], cache: Path) -> list[Any]:
    """The records of kernels: those that are through from their file, the others as they are measured."""
    path = ROOT / f"build/campaigns/adapters-{given.cases}.json"
    begun = json.loads(path.read_text(encoding="utf-8")) if path.exists() and given.only is None else {}
    with_what = [about, given.python, given.seconds]
    through = begun["through"] if begun.get("with") == with_what else {}
    for name in names:
        if name not in through:
            through[name] = measured(program, name, given, cache)
            if given.only is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                stored.put(path, {"with": with_what, "through": through})
    return [through[name] for name in names]


def held(runs: list[dict[str, Any]]) -> bool:
    """True if enough was judged of every kernel that could be tried."""
    return all(each["share"] >= ENOUGH for each in runs if "unavailable" not in each)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store adapters")
    parser.add_argument("--python", required=True)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--only")
    given = parser.parse_args(words)
    if given.cases < 1 or given.seconds < 1:
        parser.error(f"{given.cases} cases, {given.seconds} seconds: both are at least 1")
    if given.only not in (None, *ADAPTERS):
        parser.error(f"--only {given.only}: there are {', '.join(ADAPTERS)}")
    program = builds.release(ROOT, "plumb", "plumbline_worker")
    about = trees.committed_keys(ROOT, (*trees.PLUMB, "python"))
    with refusing("nothing stored", 3):
        machine = plumb.machine(program)
    names = [name for name in ADAPTERS if given.only in (None, name)]
    with tempfile.TemporaryDirectory() as cache:
        runs = all_of(program, names, given, about, Path(cache))
    if given.only is None:
        command = f"python3 bench/store adapters --python PATH --cases {given.cases} --seconds {given.seconds}"
        stored.write(ROOT / "bench/results/adapters.json", command, about, machine,
                     device="cpu", adapters=json.loads(json.dumps(stored.without_folders(runs))))
    return int(not held(runs))
