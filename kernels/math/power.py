"""power and cbrt."""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import Any

from minijit.kernels.math.device import device
from minijit.kernels.math.exponential import (
    LN2_HIGH,
    LN2_LOW,
    clamp,
    exp2_medium,
    expm1_of_sum,
    scale,
)
from minijit.kernels.math.intrinsics import (
    absolute,
    bits,
    floor,
    fma,
    gather,
    real,
    select,
    shift_right_logical,
    to_float32,
    to_float64,
)
from minijit.kernels.math.logarithm import log2_medium, whole
from minijit.kernels.math.polynomial import polynomial
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value

_ONE = 0x3FF0000000000000
# The mantissa [0.7, 1.4) is cut into 128 pieces of 2**45 bit patterns each. One piece has 1 in it,
# with as much room below as above, so that no logarithm of a number near 1 comes from a difference.
_PIECE_OF_ONE = 74
_FIRST = _ONE - (_PIECE_OF_ONE << 45) - 2 * ((1 << 45) // 3)

# (log(1 + r) - r + r**2 / 2) / r**3 for |r| <= 1 / 240 (Remez), degree 5, error 2**-55.6.
_LOG1P_SHORT = (
    0.33333333333333337,
    -0.25000000000000044,
    0.1999999999813186,
    -0.16666666653152648,
    0.14286002431398656,
    -0.12500922129843833,
)


def _log_scaled(x: float) -> int:
    """log(x) * 2**200 for x near 1, by 2 * artanh((x - 1) / (x + 1)) in whole numbers."""
    over, under = x.as_integer_ratio()
    s = ((over - under) << 200) // (over + under)
    square = (s * s) >> 200
    total, power, n = 0, s, 1
    while power not in (0, -1):
        total += power // n
        power = (power * square) >> 200
        n += 2
    return 2 * total


@cache
def _log_table() -> tuple[float, ...]:
    """For every piece: 1 / c of a c in its middle, and log(c) = high + low, high in 42 places."""
    table: list[float] = []
    for piece in range(128):
        if piece == _PIECE_OF_ONE:
            table += (1.0, 0.0, 0.0, 0.0)
            continue
        middle = _FIRST + (piece << 45) + (1 << 44)
        inverse = 1.0 / struct.unpack("<d", struct.pack("<q", middle))[0]
        logarithm = -_log_scaled(inverse)
        high = (logarithm >> 158) << 158
        table += (inverse, math.ldexp(high, -200), math.ldexp(logarithm - high, -200), 0.0)
    return tuple(table)


def _log_double(x: Value, more: Value) -> tuple[Value, Value]:
    """log(2**more * x) as high + low to 2**-67 relative, for x positive, normal and finite.

    After P. T. P. Tang, "Table-driven implementation of the logarithm function in IEEE
    floating-point arithmetic" (TOMS 16(4), 1990), with the terms that count in two parts.
    """
    pattern = bits(x)
    shifted = pattern + (_ONE - _FIRST)
    biased = shift_right_logical(shifted, 52)
    piece = (shift_right_logical(pattern - _FIRST, 45) & 127) << 2
    m = real(pattern - (biased << 52) + _ONE)
    k = whole(biased) + (more - 1023.0)

    inverse = gather(_log_table(), piece)
    product = m * inverse
    lost = fma(m, inverse, -product)
    product = product - 1.0
    r = product + lost
    r_low = (product - r) + lost

    start = fma(k, LN2_HIGH[FLOAT64], gather(_log_table(), piece | 1))
    start_low = fma(k, LN2_LOW[FLOAT64], gather(_log_table(), piece | 2))
    first = start + r
    low = (start - first) + r + (start_low + r_low)
    half = r * -0.5
    square = r * half
    second = first + square
    low = low + ((first - second) + square) + fma(r, half, -square)
    # The derivative of -r**2 / 2 carries r's own rest along.
    low = fma(r, -r_low, low)
    low = fma(r * r * r, polynomial(r, _LOG1P_SHORT), low)
    high = second + low
    return high, (second - high) + low


def _with_borders(x: Value, y: Value, magnitude: Value) -> Value:
    """C99's table of pow; `magnitude` is right where |x| is neither 0, 1, infinite nor NaN."""
    size = absolute(x)
    whole_y = floor(y) == y
    half = y * 0.5
    odd = whole_y & (floor(half) != half)

    no_number = size.of(math.nan)
    limit = select((size == 0.0) ^ (y < 0.0), 0.0, size.of(math.inf))
    limit = select(size == 1.0, 1.0, limit)
    at_limit = (size == 0.0) | (size == 1.0) | (size == math.inf)
    result = select(at_limit & (y == y), limit, magnitude)
    result = select((x == x) & ((x >= 0.0) | whole_y | (size == math.inf)), result, no_number)
    result = select((bits(x) < 0) & odd, -result, result)
    return select((x == 1.0) | (y == 0.0), 1.0, result)


@device(FLOAT32)
def power_float32(x: Value, y: Value) -> Value:
    """The power x ** y with the special cases of C99."""
    exponent = to_float64(y) * log2_medium(absolute(x))
    return _with_borders(x, y, to_float32(exp2_medium(clamp(exponent, -400.0, 400.0))))


@cache
def whole_power(exponent: int) -> Any:
    """The function of float32 x and y that is x ** y for one whole number y, by products.

    They are rounded to float64, which has room for them: the result is hardly more than half a unit
    of the last place off, and beyond the exponents of float64 it is 0 or infinity in any case.
    """

    def formula(x: Value, y: Value) -> Value:
        factor, left = to_float64(x), abs(exponent)
        power = factor.of(1.0)
        while left:
            power = power * factor if left & 1 else power
            factor, left = factor * factor, left >> 1
        return to_float32(1.0 / power if exponent < 0 else power)

    formula.__name__ = f"power_{exponent}".replace("-", "minus_")
    return device(FLOAT32)(formula)


@device(FLOAT64)
def power_float64(x: Value, y: Value) -> Value:
    """The power x ** y with the special cases of C99."""
    size = absolute(x)
    tiny = size < 2.0**-1022
    high, low = _log_double(select(tiny, size * 2.0**54, size), select(tiny, -54.0, size.of(0.0)))
    exponent = y * high
    rest = fma(y, low, fma(y, high, -exponent))
    # Beyond, the result is 0 or infinity, and the rest may be infinity less infinity.
    rest = select(absolute(exponent) < 750.0, rest, 0.0)
    rounded, q = expm1_of_sum(clamp(exponent, -750.0, 750.0), rest)
    return _with_borders(x, y, scale(q + 1.0, rounded))


def _cbrt(size: Value, rounds: int) -> Value:
    """The cube root of a positive, normal, finite float64: one round gives it to 2**-38."""
    # A third of the exponent and, nearly, the mantissa's logarithm: 1 / cbrt(size) within 4 %.
    third = shift_right_logical(shift_right_logical(bits(size), 32) * 0x55555556, 32)
    r = real((0x553EF0FF - third) << 32)
    for _ in range(rounds):
        # (1 - h) ** (-1 / 3) = 1 + h / 3 + 2 h**2 / 9 + 14 h**3 / 81 + 35 h**4 / 243 + ...
        h = fma(size * r * r, -r, 1.0)
        r = fma(r * h, polynomial(h, (1 / 3, 2 / 9, 14 / 81, 35 / 243)), r)
    root = size * r * r
    rest = fma(root * root, -root, size)
    return fma(rest * (1 / 3), r * r, root)


def _cbrt_any(x: Value, rounds: int) -> Value:
    size = absolute(x)
    tiny = size < 2.0**-1022
    y = _cbrt(select(tiny, size * 2.0**54, size), rounds) * select(tiny, 2.0**-18, size.of(1.0))
    y = select(bits(x) < 0, -y, y)
    return select((size > 0.0) & (size < math.inf), y, x)


@device(FLOAT32)
def cbrt_float32(x: Value) -> Value:
    """The real cube root."""
    return to_float32(_cbrt_any(to_float64(x), 1))


@device(FLOAT64)
def cbrt_float64(x: Value) -> Value:
    """The real cube root."""
    return _cbrt_any(x, 2)
