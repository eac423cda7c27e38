"""exp, exp2 and expm1: reduction to |r| <= ln(2) / 2 by powers of two, then a polynomial."""

from __future__ import annotations

import math

from llvmlite import ir

from minijit.kernels.math.device import device
from minijit.kernels.math.intrinsics import absolute, bits, fma, real, select, shift_right_logical
from minijit.kernels.math.polynomial import polynomial
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value

# Adding this number (1.5 * 2**mantissa bits) rounds to a whole number and leaves it in the low
# bits of the sum. Unlike a conversion to int it is defined for NaN, and it costs one addition.
ROUNDER = {FLOAT32: 12582912.0, FLOAT64: 6755399441055744.0}
_MANTISSA = {FLOAT32: 23, FLOAT64: 52}
BIAS = {FLOAT32: 127, FLOAT64: 1023}
# Below, exp(x) rounds to zero.
_EXP_IS_ZERO = {FLOAT32: -104.0, FLOAT64: -746.0}
# A power of two moved so far from either end of the exponents is a normal number.
_FAR = {FLOAT32: 64, FLOAT64: 512}

LOG2_E = 1.4426950408889634
# ln(2) in two parts. The first has so few bits that its product with any exponent is exact.
LN2_HIGH = {FLOAT32: 0.693359375, FLOAT64: 0.6931471803691238}
LN2_LOW = {FLOAT32: -2.1219444005469057e-4, FLOAT64: 1.9082149292705877e-10}

# (exp(r) - 1 - r) / r**2 on |r| <= 0.3535, least largest error (Remez).
# float32: degree 4, error 2**-27.8 against r**2 + 0.01; float64: degree 10, 2**-63.2.
_EXP = {
    FLOAT32: (5.0e-01, 1.6666514e-01, 4.1666202e-02, 8.369679e-03, 1.3951318e-03),
    FLOAT64: (
        0.5,
        0.16666666666666682,
        0.04166666666666671,
        0.008333333333317223,
        0.0013888888888860323,
        0.0001984126989735387,
        2.480158737256034e-05,
        2.7557232886532927e-06,
        2.7557233115374125e-07,
        2.5112982669580004e-08,
        2.0927265521785065e-09,
    ),
}

# The same of degree 2, error 2**-17.3 against exp(r): little next to half a unit of a float16.
_EXP_FOR_FLOAT16 = (0.5000553, 0.16757014, 0.041262466)

# (2**r - 1) / r on |r| <= 0.505, least largest error (Remez).
# float32: degree 5, error 2**-28.8; float64: degree 11, 2**-64.1; medium: degree 8, 2**-45.7.
_EXP2 = {
    FLOAT32: (
        6.931472e-01,
        2.402265e-01,
        5.5503257e-02,
        9.618003e-03,
        1.3401256e-03,
        1.5476721e-04,
    ),
    FLOAT64: (
        0.6931471805599453,
        0.24022650695910072,
        0.0555041086648217,
        0.009618129107628496,
        0.0013333558146388503,
        0.0001540353039334015,
        1.5252733858449726e-05,
        1.3215486834028765e-06,
        1.0178050164746925e-07,
        7.054887835809166e-09,
        4.45684720759943e-10,
        2.574244008519021e-11,
    ),
}
_EXP2_MEDIUM = (
    0.6931471805599521,
    0.24022650695706035,
    0.05550410866428253,
    0.009618129186154912,
    0.0013333558257110577,
    0.00015403436874154936,
    1.5252641936308406e-05,
    1.3259281225744773e-06,
    1.0211526495397798e-07,
)


def clamp(x: Value, low: float, high: float) -> Value:
    """x limited to [low, high]; NaN stays NaN."""
    x = select(x > high, high, x)
    return select(x < low, low, x)


def _rounder(kind: ir.Type, plus: int) -> float:
    """The number that rounds, with the exponent's bias: a shift alone makes a power of two."""
    return ROUNDER[kind] + BIAS[kind] + plus


def round_exponent(x: Value, factor: float = 1.0, plus: int = 0) -> tuple[Value, Value]:
    """(rounded, n): x * factor rounded to a whole number n, and what power_of_two() takes."""
    rounder = _rounder(x.kind, plus)
    rounded = x + rounder if factor == 1.0 else fma(x, factor, rounder)
    return rounded, rounded - rounder


def power_of_two(rounded: Value) -> Value:
    """2**(n + plus) for `rounded` as of round_exponent(x, factor, plus): a normal number."""
    return real(bits(rounded) << _MANTISSA[rounded.kind])


def _factors(rounded: Value) -> tuple[Value, Value]:
    """Two powers of two of about equal size whose product is 2**n, which need not be a float.

    `rounded` is that of round_exponent(x, factor, BIAS): the bias is in it twice, once for each of
    the two. What is times the one loses nothing, and is rounded once as it is times the other.
    """
    mantissa = _MANTISSA[rounded.kind]
    whole = bits(rounded)
    half = shift_right_logical(whole, 1)
    return real(half << mantissa), real((whole - half) << mantissa)


