# SPDX-License-Identifier: Apache-2.0
"""NumPy targets that each do one thing that a target must not, or that nobody may take for a defect."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import plumbline
from honest_numpy import CAPABILITIES, linear_cross_entropy
from misdeeds import targets_of

KEPT = []


def _raise(hidden, found):
    raise KeyError("no such block size")


def _exit(hidden, found):
    sys.exit(0)


def _exit_at_once(hidden, found):
    os._exit(0)


def _abort(hidden, found):
    os.abort()


def _fork_and_return(hidden, found):
    os.fork()


def _hang(hidden, found):
    while True:
        time.sleep(1)


def _hold_the_lock(hidden, found):
    while True:
        pass


def _keep(hidden, found):
    KEPT[:] = [hidden]


def _write(hidden, found):
    if hidden.size:
        hidden[0] = 1


def _view(hidden, found):
    found["grad_hidden"] = hidden


def _shape(hidden, found):
    found["entropy"] = found["entropy"][:, None]


def _dtype(hidden, found):
    found["entropy"] = found["entropy"].astype(np.float64)


def _not_an_array(hidden, found):
    found["entropy"] = found["entropy"].tolist()


def _missing(hidden, found):
    del found["entropy"]


def _leak(hidden, found):
    KEPT.append(np.ones(4 << 20))


def _unwritten(hidden, found):
    fresh = np.empty(len(found["entropy"]) + 4096, np.float32)[: len(found["entropy"])]
    fresh[:-1] = found["entropy"][:-1]
    found["entropy"] = fresh


def _mode(hidden, found):
    np.seterr(all="raise")


def _say(hidden, found):
    print("a word", flush=True)


def _thread(hidden, found):
    threading.Thread(target=time.sleep, args=(0.001,)).start()


def _garbage(hidden, found):
    found["entropy"] = np.zeros_like(found["entropy"])


globals().update(targets_of(globals(), linear_cross_entropy, "numpy", CAPABILITIES))


def refuses_in_words(hidden, weight, labels, reduction="none", grad_logprob=None):
    """Refuses what it says; what it takes is right."""
    if hidden.shape[1] % 4:
        raise ValueError(f"H is {hidden.shape[1]}: no multiple of 4")
    if hidden.dtype != np.float32:
        raise NotImplementedError("fp32 alone")
    found = linear_cross_entropy(hidden, weight, labels, reduction=reduction, grad_logprob=grad_logprob)
    found.pop("entropy")
    return found


def has_no_device(hidden, weight, labels, reduction="none"):
    """Refuses a reduction, and fails in all that it does not refuse."""
    if reduction == "none":
        raise ValueError("Invalid reduction: none")
    return {}["device"]


@plumbline.target(form="returned", **CAPABILITIES)
def declares_and_refuses(
    hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none", grad_logprob=None, grad_entropy=None
):
    """Declares fp16, and refuses it."""
    if hidden.dtype == np.float16:
        raise NotImplementedError("no fp16")
    return linear_cross_entropy(hidden, weight, labels, temperature, ignore_index, reduction, grad_logprob, grad_entropy)


def _first_entry(table):
    return table["first"]


@plumbline.target(form="returned", **CAPABILITIES)
def fails_in_two_ways(
    hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none", grad_logprob=None, grad_entropy=None
):
    """Has the first failure in half of all cases, and the second in half of the others."""
    if len(weight) % 2:
        return _first_entry({})
    if hidden.shape[1] % 2:
        return {}[len(hidden)]
    return linear_cross_entropy(hidden, weight, labels, temperature, ignore_index, reduction, grad_logprob, grad_entropy)


def ambiguous(input, x, weight, labels):
    """Two parameters may be hidden."""
    raise AssertionError("it must not be called")


def _right(hidden, weight, labels):
    found = linear_cross_entropy(hidden, weight, labels)
    return {"logprob": found["logprob"]}


def never_ends_on_depth_0(hidden, weight, labels):
    """With H = 0 it waits in C for ever, with every signal blocked and a child beside it, as a kernel that spins has it."""
    if hidden.shape[1] == 0:
        with open(os.environ["CHILD"], "w", encoding="utf-8") as file:
            file.write(str(subprocess.Popen(["sleep", "600"]).pid))
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        ctypes.PyDLL(None).pause()
    return _right(hidden, weight, labels)


def loses_its_device_on_depth_0(hidden, weight, labels):
    """With H = 0 it raises as an assertion on a GPU does, and so it does for whatever comes later."""
    from plumbline.frameworks import numpy_arrays

    framework = type(numpy_arrays.FRAMEWORK)
    if hidden.shape[1] == 0:
        framework.lost = lambda self: True
    if framework.lost(None):
        raise RuntimeError("CUDA error: device-side assert triggered")
    return _right(hidden, weight, labels)


def dies_on_strided_rows(hidden, weight, labels):
    """Strides that are not dense end the process: a defect."""
    if not hidden.flags.c_contiguous:
        os.abort()
    return _right(hidden, weight, labels)
