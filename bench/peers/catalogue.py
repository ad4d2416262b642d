# SPDX-License-Identifier: Apache-2.0
"""Lists the implementations that `bench/peers` sets beside each other, each behind one call.

A Peer's load() imports what it needs and returns call(hidden, weight, labels) -> outputs, a dict of tensors that
carry autograd. What it computes is its contract:

  rows   logprob (or nll, its negative) and entropy of each row, an upstream gradient for each: our operator's
  nll    nll of each row, an upstream gradient for each
  mean   one number, the mean nll; the gradient may be computed in the forward pass

load() may return (call, note) as well. load() and call() raise where the peer is absent or refuses: the result gives
the exception's text as the reason.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from .operator_call import CallLayout, Library

IGNORED = -100
IN_FP32 = "plumbline, logits saved in fp32"


@dataclass
class Peer:
    name: str
    contract: str
    load: Callable
    distributions: tuple = ()  # whose versions tell which code ran
    note: str = ""
    ignores: bool = True  # knows ignore_index


# ---- ours


class Call(CallLayout):
    """Holds a call on tensors of torch's."""

    def __init__(self, hidden: torch.Tensor, weight: torch.Tensor, gradients: bool, mean: bool = False,
                 saved_logits: bool = False, fp32_logits: bool = False, **tensors: torch.Tensor) -> None:
        super().__init__(*hidden.shape, weight.shape[0], int(gradients), int(mean), int(saved_logits))
        self.fp32_logits = int(fp32_logits)
        self.stream = torch.cuda.current_stream().cuda_stream
        self.give(hidden=hidden, weight=weight, **tensors)

    def give(self, **tensors: torch.Tensor) -> None:
        for name, tensor in tensors.items():
            assert tensor.is_contiguous(), name
            setattr(self, name, tensor.data_ptr())


class Ours(Library):
    """Calls the functions of peers_operator.so with memory from torch."""

    def room(self, function: str, call: Call, like: torch.Tensor, count: int,
             made: int | None = None) -> list[torch.Tensor]:
        """Allocates buffers of the `count` sizes that a function says the call needs, or of the first `made` of them."""
        return [torch.empty(size, dtype=torch.uint8, device=like.device) for size in self.sizes(function, call, count)[:made]]


def load_ours(library: Path, saved_logits: bool = False, fp32_logits: bool = False) -> Callable:
    ours = Ours(library)
    keeping = {"saved_logits": saved_logits, "fp32_logits": fp32_logits}

    class Operator(torch.autograd.Function):
        @staticmethod
        def forward(ctx, hidden, weight, labels, training):
            logprob = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)
            entropy = torch.empty_like(logprob)
            call = Call(hidden, weight, training, **keeping, labels=labels, logprob=logprob, entropy=entropy)
            workspace, saved = ours.room("plumbline_sizes", call, hidden, 2)
            call.give(workspace=workspace, saved=saved)
            ours.ask("plumbline_forward", ctypes.byref(call))
            ctx.save_for_backward(hidden, weight, labels, saved)
            return logprob, entropy

        @staticmethod
        def backward(ctx, grad_logprob, grad_entropy):
            hidden, weight, labels, saved = ctx.saved_tensors
            grad_hidden, grad_weight = torch.empty_like(hidden), torch.empty_like(weight)
            grad_logprob, grad_entropy = grad_logprob.contiguous(), grad_entropy.contiguous()
            call = Call(hidden, weight, True, **keeping, labels=labels, saved=saved, grad_logprob=grad_logprob,
                        grad_entropy=grad_entropy, grad_hidden=grad_hidden, grad_weight=grad_weight)
            workspace, = ours.room("plumbline_sizes", call, hidden, 2, 1)
            call.give(workspace=workspace)
            ours.ask("plumbline_backward", ctypes.byref(call))
            return grad_hidden, grad_weight, None, None

    def call(hidden, weight, labels):
        logprob, entropy = Operator.apply(hidden, weight, labels, torch.is_grad_enabled())
        return {"logprob": logprob, "entropy": entropy}
    return call


def load_ours_without_entropy(library: Path) -> Callable:
    call = load_ours(library)
    return lambda hidden, weight, labels: {"nll": -call(hidden, weight, labels)["logprob"]}