def scale(x: Value, rounded: Value) -> Value:
    """x * 2**n, into the subnormals and to infinity, as of round_exponent(y, factor, BIAS)."""
    first, second = _factors(rounded)
    return x * first * second


def reduce_by_ln2(x: Value, plus: int = 0) -> tuple[Value, Value]:
    """(rounded, r) with x = n * ln(2) + r (Cody and Waite), as of round_exponent()."""
    kind = x.kind
    rounded, n = round_exponent(x, LOG2_E, plus)
    return rounded, fma(n, -LN2_LOW[kind], fma(n, -LN2_HIGH[kind], x))


def expm1_reduced(r: Value) -> Value:
    """exp(r) - 1 for |r| <= 0.3535."""
    return fma(r * r, polynomial(r, _EXP[r.kind]), r)


def _exp(x: Value, low: float, high: float) -> Value:
    rounded, r = reduce_by_ln2(clamp(x, low, high), BIAS[x.kind])
    first, second = _factors(rounded)
    # Of the two roundings the second one is exact but in the subnormals.
    return fma(expm1_reduced(r), first, first) * second


def exp_nonpositive(x: Value) -> Value:
    """exp(x) for x that is not above 0, or NaN: it cannot overflow, and takes less."""
    kind = x.kind
    low, far = _EXP_IS_ZERO[kind], _FAR[kind]
    rounded, r = reduce_by_ln2(select(x < low, low, x), far)
    power = power_of_two(rounded)
    return fma(expm1_reduced(r), power, power) * 2.0**-far


def exp_for_float16(x: Value) -> Value:
    """exp(x) in float32 to 2**-17 relative where float16 has a number for it.

    What is rounded to float16 becomes zero below, and infinity above.
    """
    x = clamp(x, -18.0, 12.0)
    rounded, n = round_exponent(x, LOG2_E)
    r = fma(n, -math.log(2.0), x)
    power = power_of_two(rounded)
    return fma(fma(r * r, polynomial(r, _EXP_FOR_FLOAT16), r), power, power)


def exp2_medium(x: Value) -> Value:
    """2**x in float64 to 2**-45 relative, for |x| <= 1000: more than a float32 result needs."""
    rounded, n = round_exponent(x)
    r = x - n
    return fma(r, polynomial(r, _EXP2_MEDIUM), 1.0) * power_of_two(rounded)


def exp_medium(x: Value) -> Value:
    """exp(x) in float64 to 2**-44 relative, for |x| <= 200."""
    return exp2_medium(x * LOG2_E)


def expm1_of_sum(high: Value, low: Value) -> tuple[Value, Value]:
    """(rounded, q) with exp(high + low) = 2**n * (1 + q), `rounded` as scale() takes it.

    The low part is no more than a few units of the last place of the high one.
    """
    rounded, r = reduce_by_ln2(high, BIAS[high.kind])
    return rounded, expm1_reduced(r + low)


@device(FLOAT32)
def exp_float32(x: Value) -> Value:
    """exp(x)."""
    return _exp(x, _EXP_IS_ZERO[FLOAT32], 89.0)


@device(FLOAT32)
def exp_nonpositive_float32(x: Value) -> Value:
    """exp(x) for x that is not above 0."""
    return exp_nonpositive(x)


@device(FLOAT32)
def exp_float16(x: Value) -> Value:
    """exp(x) for a result that is rounded to float16."""
    return exp_for_float16(x)


@device(FLOAT64)
def exp_float64(x: Value) -> Value:
    """exp(x)."""
    return _exp(x, _EXP_IS_ZERO[FLOAT64], 710.0)


@device(FLOAT64)
def exp_nonpositive_float64(x: Value) -> Value:
    """exp(x) for x that is not above 0."""
    return exp_nonpositive(x)


def _exp2(x: Value) -> Value:
    rounded, n = round_exponent(x, 1.0, BIAS[x.kind])
    r = x - n
    return scale(fma(r, polynomial(r, _EXP2[x.kind]), 1.0), rounded)


@device(FLOAT32)
def exp2_float32(x: Value) -> Value:
    """2 ** x."""
    return _exp2(clamp(x, -151.0, 128.0))


@device(FLOAT64)
def exp2_float64(x: Value) -> Value:
    """2 ** x."""
    return _exp2(clamp(x, -1076.0, 1024.0))


def _expm1(x: Value, low: float, high: float) -> Value:
    # At half size, for 2**n itself overflows where the result does not yet.
    rounded, r = reduce_by_ln2(clamp(x, low, high), -1)
    half_power = power_of_two(rounded)
    y = fma(half_power, expm1_reduced(r), half_power - 0.5) * 2.0
    # Halving would round a subnormal, and drop the sign of zero.
    return select(absolute(x) < 1e-30, x, y)


@device(FLOAT32)
def expm1_float32(x: Value) -> Value:
    """exp(x) - 1."""
    return _expm1(x, -20.0, 89.0)


@device(FLOAT64)
def expm1_float64(x: Value) -> Value:
    """exp(x) - 1."""
    return _expm1(x, -40.0, 710.0)
