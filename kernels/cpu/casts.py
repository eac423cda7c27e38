"""Conversion of floats to integers as C does it on x86-64, defined for every input.

LLVM calls the result of ``fptosi`` on NaN or an out-of-range value poison, which may then change
code around it; ``freeze`` makes it the one value that the instruction gives. Narrow types go
through int32 and uint32 through int64 and are cut to their low bits, as C compilers do for NumPy.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

__all__ = ["FROM_FLOAT"]


def freeze(builder: Any, value: Any) -> Any:
    """Return ``value`` with poison replaced by some fixed value."""
    instruction = ir.Instruction(builder.block, value.type, "freeze", [value])
    builder._insert(instruction)
    return instruction


def _from_float(result: Any, name: str) -> Any:
    """Return a device function float32 or float64 -> ``result``."""
    through = ir.IntType(32 if result.bitwidth < 32 or result == types.int32 else 64)
    target = ir.IntType(result.bitwidth)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,) = arguments
        if result != types.uint64:
            number = freeze(builder, builder.fptosi(value, through))
            return number if number.type == target else builder.trunc(number, target)
        # The upper half of uint64 is beyond int64: move it down, then set the top bit again.
        limit = ir.Constant(value.type, 2.0**63)
        large = builder.fcmp_ordered(">=", value, limit)
        moved = builder.select(large, builder.fsub(value, limit), value)
        number = freeze(builder, builder.fptosi(moved, through))
        flipped = builder.xor(number, ir.Constant(target, 1 << 63))
        return builder.select(large, flipped, number)

    @intrinsic
    def convert(typing_context, x):
        if not isinstance(x, types.Float):
            raise TypingError(f"{name} takes a float, not {x}")
        return result(x), generate

    @njit(forceinline=True, error_model="numpy")
    def from_float(x):
        return convert(x)

    return from_float


_RESULTS = {
    "int8": types.int8,
    "int16": types.int16,
    "int32": types.int32,
    "int64": types.int64,
    "uint8": types.uint8,
    "uint16": types.uint16,
    "uint32": types.uint32,
    "uint64": types.uint64,
}

FROM_FLOAT = {f"{name}_from_float": _from_float(kind, name) for name, kind in _RESULTS.items()}