def load_ours_at_once(library: Path) -> Callable:
    """Returns the mean nll. Its upstream gradient is known to be 1, so that no gradient is scaled afterwards."""
    ours = Ours(library)

    class Operator(torch.autograd.Function):
        @staticmethod
        def forward(ctx, hidden, weight, labels, training):
            loss = torch.empty((), dtype=torch.float32, device=hidden.device)
            call = Call(hidden, weight, training, mean=True, labels=labels, logprob=loss)
            if not training:
                workspace, saved = ours.room("plumbline_sizes", call, hidden, 2)
                call.give(workspace=workspace, saved=saved)
                ours.ask("plumbline_forward", ctypes.byref(call))
                return loss
            one = torch.ones_like(loss)
            gradients = torch.empty_like(hidden), torch.empty_like(weight)
            call.give(grad_logprob=one, grad_hidden=gradients[0], grad_weight=gradients[1])
            workspace, = ours.room("plumbline_at_once_size", call, hidden, 1)
            call.give(workspace=workspace)
            ours.ask("plumbline_at_once", ctypes.byref(call))
            ctx.save_for_backward(*gradients)
            return loss

        @staticmethod
        def backward(ctx, _):
            return (*ctx.saved_tensors, None, None)

    return lambda hidden, weight, labels: {"loss": Operator.apply(hidden, weight, labels, torch.is_grad_enabled())}


# ---- verl


def load_verl() -> tuple[Callable, str]:
    """Loads verl's kernel. verl/__init__.py imports ray and much else that the kernel has no use for; where that fails,
    its files are run from where they are installed, without the __init__.py of verl and verl.utils."""
    try:
        function = importlib.import_module("verl.utils.kernel.linear_cross_entropy").linear_cross_entropy
        how = "imported as it is"
    except ImportError as fault:
        for name in [name for name in sys.modules if name == "verl" or name.startswith("verl.")]:
            del sys.modules[name]
        spec = importlib.util.find_spec("verl")
        if spec is None or not spec.submodule_search_locations:
            raise
        where = Path(spec.submodule_search_locations[0])
        for name in ("verl", "verl.utils"):
            package = types.ModuleType(name)
            package.__path__ = [str(where.joinpath(*name.split(".")[1:]))]
            sys.modules[name] = package
        function = importlib.import_module("verl.utils.kernel.linear_cross_entropy").linear_cross_entropy
        how = f"its files alone, without verl/__init__.py ({fault})"

    def call(hidden, weight, labels):
        logprob, entropy = function(hidden, weight, labels, 1.0, "none")
        return {"logprob": logprob, "entropy": entropy}
    return call, how


# ---- Liger


def load_liger_scaled(module: str, function: str) -> Callable:
    # The host otherwise waits for the device to look at the labels: its fastest mode is compared.
    os.environ["LIGER_SCALED_CE_SM90_VALIDATE_TARGETS"] = "0"
    apply = getattr(importlib.import_module(module), function).apply
    dispatching = function == "LigerFusedLinearScaledCrossEntropyFunction"

    def call(hidden, weight, labels):
        # The dispatching classes take m_tiles_per_cluster before return_entropy.
        nll, entropy = apply(hidden, weight, labels, 1.0, IGNORED, *([1] if dispatching else []), True)
        return {"nll": nll, "entropy": entropy}
    return call


def load_liger_native() -> Callable:
    native = importlib.import_module("liger_kernel.ops.cute.fused_linear_scaled_cross_entropy_tp")
    importlib.import_module("liger_cute_kernels")
    if not native.is_available():
        raise RuntimeError("liger_cute_kernels is there, its native module or NVSHMEM is not")
    raise RuntimeError("for tensor parallelism alone: it needs an NVSHMEM team of several processes")


def load_liger_linear(backend: str, reduction: str) -> Callable:
    importlib.import_module("liger_kernel")
    apply = importlib.import_module("liger_kernel.ops.fused_linear_cross_entropy").LigerFusedLinearCrossEntropyFunction.apply
    registry = importlib.import_module("liger_kernel.backends.registry")
    name = "cross_entropy_loss_and_grad"
    registry.list_registered(name)
    found = {entry.impl_name: entry for entry in registry.list_registered(name)}
    if backend not in found:
        failures = "; ".join(f"{path}: {what[1]}" for path, what in registry.get_discovery_failures().items()
                             if backend.split("-")[1] in path)
        raise RuntimeError(f"its {name} has no {backend}" + (f" ({failures})" if failures else ""))
    why = found[backend].capability.reason_if_unsatisfied()
    if why:
        raise RuntimeError(why)

    def call(hidden, weight, labels):
        loss = apply(hidden, weight, labels, None, None, IGNORED, 0.0, 0.0, reduction, None, False, None, False, False,
                     False, backend)[0]
        return {"loss" if reduction == "mean" else "nll": loss}
    return call


# ---- the others


def load_cce(**options: object) -> Callable:
    function = importlib.import_module("cut_cross_entropy").linear_cross_entropy
    return lambda hidden, weight, labels: {
        "nll": function(hidden, weight, labels, ignore_index=IGNORED, reduction="none", **options)}


def load_quack(scaled_exp: bool, chunk: int = 4096, tuned: bool = False) -> Callable:
    module = importlib.import_module("quack.linear_cross_entropy")

    def call(hidden, weight, labels):
        if scaled_exp and not module.scaled_exp_lce_supported(hidden, weight, chunk, "mean"):
            raise RuntimeError("scaled_exp_lce_supported says no")
        return {"loss": module.chunked_linear_cross_entropy(hidden, weight, labels, chunk_size=chunk,
                                                            ignore_index=IGNORED, reduction="mean", tuned=tuned,
                                                            use_scaled_exp=scaled_exp)}
    return call


