# SPDX-License-Identifier: Apache-2.0
"""PyTorch: views by DLPack, on the CPU and on CUDA devices, and its autograd."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import torch

from .. import views
from ..views import Capsule, View

_DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "int32": torch.int32,
    "int64": torch.int64,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def _copied(value: torch.Tensor, view: View, negate: bool, unwritten: int | None) -> bool:
    """Copies a value in host memory as it stands, if it can be and no byte of it looks unwritten: the common
    case, in a tenth of the time of PyTorch's operations."""
    plain = type(value) is torch.Tensor and value.layout is torch.strided and value.device.type == "cpu"
    if negate or not plain or view.device is not None or _NAMES.get(value.dtype) != view.dtype:
        return False
    if not (view.contiguous and value.is_contiguous()):
        return False
    size = value.numel() * view.item_size
    address = value.data_ptr()
    if unwritten is not None and bytes([unwritten]) * view.item_size in ctypes.string_at(address, size):
        return False
    ctypes.memmove(view.address, address, size)
    return True


class TorchFramework:
    """PyTorch's tensors."""

    name = "torch"
    negative_strides = False  # torch's importer ends the process with an assertion
    differentiates = True

    def take(self, view: View) -> torch.Tensor:
        return torch.from_dlpack(Capsule(view))

    def held(self) -> int:
        return views.exported()

    def on_stream(self, stream: int | None) -> contextlib.AbstractContextManager[Any]:
        if stream is None:
            return contextlib.nullcontext()
        return torch.cuda.stream(torch.cuda.ExternalStream(stream))

    def has_gpu(self) -> bool:
        """Starts CUDA: a process that has asked cannot fork workers."""
        return torch.cuda.is_available()

    def lost(self) -> bool:
        if not torch.cuda.is_initialized():
            return False
        for _ in range(2):  # an error that is told once is not one that lasts
            try:
                torch.cuda.synchronize()
            except RuntimeError:
                continue
            return False
        return True

    def forget(self) -> None:
        views.forget()

    def kind(self, value: Any) -> str | None:
        if isinstance(value, torch.Tensor):
            return None
        return f"a {type(value).__module__}.{type(value).__name__}, not a torch.Tensor"

    def dtype(self, value: torch.Tensor) -> str:
        return _NAMES.get(value.dtype, str(value.dtype))

    def shape(self, value: torch.Tensor) -> tuple[int, ...]:
        return tuple(value.shape)

    def device(self, value: torch.Tensor) -> str:
        return value.device.type

    def address(self, value: torch.Tensor) -> int:
        return value.data_ptr() if value.numel() else 0

    def zeros(self, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        return torch.zeros(shape, dtype=like.dtype, device=like.device)

    def give(self, value: torch.Tensor, view: View, negate: bool, unwritten: int | None) -> bool:
        value = value.detach()
        if _copied(value, view, negate, unwritten):
            return False
        target = self.take(view)
        result = -value if negate else value
        size = value.element_size()
        if unwritten is None or size not in _BITS or value.numel() == 0:
            target.copy_(result)
            return False
        pattern = int.from_bytes(bytes([unwritten]) * size, "little", signed=True)
        bits = value.contiguous().view(_BITS[size])
        missing = (bits == pattern).view(value.shape)
        if not missing.any():
            target.copy_(result)
            return False
        target.copy_(torch.where(missing, target, result.to(target.dtype)))
        return True

    def state(self) -> dict[str, object]:
        return {
            "torch.get_default_dtype()": torch.get_default_dtype(),
            "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled(),
            "torch.is_grad_enabled()": torch.is_grad_enabled(),
            "torch.is_inference_mode_enabled()": torch.is_inference_mode_enabled(),
            "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision(),
            "torch.get_default_device()": torch.get_default_device(),
        }

    def restore(self, state: dict[str, object]) -> None:
        torch.set_default_dtype(state["torch.get_default_dtype()"])
        torch.use_deterministic_algorithms(state["torch.are_deterministic_algorithms_enabled()"])
        torch.set_grad_enabled(state["torch.is_grad_enabled()"])
        torch.set_float32_matmul_precision(state["torch.get_float32_matmul_precision()"])
        device = state["torch.get_default_device()"]
        torch.set_default_device(None if device == torch.device("cpu") else device)


FRAMEWORK = TorchFramework()
