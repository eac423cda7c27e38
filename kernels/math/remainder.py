"""fmod, remainder and floor_divide of floats: exact, as NumPy defines them.

A quotient below 2**24 (float32) or 2**53 (float64) has a whole part that is found, but for one, by
rounding a division down, and a rest that one fma gives exactly. A larger quotient takes a step for
each 22 or 51 bits more: these are rare, and the lanes of a vector wait for the last of them.
"""

from __future__ import annotations

import math

from minijit.kernels.math.branch import any_lane
from minijit.kernels.math.device import device
from minijit.kernels.math.intrinsics import absolute, bits, copysign, floor, fma, real, select
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value

_DIGITS = {FLOAT32: 24, FLOAT64: 53}
_EXPONENT = {FLOAT32: 0x7F800000, FLOAT64: 0x7FF0000000000000}
_HUGE = {FLOAT32: 2.0**126, FLOAT64: 2.0**1022}


@device(FLOAT32)
def fmod_float32(x: Value, y: Value) -> Value:
    """x - trunc(x / y) * y, with the sign of x; NaN for infinite x and for zero y."""
    return _fmod(x, y)


@device(FLOAT64)
def fmod_float64(x: Value, y: Value) -> Value:
    """x - trunc(x / y) * y, with the sign of x; NaN for infinite x and for zero y."""
    return _fmod(x, y)


@device(FLOAT32)
def remainder_float32(x: Value, y: Value) -> Value:
    """x - floor(x / y) * y, with the sign of y; NaN for infinite x and for zero y."""
    return _remainder(x, y)


@device(FLOAT64)
def remainder_float64(x: Value, y: Value) -> Value:
    """x - floor(x / y) * y, with the sign of y; NaN for infinite x and for zero y."""
    return _remainder(x, y)


@device(FLOAT32)
def floor_divide_float32(x: Value, y: Value) -> Value:
    """The largest whole number that is not above x / y, by NumPy's rounding."""
    return _floor_divide(x, y)


@device(FLOAT64)
def floor_divide_float64(x: Value, y: Value) -> Value:
    """The largest whole number that is not above x / y, by NumPy's rounding."""
    return _floor_divide(x, y)


def _fmod(x: Value, y: Value) -> Value:
    size, step = absolute(x), absolute(y)
    rest = select((size < math.inf) & (step > 0.0), size, math.nan)
    return copysign(_less(_reduced(rest, step), step), x)


def _remainder(x: Value, y: Value) -> Value:
    mod = _fmod(x, y)
    moved = select((y < 0.0) ^ (mod < 0.0), mod + y, mod)
    return select(mod == 0.0, copysign(mod, y), moved)


def _floor_divide(x: Value, y: Value) -> Value:
    mod = _fmod(x, y)
    quotient = (x - mod) / y
    below = (mod != 0.0) & ((y < 0.0) ^ (mod < 0.0))
    quotient = select(below, quotient - 1.0, quotient)
    # Already whole but for rounding; half way goes down, as NumPy's correction does.
    low = floor(quotient)
    whole = select(quotient - low > 0.5, low + 1.0, low)
    whole = select(quotient == 0.0, copysign(quotient.of(0.0), x / y), whole)
    return select(y == 0.0, x / y, whole)


def _less(rest: Value, step: Value) -> Value:
    """rest - floor(rest / step) * step, exactly, where the quotient has few digits."""
    # Rounded up, the quotient may reach the next whole number, so that the rest falls below zero.
    left = fma(-floor(rest / step), step, rest)
    # Also where the step is infinite.
    return select(rest < step, rest, select(left < 0.0, left + step, left))


def _reduced(rest: Value, step: Value) -> Value:
    """Less by multiples of `step`, until the quotient has few digits; NaN stays NaN."""
    builder = rest.builder
    before = builder.block
    loop, after = map(builder.append_basic_block, ("reduce", "reduced"))
    builder.cbranch(any_lane(_is_large(rest, step)), loop, after)
    builder.position_at_end(loop)
    old = builder.phi(rest.ir.type)
    new = _less(Value(builder, old), _scaled(Value(builder, old), step))
    old.add_incoming(rest.ir, before)
    old.add_incoming(new.ir, builder.block)
    builder.cbranch(any_lane(_is_large(new, step)), loop, after)
    builder.position_at_end(after)
    result = builder.phi(rest.ir.type)
    result.add_incoming(rest.ir, before)
    result.add_incoming(new.ir, loop)
    return Value(builder, result)


def _is_large(rest: Value, step: Value) -> Value:
    return rest / step >= 2.0 ** (_DIGITS[rest.kind] - 1)


def _scaled(rest: Value, step: Value) -> Value:
    """`step` times the power of two that leaves two digits fewer to the quotient than there are."""
    kind = rest.kind
    # The quotient of a large number and a subnormal one is infinite twice.
    for _ in range(2):
        step = select(rest / step == math.inf, step * _HUGE[kind], step)
    power = real(bits(rest / step) & _EXPONENT[kind]) * 2.0 ** (2 - _DIGITS[kind])
    return step * select(power > 1.0, power, 1.0)