def materialised(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes what one writes without any of these kernels: every logit in memory, in fp32 from the softmax on."""
    live = labels != IGNORED
    logp = torch.log_softmax((hidden @ weight.t()).float(), dim=-1)
    logprob = logp.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    entropy = -(logp.exp() * logp).sum(dim=-1)
    return torch.where(live, logprob, 0.0), torch.where(live, entropy, 0.0)


def load_torch(compiled: bool) -> Callable:
    function = torch.compile(materialised, dynamic=False) if compiled else materialised
    return lambda hidden, weight, labels: dict(zip(("logprob", "entropy"), function(hidden, weight, labels)))


def load_torch_linear_cross_entropy() -> Callable:
    function = getattr(torch.nn.functional, "linear_cross_entropy", None)
    if function is None:
        raise RuntimeError(f"torch {torch.__version__} has no torch.nn.functional.linear_cross_entropy")
    return lambda hidden, weight, labels: {"loss": function(hidden, weight, labels, ignore_index=IGNORED)}


def peers(library: Path) -> list[Peer]:
    scaled = "liger_kernel.ops.fused_linear_scaled_cross_entropy"
    dispatching = "LigerFusedLinearScaledCrossEntropyFunction"
    liger, dsl = ("liger-kernel",), ("liger-kernel", "nvidia-cutlass-dsl")
    once = "gradients in the forward pass"
    listed = [
        Peer("plumbline", "rows", lambda: load_ours(library)),
        Peer("plumbline, no entropy", "nll", lambda: load_ours_without_entropy(library),
             note="the same, its entropy not used"),
        Peer("plumbline, logits saved", "rows", lambda: load_ours(library, saved_logits=True),
             note="all logits, as exponents in fp16, from forward to one backward pass"),
        Peer(IN_FP32, "rows", lambda: load_ours(library, saved_logits=True, fp32_logits=True),
             note="all logits, in fp32, from forward to one backward pass"),
        Peer("plumbline, gradients in forward", "mean", lambda: load_ours_at_once(library), note=once),
        Peer("verl", "rows", load_verl, ("verl",), ignores=False),
        Peer("Liger scaled CE, CuTe DSL", "rows", lambda: load_liger_scaled(scaled, dispatching), dsl,
             "labels not looked at"),
        Peer("Liger scaled CE, torch", "rows",
             lambda: load_liger_scaled(scaled, "_FusedLinearPPOFallbackFunction"), liger),
        Peer("Liger scaled CE, cuTile", "rows",
             lambda: load_liger_scaled("liger_kernel.ops.cutile.ops.fused_linear_scaled_cross_entropy", dispatching),
             (*liger, "cuda-tile")),
        Peer("Liger scaled CE, native", "rows", load_liger_native, (*liger, "liger-cute-kernels")),
        Peer("PyTorch eager", "rows", lambda: load_torch(False)),
        Peer("PyTorch compiled", "rows", lambda: load_torch(True)),
        Peer("CCE", "nll", load_cce, ("cut-cross-entropy",), "its default: gradients of tiles where all are small are left out"),
        Peer("CCE exact", "nll", lambda: load_cce(filter_eps=None), ("cut-cross-entropy",)),
        Peer("CCE torch_compile", "nll", lambda: load_cce(impl="torch_compile"), ("cut-cross-entropy",)),
        Peer("Liger FLCE none, Triton", "nll", lambda: load_liger_linear("nvidia-triton", "none"), liger),
        *(Peer("quack" + (" scaled-exp" if scaled_exp else "") + (f", chunks of {chunk}" if chunk != 4096 else "")
               + (", tuned" if tuned else ""), "mean",
               lambda scaled_exp=scaled_exp, chunk=chunk, tuned=tuned: load_quack(scaled_exp, chunk, tuned),
               ("quack-kernels", "nvidia-cutlass-dsl"), once + ("" if scaled_exp or tuned else ", not autotuned"))
          for scaled_exp in (True, False) for chunk in (4096, 8192) for tuned in (False, True)),
        Peer("PyTorch linear_cross_entropy", "mean", load_torch_linear_cross_entropy),
    ]
    listed += [Peer(f"Liger FLCE mean, {name}", "mean", lambda backend=backend: load_liger_linear(backend, "mean"),
                    versions, once)
               for name, backend, versions in (("Triton", "nvidia-triton", liger), ("CuTe DSL", "nvidia-cutedsl", dsl),
                                               ("cuTile", "nvidia-cutile", (*liger, "cuda-tile")))]
    return listed


def versions(peer: Peer) -> dict[str, str | None]:
    found = {}
    for name in peer.distributions:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found
