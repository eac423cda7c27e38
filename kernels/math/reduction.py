"""Reduction of any finite angle to a quarter turn: x = (4 * whole + quadrant) * pi / 2 + r.

Near zero, multiples of pi / 2 are subtracted in three parts: Cody and Waite, "Software Manual for
the Elementary Functions" (1980). Far from it the way is that of Payne and Hanek, "Radian reduction
for trigonometric arguments" (SIGNUM 18(1), 1983): of 2 / pi only the bits matter that, times x,
neither make whole multiples of 4 nor vanish. For every binary exponent the tables hold just those:
(2**exponent * 2 / pi) mod 4, as a sum of floats.
"""

from __future__ import annotations

import math
from functools import cache

from minijit.kernels.math.exponential import ROUNDER
from minijit.kernels.math.intrinsics import (
    bits,
    fma,
    gather,
    real,
    rint,
    select,
    shift_right_logical,
    to_float32,
    to_float64,
    to_int32,
)
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value

_PRECISION = 1400  # bits of 2 / pi after the binary point: exponent 1023, and over 200 to spare
_TWO_OVER_PI = 0.6366197723675814
PI_2_HIGH = 1.5707963267948966
PI_2_LOW = 6.123233995736766e-17
# Up to this |x| an angle is near: its multiple of pi / 2 is whole, and exact times the first part.
NEAR = {FLOAT32: 2.0**16, FLOAT64: 2.0**30}
_FIRST_FAR = 30
_PI_2 = {
    FLOAT32: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    FLOAT64: (PI_2_HIGH, PI_2_LOW, -1.4973849048591698e-33),
}


@cache
def _two_over_pi() -> int:
    """floor(2 / pi * 2**_PRECISION), with pi by Machin's formula in whole numbers."""
    extra = 64
    one = 1 << (_PRECISION + extra)

    def arctan_inverse(n: int) -> int:
        total, term, k = 0, one // n, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term //= n * n
            k += 2
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    return ((one * one * 2) // pi) >> extra


def _parts(numerator: int, places: int, sizes: tuple[int, ...]) -> tuple[float, ...]:
    """numerator / 2**places as a sum of floats, each of the next so many significant bits."""
    parts = []
    for size in sizes:
        drop = max(numerator.bit_length() - size, 0)
        head = numerator >> drop
        parts.append(math.ldexp(float(head), drop - places))
        numerator -= head << drop
    return tuple(parts)


@cache
def _table_float32() -> tuple[float, ...]:
    """By the biased exponent of a float32: two factors f with x * f = x * 2 / pi modulo 4.

    The first has 29 bits, so that its product with the 24 bits of x is exact in float64.
    """
    two_over_pi = _two_over_pi()
    table: list[float] = []
    for biased in range(255):
        unit = max(biased, 126) - 150  # x is a whole number times 2**unit
        if unit < 0:
            numerator, places = two_over_pi, _PRECISION
        else:
            numerator = (two_over_pi << unit) % (4 << _PRECISION)
            places = _PRECISION + unit
        table += _parts(numerator, places, (29, 53))
    return (*table, math.nan, math.nan)


@cache
def _table_float64() -> tuple[float, ...]:
    """By the exponent of a float64 that is far: four factors of its mantissa in [1, 2)."""
    two_over_pi = _two_over_pi()
    table: list[float] = []
    for exponent in range(_FIRST_FAR, 1024):
        unit = exponent - 52
        shifted = two_over_pi << unit if unit >= 0 else two_over_pi >> -unit
        table += _parts(shifted % (4 << _PRECISION), _PRECISION - 52, (53, 53, 53, 53))
    return (*table, math.nan, 0.0, 0.0, 0.0)


def _two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """a + b and its rounding error (Knuth)."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def reduce_near(x: Value) -> tuple[Value, Value, Value]:
    """(quadrant as an integer whose last two bits count, angle, its rounding error) of x nearby."""
    rounder = ROUNDER[x.kind]
    high, middle, low = _PI_2[x.kind]
    rounded = fma(x, _TWO_OVER_PI, rounder)
    n = rounded - rounder
    part = n * -middle
    angle, lost = _two_sum(fma(n, -high, x), part)
    return bits(rounded), angle, lost + fma(n, -low, fma(n, -middle, -part))


def reduce_far(x: Value) -> tuple[Value, Value, Value]:
    """The same of x far off."""
    return {FLOAT32: _reduce_far_float32, FLOAT64: _reduce_far_float64}[x.kind](x)


def _reduce_far_float32(x: Value) -> tuple[Value, Value, Value]:
    index = (shift_right_logical(bits(x), 23) & 255) << 1
    wide = to_float64(x)
    turns = wide * gather(_table_float32(), index)
    second = gather(_table_float32(), index | 1)
    rounded = fma(wide, second, turns) + ROUNDER[FLOAT64]
    rest = fma(wide, second, turns - (rounded - ROUNDER[FLOAT64])) * PI_2_HIGH
    angle = to_float32(rest)
    return to_int32(bits(rounded)), angle, to_float32(rest - to_float64(angle))


def _reduce_far_float64(x: Value) -> tuple[Value, Value, Value]:
    pattern = bits(x)
    exponent = (shift_right_logical(pattern, 52) & 0x7FF) - (1023 + _FIRST_FAR)
    index = select(exponent > 0, exponent, 0) << 2
    mantissa = real((pattern & -0x7FF0000000000001) | 0x3FF0000000000000)
    factors = [gather(_table_float64(), index | part) for part in range(4)]

    products = [mantissa * factor for factor in factors]
    errors = [
        fma(mantissa, factor, -product)
        for factor, product in zip(factors[:3], products[:3], strict=True)
    ]
    first = fma(rint(products[0] * 0.25), -4.0, products[0])
    head, lost0 = _two_sum(errors[0], products[1])
    head, lost1 = _two_sum(first, head)
    rounded = head + ROUNDER[FLOAT64]
    head = head - (rounded - ROUNDER[FLOAT64])
    # Next to a multiple of pi / 2 the head cancels to 2**-62: every term down to 2**-115 counts.
    tail = fma(mantissa, factors[3], errors[2])
    for term in (lost0, lost1, errors[1], products[2]):
        head, lost = _two_sum(head, term)
        tail = tail + lost

    angle = head * PI_2_HIGH
    low = fma(head, PI_2_HIGH, -angle)
    low = fma(tail, PI_2_HIGH, fma(head, PI_2_LOW, low))
    high = angle + low
    return bits(rounded), high, (angle - high) + low
