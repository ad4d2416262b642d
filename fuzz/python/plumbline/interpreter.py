# SPDX-License-Identifier: Apache-2.0
"""Triton's interpreter, completed: what it does not compute, or computes on bits, it computes as a GPU does.

Under TRITON_INTERPRET=1 Triton runs kernels in NumPy. Two things are missing there, as Triton's manual says of one:

* functions of libdevice do nothing and return None; those that NumPy has are NumPy's;
* arithmetic of bf16 is arithmetic of its bits; operations are done in fp32 and rounded to nearest, and a product's
  inputs are widened, which is exact.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

CANNOT_SHOW = "what Triton's compiler does: kernels ran in its interpreter, completed for bf16 and libdevice"
# libdevice's functions by NumPy's names.
_FUNCTIONS = {name: name for name in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "cbrt", "abs", "floor", "ceil", "trunc", "rint", "isnan", "isinf", "signbit", "fmod", "hypot", "copysign",
)} | {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "power": "pow", "arctan2": "atan2",
}  # fmt: skip
_MARK = "_plumbline_completed"


def complete() -> str | None:
    """Completes the interpreter if the environment asks for it and Triton is imported; what is not seen then."""
    if os.environ.get("TRITON_INTERPRET") != "1" or "triton" not in sys.modules:
        return None
    from triton.runtime import interpreter

    builder = getattr(interpreter, "InterpreterBuilder", None)
    if builder is not None and not hasattr(builder, _MARK):
        setattr(builder, _MARK, True)
        _complete_bf16(interpreter, builder)
        _complete_libdevice(interpreter)
    return CANNOT_SHOW


def _widened(bits: Any) -> Any:
    import numpy as np

    return (np.ascontiguousarray(bits).astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)


def rounded_to_bf16(values: Any) -> Any:
    """Bits of bf16 nearest to values in fp32, ties to even; NaN stays NaN."""
    import numpy as np

    values = np.ascontiguousarray(values, np.float32)
    bits = values.view(np.uint32).astype(np.uint64)
    nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    quiet = ((bits >> 16) | 0x40).astype(np.uint16)
    return np.where(np.isnan(values), quiet, nearest).reshape(values.shape)


def _complete_bf16(interpreter: Any, builder: Any) -> None:
    import numpy as np
    import triton.language as tl

    handle = interpreter.TensorHandle

    def is_bf16(value: Any) -> bool:
        return isinstance(value, handle) and value.dtype.scalar == tl.bfloat16 and value.data.dtype == np.uint16

    def wide(value: Any) -> Any:
        return handle(_widened(value.data), tl.float32) if is_bf16(value) else value

    def narrow(value: Any) -> Any:
        if isinstance(value, handle) and value.data.dtype == np.float32:
            return handle(rounded_to_bf16(value.data), tl.bfloat16)
        return value

    def in_fp32(method: Callable[..., Any]) -> Callable[..., Any]:
        def operation(self: Any, *values: Any, **named: Any) -> Any:
            if not any(map(is_bf16, values)):
                return method(self, *values, **named)
            return narrow(method(self, *map(wide, values), **named))

        return operation

    def dot(self: Any, a: Any, b: Any, d: Any, *rest: Any, **named: Any) -> Any:
        return plain_dot(self, wide(a), wide(b), d, *rest, **named)

    def cast(method: Callable[..., Any]) -> Callable[..., Any]:
        def to(self: Any, source: Any, kind: Any, *rest: Any, **named: Any) -> Any:
            if is_bf16(source) and kind.scalar != tl.bfloat16:
                source = wide(source)
                return source if kind.scalar == tl.float32 else method(self, source, kind, *rest, **named)
            if kind.scalar == tl.bfloat16 and source.data.dtype.kind == "f":
                return handle(rounded_to_bf16(source.data.astype(np.float32)), tl.bfloat16)
            return method(self, source, kind, *rest, **named)

        return to

    plain_dot = builder.create_dot
    builder.create_dot = dot
    for name in ("binary_op", "unary_op", "ternary_op", "create_fma", "create_rsqrt"):
        setattr(builder, name, in_fp32(getattr(builder, name)))
    for name in ("cast_impl", "create_fp_to_fp"):
        setattr(builder, name, cast(getattr(builder, name)))


def _complete_libdevice(interpreter: Any) -> None:
    import numpy as np
    import triton.language as tl
    from triton.language.extra import libdevice

    def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
        def apply(*values: Any, **_: Any) -> Any:
            given = [v if isinstance(v, tl.tensor) else tl.to_tensor(v) for v in values]
            result = function(*(v.handle.data for v in given))
            kind = given[0].type.scalar if result.dtype.kind == "f" else tl.int32
            data = result.astype(given[0].handle.data.dtype if result.dtype.kind == "f" else np.int32)
            shape = given[0].type.with_element_ty(kind) if given[0].type.is_block() else kind
            return tl.tensor(interpreter.TensorHandle(data, kind), shape)

        return apply

    functions = {name: getattr(np, numpy_name) for numpy_name, name in _FUNCTIONS.items()}
    functions["rsqrt"] = lambda x: 1 / np.sqrt(x)
    for name, function in functions.items():
        if hasattr(libdevice, name):
            setattr(libdevice, name, elementwise(function))
