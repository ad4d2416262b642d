# SPDX-License-Identifier: Apache-2.0
"""The operator's library beside this file, called through kernel/torch/c_interface.h."""

from __future__ import annotations

import ctypes
import operator
import pathlib
import struct

import torch

PATH = pathlib.Path(__file__).resolve().parent / "libplumbline_operator.so"

# As plumbline::kernel::DType.
DTYPES = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2, torch.int32: 3, torch.int64: 4}
REDUCTIONS = {"none": 0, "sum": 1, "mean": 2}

# plumbline_operator_call: device, threads, stream, kept_logits_bytes, ignore_index, reduction, reserved, two sizes, two
# memories; then thirteen tensors of data, dtype, rank, shape and stride.
_HEADER = "iiQQqiiQQQQ"
_TENSOR = "Qii4q"
_CALL = struct.Struct("=" + _HEADER + 13 * _TENSOR)
_SIZES = struct.Struct("=QQ")
_SIZES_AT = struct.calcsize("=iiQQqii")
_MEMORY = struct.Struct("=QQ")
_MEMORY_AT = _SIZES_AT + _SIZES.size
ABSENT = (0, 0, -1, 1, 1, 1, 1)

_OK, _INVALID_ARGUMENT, _INVALID_DATA, _UNSUPPORTED = range(4)


class UnsupportedDevice(RuntimeError):
    """This build or device cannot run the operator; the message says why and what can."""


def _load() -> ctypes.CDLL:
    if not PATH.is_file():
        raise ImportError(f"{PATH} is not there: the installation of plumbline is not whole")
    library = ctypes.CDLL(str(PATH))
    library.plumbline_operator_message.restype = ctypes.c_char_p
    for name in ("sizes", "forward", "backward", "forward_backward_sizes", "forward_backward"):
        getattr(library, f"plumbline_operator_{name}").argtypes = [ctypes.c_char_p]
    laid_out = library.plumbline_operator_call_size()
    if laid_out != _CALL.size:
        raise ImportError(f"{PATH} is of another version: its call has {laid_out} bytes, this package's {_CALL.size}")
    return library


_LIBRARY = _load()
HAS_CUDA = bool(_LIBRARY.plumbline_operator_has_cuda())


def describe(tensor: torch.Tensor | None) -> tuple[int, ...]:
    """A tensor of rank 0 to 2 as a call has it; None is absent."""
    if tensor is None:
        return ABSENT
    rank = tensor.dim()
    dtype = DTYPES[tensor.dtype]
    if rank == 2:
        return (tensor.data_ptr(), dtype, 2, *tensor.shape, *tensor.stride())
    if rank == 1:
        return (tensor.data_ptr(), dtype, 1, tensor.numel(), 1, *tensor.stride(), 1)
    return (tensor.data_ptr(), dtype, 0, 1, 1, 1, 1)


_Buffer = ctypes.c_char * _CALL.size
# All numbers of thirteen tensors but their addresses.
_shapes_of = operator.itemgetter(*(at for at in range(13 * 7) if at % 7))
_MOST_SIZES = 256
_sizes: dict[tuple[object, ...], tuple[int, int]] = {}


class Call:
    """One call's arguments. `numbers` are those of the thirteen tensors of c_interface.h, in its order, each by describe()."""

    __slots__ = ("_buffer", "_device", "_key")

    def __init__(
        self, device: torch.device, kept_logits_bytes: int, ignore_index: int, reduction: int, numbers: tuple[int, ...]
    ) -> None:
        self._buffer = _Buffer()
        if device.type == "cuda":
            self._device, threads, stream = device.index, 0, torch.cuda.current_stream(device).cuda_stream
        else:
            self._device, threads, stream = None, torch.get_num_threads(), 0
        self._key = self._device is None, threads, kept_logits_bytes, reduction, _shapes_of(numbers)
        _CALL.pack_into(
            self._buffer, 0, self._device is not None, threads, stream, kept_logits_bytes, ignore_index, reduction,
            0, 0, 0, 0, 0, *numbers,
        )  # fmt: skip

    def sizes(self) -> tuple[int, int]:
        """Bytes of workspace and of saved state."""
        return _sizes.get(self._key) or self._ask(self._key, _LIBRARY.plumbline_operator_sizes)

    def sizes_at_once(self) -> tuple[int, int]:
        """Those of forward_backward, which saves nothing."""
        key = *self._key, "at once"
        return _sizes.get(key) or self._ask(key, _LIBRARY.plumbline_operator_forward_backward_sizes)

    def _ask(self, key: tuple[object, ...], function) -> tuple[int, int]:
        """Sizes follow from shapes alone (kernel/linear_cross_entropy.h). The library's own arithmetic takes a host 5 us."""
        _raise(function(self._buffer))
        if len(_sizes) >= _MOST_SIZES:
            _sizes.clear()
        found = _sizes[key] = _SIZES.unpack_from(self._buffer, _SIZES_AT)
        return found

    def forward(self, workspace: torch.Tensor, saved: torch.Tensor | None) -> None:
        self._run(_LIBRARY.plumbline_operator_forward, workspace, saved)

    def backward(self, workspace: torch.Tensor, saved: torch.Tensor) -> None:
        self._run(_LIBRARY.plumbline_operator_backward, workspace, saved)

    def forward_backward(self, workspace: torch.Tensor) -> None:
        self._run(_LIBRARY.plumbline_operator_forward_backward, workspace, None)

    def _run(self, function, workspace: torch.Tensor, saved: torch.Tensor | None) -> None:
        _MEMORY.pack_into(self._buffer, _MEMORY_AT, workspace.data_ptr(), 0 if saved is None else saved.data_ptr())
        if self._device is None or self._device == torch.cuda.current_device():
            code = function(self._buffer)
        else:
            with torch.cuda.device(self._device):
                code = function(self._buffer)
        _raise(code)


def _raise(code: int) -> None:
    if code == _OK:
        return
    message = _LIBRARY.plumbline_operator_message().decode()
    if code in (_INVALID_ARGUMENT, _INVALID_DATA):
        raise ValueError(f"linear_cross_entropy: {message}")
    if code == _UNSUPPORTED:
        raise UnsupportedDevice(f"linear_cross_entropy: {message}")
    raise RuntimeError(f"linear_cross_entropy: {message}")
