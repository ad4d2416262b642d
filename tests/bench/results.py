# SPDX-License-Identifier: Apache-2.0
"""Results as cuda_bench and the host programs write them, for the tests of what reads them."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))


def pair(name, ratio, noise=0.01, ms=10.0, workspace=90.0, saved=0.5):
    """One benchmark of cuda_bench, under the name that Google Benchmark makes of `name`."""
    full = f"{name}/iterations:1/manual_time"
    return {"name": full, "run_name": full, "run_type": "iteration", "real_time": ms, "time_unit": "ms",
            "ratio": ratio, "ratio_low": ratio - noise, "ratio_high": ratio + noise, "ms": ms,
            "workspace_MiB": workspace, "saved_MiB": saved}


def failed(name, why):
    full = f"{name}/iterations:1/manual_time"
    return {"name": full, "run_name": full, "run_type": "iteration", "error_occurred": True, "error_message": why,
            "real_time": 0.0, "time_unit": "ms"}


def repeated(name, times):
    return [{"name": name, "run_name": name, "run_type": "iteration", "repetition_index": i, "real_time": time,
             "time_unit": "ms"} for i, time in enumerate(times)]


def result(*benchmarks, executable="./cuda_bench", **context):
    return {"context": {"executable": executable, "date": "2026-11-22T01:00:00+00:00", "device": "NVIDIA H200",
                        "cuda": "13.0", "cublas": "13.0.2", "git": "ba9876543210",
                        "kernel": "0123456789ab", **context},
            "benchmarks": list(benchmarks)}


class Scratch(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="plumbline-bench-"))
        self.addCleanup(shutil.rmtree, self.root, True)

    def store(self, name, what):
        path = self.root / name
        path.write_text(what if isinstance(what, str) else json.dumps(what), encoding="utf-8")
        return path

    def program(self, name, text):
        """A program in bash, of the scratch folder."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/usr/bin/env bash\n" + text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def copy(self, *names):
        """Files of the tree, named from its root, where they lie in a tree of the scratch folder."""
        for name in names:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(BENCH.parent / name, self.root / name)

    def run_script(self, script, *words):
        """(exit status, stdout, stderr)."""
        done = subprocess.run([sys.executable, "-B", BENCH / script, *map(str, words)], capture_output=True,
                              text=True, check=False,
                              env={**os.environ, "PYTHONUTF8": "1"})
        return done.returncode, done.stdout, done.stderr
