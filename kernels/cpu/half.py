"""float16 on the CPU: stored as its 16 bits, held as a float32 that was rounded to float16."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from minijit.kernels.math.outlined import call_declared, every_lanes

__all__ = ["half_bits", "half_value", "round_half", "rounding"]

_HALF = ir.HalfType()
_FLOAT = ir.FloatType()
_DOUBLE = ir.DoubleType()
_BITS16 = ir.IntType(16)
_BITS32 = ir.IntType(32)


def _to_odd(builder: Any, value: Any) -> Any:
    """Round a double to float so that a second rounding to half is right.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
    rounding to odd" (2008): an inexact result takes the neighbour with an odd last bit.
    """
    near = builder.fptrunc(value, _FLOAT)
    back = builder.fpext(near, _DOUBLE)
    bits = builder.bitcast(near, _BITS32)
    even = builder.icmp_unsigned("==", builder.and_(bits, _BITS32(1)), _BITS32(0))
    magnitude = ir.FunctionType(_DOUBLE, [_DOUBLE])
    fabs = builder.module.globals.get("llvm.fabs.f64") or ir.Function(
        builder.module, magnitude, "llvm.fabs.f64"
    )
    size, reached = builder.call(fabs, [value]), builder.call(fabs, [back])
    beyond = builder.fcmp_ordered(">", size, reached)
    inexact = builder.or_(beyond, builder.fcmp_ordered("<", size, reached))
    step = builder.select(beyond, _BITS32(1), _BITS32(0xFFFFFFFF))
    moved = builder.select(builder.and_(inexact, even), builder.add(bits, step), bits)
    return builder.bitcast(moved, _FLOAT)


def _halved(builder: Any, value: Any) -> Any:
    return builder.fptrunc(_to_odd(builder, value) if value.type == _DOUBLE else value, _HALF)


_ROUND = "minijit.round_half"


def rounding() -> str:
    """Return LLVM code of what ``round_half`` of a float32 calls, for numbers and for vectors.

    A kernel gets it when it is optimised. LLVM would otherwise turn comparisons and choices of
    rounded numbers into those of float16, which take it long to find, and as long again to make of
    them what a processor can do.
    """
    forms = [(_ROUND, "float", "half")]
    forms += [(f"{_ROUND}.{n}", f"<{n} x float>", f"<{n} x half>") for n in every_lanes(_FLOAT)]
    return "".join(
        f"""
define available_externally {single} @{name}({single} %x) alwaysinline {{
  %half = fptrunc {single} %x to {half}
  %rounded = fpext {half} %half to {single}
  ret {single} %rounded
}}
"""
        for name, single, half in forms
    )


@intrinsic
def round_half(typing_context, x):
    """Round a float32 or float64 to float16, returned as float32."""
    if not isinstance(x, types.Float):
        raise TypingError(f"round_half takes a float, not {x}")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,) = arguments
        if value.type == _DOUBLE:
            return builder.fpext(_halved(builder, value), _FLOAT)
        return call_declared(builder, _ROUND, [value])

    return types.float32(x), generate


@intrinsic
def half_bits(typing_context, x):
    """Return the 16 bits of the float16 nearest to a float32."""
    if x != types.float32:
        raise TypingError(f"half_bits takes float32, not {x}")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], _HALF), _BITS16)

    return types.uint16(x), generate


@intrinsic
def half_value(typing_context, bits):
    """Return the float16 of these 16 bits as float32."""
    if bits != types.uint16:
        raise TypingError(f"half_value takes uint16, not {bits}")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], _HALF), _FLOAT)

    return types.float32(bits), generate
