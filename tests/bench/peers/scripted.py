# SPDX-License-Identifier: Apache-2.0
"""Gives tests of `bench/peers` a worker that says what the test scripts, in place of one that measures."""

import re
import sys
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
from peers import measure
from results import Scratch

ERRORS = {name: {"max": 1e-4, "rms": 2e-3} for name in ("logprob", "entropy", "grad_hidden", "grad_weight")}


def measured(name, contract="rows", **more):
    return {"peer": name, "contract": contract, "note": "", "errors": ERRORS, "forward_MiB": 73.2, "step_MiB": 408.0,
            **more}


def times(rounds=6, **of):
    """Messages of rounds at (forward, step, backward), or at what a dict names, times 1, 1.01, …"""
    named = {name: values if isinstance(values, dict) else dict(zip(("forward", "step", "backward"), values))
             for name, values in of.items()}
    return [{"times": {name: {what: value * (1 + i / 100) for what, value in values.items()}
                       for name, values in named.items()}} for i in range(rounds)]


class Measured(Scratch):
    def measure(self, *runs, device=None, regimes=False, errors=False):
        """measure() where the worker's runs go as scripted; what each was told to skip is in self.skipped, and what
        its environment had to be in self.environments."""
        self.skipped, self.environments, self.commands, runs = [], [], [], list(runs)

        def listen(command, _, environment):
            self.skipped.append([command[i + 1] for i, word in enumerate(command) if word == "--skip"])
            self.environments.append(environment)
            self.commands.append(command)
            return runs.pop(0)
        arguments = SimpleNamespace(rounds=6, peers=re.compile(""), library="x.so", limit=1.0, regimes=regimes, errors=errors)
        self.free = SimpleQueue()
        self.free.put(device)
        with mock.patch.object(measure, "listen", listen):
            return {result["name"]: result for result in measure.measure("8x8x8", arguments, self.free)}
