"""log, log2, log10 and log1p: x = 2**k * m with m near 1, then a polynomial in m - 1 or like it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from minijit.kernels.math.device import device
from minijit.kernels.math.exponential import LN2_HIGH, LN2_LOW, LOG2_E
from minijit.kernels.math.intrinsics import (
    bits,
    copysign,
    fma,
    from_integer,
    real,
    select,
    shift_right_logical,
    to_float32,
    to_float64,
)
from minijit.kernels.math.polynomial import polynomial
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value

_MANTISSA = {FLOAT32: 23, FLOAT64: 52}
_BIAS = {FLOAT32: 127, FLOAT64: 1023}
# The bit pattern of 1 less that of sqrt(1/2): m lies in [sqrt(1/2), sqrt(2)).
_CENTRE = {FLOAT32: 0x3F800000 - 0x3F3504F3, FLOAT64: 0x3FF0000000000000 - 0x3FE6A09E667F3BCD}
_ONE = {FLOAT32: 0x3F800000, FLOAT64: 0x3FF0000000000000}
_SMALLEST_NORMAL = {FLOAT32: 2.0**-126, FLOAT64: 2.0**-1022}

# The same for |s| <= 1 / 3: degree 8, error 2**-53.
_LOG_THIRD = (
    0.6666666666667495,
    0.3999999999668143,
    0.28571429004667726,
    0.22222195177049553,
    0.1818275900897923,
    0.15365087919432346,
    0.1357960871138633,
    0.09933642463753267,
    0.1768038575450847,
)

LOG10_E = 0.4342944819032518
LOG10_2 = 0.30102999566398120


@dataclass(frozen=True, slots=True)
class Base:
    """Another base: log(e) in it (factor, with its rounding error), log(2) in it (unit).

    The unit is so short that its product with any exponent is exact.
    """

    factor: float
    factor_low: float
    unit: float
    unit_low: float


_BASE2 = {
    FLOAT32: Base(1.4426950216293335, 1.9259629911266175e-08, 1.0, 0.0),
    FLOAT64: Base(LOG2_E, 2.0355273740931033e-17, 1.0, 0.0),
}
_BASE10 = Base(LOG10_E, 1.098319650216765e-17, 0.30102999566383914, 1.42050232272661e-13)

# (log(1 + f) - f + f**2 / 2) / f**3 on sqrt(1/2) - 1 <= f <= sqrt(2) - 1 (Remez), degree 8,
# error 2**-29.7 against f**2 + 0.01.
_LOG_FLOAT32 = (
    3.3333322e-01,
    -2.4999985e-01,
    2.0001553e-01,
    -1.666894e-01,
    1.4230457e-01,
    -1.2395007e-01,
    1.1803454e-01,
    -1.17083475e-01,
    6.967157e-02,
)

# (log((1 + s) / (1 - s)) / s - 2) / s**2 in z = s**2 for |s| <= (sqrt(2) - 1) / (sqrt(2) + 1)
# (Remez). Degree 6, error 2**-58.1 against z + 0.001; medium: degree 3, 2**-36.4.
_LOG_FLOAT64 = (
    0.6666666666666698,
    0.39999999999614877,
    0.285714287030673,
    0.22222202233142258,
    0.18183388748855728,
    0.15318248393825803,
    0.14756338420709375,
)
_LOG_MEDIUM = (
    0.6666666583672156,
    0.4000030097215416,
    0.28539144187913573,
    0.23551595188431843,
)


def split(x: Value) -> tuple[Value, Value]:
    """(k, m) with x = 2**k * m, m in [sqrt(1/2), sqrt(2)), for x positive, normal and finite."""
    kind = x.kind
    shifted = bits(x) + _CENTRE[kind]
    biased = shift_right_logical(shifted, _MANTISSA[kind])
    m = real(bits(x) - (biased << _MANTISSA[kind]) + _ONE[kind])
    return whole(biased) - float(_BIAS[kind]), m


def whole(x: Value) -> Value:
    """The float of an integer in [0, 2**31): AVX2 has no vector conversion of 64-bit ones."""
    if x.kind.width == 32:
        return from_integer(x)
    return real(x | 0x4330000000000000) - 4503599627370496.0


def split_any(x: Value) -> tuple[Value, Value]:
    """split() for every positive finite x: subnormals are scaled up first."""
    small = x < _SMALLEST_NORMAL[x.kind]
    bits_more = _MANTISSA[x.kind]
    k, m = split(select(small, x * 2.0**bits_more, x))
    return select(small, k - float(bits_more), k), m


def with_borders(x: Value, y: Value) -> Value:
    """y = log(x) put right where x is zero (-inf), infinite, negative or NaN (NaN)."""
    y = select(x == math.inf, math.inf, y)
    y = select(x == 0.0, -math.inf, y)
    return select(x >= 0.0, y, math.nan)


def log_parts(f: Value) -> Value:
    """log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1], to be added to f at the very end."""
    square = f * f
    half = square * 0.5
    if f.kind == FLOAT32:
        return fma(square * f, polynomial(f, _LOG_FLOAT32), -half)
    # log(1 + f) = f - f**2 / 2 + s * (f**2 / 2 + R(s**2)), s = f / (2 + f): as in Sun's fdlibm,
    # where the one large rounding error, that of s, meets only a small factor.
    s = f / (f + 2.0)
    z = s * s
    return fma(s, fma(z, polynomial(z, _LOG_FLOAT64), half), -half)


def log1p_third(x: Value) -> Value:
    """log(1 + x) in float64 to 2**-50 relative, for 0 <= x <= 1."""
    s = x / (x + 2.0)
    z = s * s
    return s * fma(z, polynomial(z, _LOG_THIRD), 2.0)


def log1p_ratio(s: Value) -> Value:
    """log((1 + s) / (1 - s)) to 2**-41 relative, for |s| <= 0.1716."""
    z = s * s
    return s * fma(z, polynomial(z, _LOG_MEDIUM), 2.0)


def log2_medium(x: Value) -> Value:
    """log2(x) in float64 to 2**-40 relative, for every positive finite float32 x."""
    k, logarithm = _log_medium_parts(x)
    return fma(logarithm, LOG2_E, k)


def _log_medium_parts(x: Value) -> tuple[Value, Value]:
    """(k, log(m)) in float64 with x = 2**k * m, for a positive finite float32 x."""
    # Split in float32, where a vector holds twice as many.
    k, m = split_any(x)
    f = to_float64(m - 1.0)
    return to_float64(k), log1p_ratio(f / (f + 2.0))


def _log_scaled(k: Value, f: Value) -> Value:
    """log(2**k * (1 + f))."""
    tail = fma(k, LN2_LOW[f.kind], log_parts(f))
    return fma(k, LN2_HIGH[f.kind], f + tail)


def log_finite(x: Value) -> Value:
    """log(x) for every positive finite x."""
    k, m = split_any(x)
    return _log_scaled(k, m - 1.0)


@device(FLOAT32)
def log_float32(x: Value) -> Value:
    """The natural logarithm."""
    return with_borders(x, log_finite(x))


@device(FLOAT64)
def log_float64(x: Value) -> Value:
    """The natural logarithm."""
    return with_borders(x, log_finite(x))


def _log_base(x: Value, base: Base) -> Value:
    """The logarithm of x to another base, from log(1 + f) = f + w with the product split in two."""
    k, m = split_any(x)
    f = m - 1.0
    high = f * base.factor
    low = fma(f, base.factor, -high) + f * base.factor_low
    low = fma(log_parts(f), base.factor, low)
    whole_part = k * base.unit
    total = whole_part + high
    # What the sum lost is exact: either k is 0 or its term is the larger one.
    low = low + ((whole_part - total) + high)
    return with_borders(x, total + fma(k, base.unit_low, low))


@device(FLOAT32)
def log2_float32(x: Value) -> Value:
    """The logarithm to base 2."""
    return _log_base(x, _BASE2[FLOAT32])


@device(FLOAT64)
def log2_float64(x: Value) -> Value:
    """The logarithm to base 2."""
    return _log_base(x, _BASE2[FLOAT64])


@device(FLOAT32)
def log2_float16(x: Value) -> Value:
    """The logarithm to base 2 for a result that is rounded to float16."""
    return with_borders(x, log_finite(x) * LOG2_E)


@device(FLOAT32)
def log10_float16(x: Value) -> Value:
    """The logarithm to base 10 for a result that is rounded to float16."""
    return with_borders(x, log_finite(x) * LOG10_E)


@device(FLOAT32)
def log10_float32(x: Value) -> Value:
    """The logarithm to base 10."""
    k, logarithm = _log_medium_parts(x)
    return with_borders(x, to_float32(fma(logarithm, LOG10_E, k * LOG10_2)))


@device(FLOAT64)
def log10_float64(x: Value) -> Value:
    """The logarithm to base 10."""
    return _log_base(x, _BASE10)


def log1p_any(x: Value) -> Value:
    """log(1 + x) for finite x > -1."""
    kind = x.kind
    mantissa, one = _MANTISSA[kind], _ONE[kind]
    total = x + 1.0
    biased = shift_right_logical(bits(total) + _CENTRE[kind], mantissa)
    exponent = biased << mantissa
    # 1 + f = (1 + x) * 2**-k exactly but for one rounding: what 1 + x lost comes back in the fma.
    inverse = real(2 * one - exponent)
    f = fma(x, inverse, inverse - 1.0)
    # Beyond, 1 + x has lost nothing that counts, and 2**-k would leave the normal numbers.
    f = select(x > 2.0 ** (mantissa + 3), real(bits(total) - exponent + one) - 1.0, f)
    return copysign(_log_scaled(whole(biased) - float(_BIAS[kind]), f), x)


def _log1p(x: Value) -> Value:
    y = select(x == math.inf, math.inf, log1p_any(x))
    y = select(x == -1.0, -math.inf, y)
    return select(x >= -1.0, y, math.nan)


@device(FLOAT32)
def log1p_float32(x: Value) -> Value:
    """log(1 + x)."""
    return _log1p(x)


@device(FLOAT64)
def log1p_float64(x: Value) -> Value:
    """log(1 + x)."""
    return _log1p(x)
