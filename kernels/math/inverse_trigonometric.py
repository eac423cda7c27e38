"""arcsin, arccos, arctan and arctan2."""

from __future__ import annotations

import math

from minijit.kernels.math.device import device
from minijit.kernels.math.intrinsics import absolute, bits, copysign, fma, select, sqrt
from minijit.kernels.math.polynomial import polynomial
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value

# pi / 2 as a sum of two numbers of the type.
_HALF_PI = {
    FLOAT32: (1.5707963705062866, -4.371138828673793e-08),
    FLOAT64: (1.5707963267948966, 6.123233995736766e-17),
}

# (arcsin(s) / s - 1) / z in z = s**2 for |s| <= 0.5 (Remez).
# float32: degree 5, error 2**-31.4 against z + 0.01; float64: degree 11, 2**-55.4.
_ARCSIN = {
    FLOAT32: (
        1.6666663e-01,
        7.5003594e-02,
        4.4540606e-02,
        3.1633705e-02,
        1.5031758e-02,
        3.6753923e-02,
    ),
    FLOAT64: (
        0.16666666666666458,
        0.07500000000122169,
        0.04464285698524097,
        0.03038195331882314,
        0.022371885059124443,
        0.017357943742755483,
        0.01390135735508305,
        0.012070443598677724,
        0.006928816485867929,
        0.018493869622147437,
        -0.014687187925676004,
        0.03091090901334576,
    ),
}

# (arctan(t) / t - 1) / z in z = t**2 (Remez), for |t| <= 1 in float32: degree 8, error 2**-28.5
# against z + 0.01; for |t| <= tan(pi / 8) in float64: degree 11, 2**-63.6.
_ARCTAN = {
    FLOAT32: (
        -3.333331e-01,
        1.999888e-01,
        -1.4267598e-01,
        1.0969062e-01,
        -8.451179e-02,
        5.8752656e-02,
        -3.1951793e-02,
        1.1321811e-02,
        -1.883062e-03,
    ),
    FLOAT64: (
        -0.3333333333333333,
        0.19999999999999274,
        -0.14285714285565293,
        0.11111111098036437,
        -0.0909090846546424,
        0.07692289368546636,
        -0.066663163844106,
        0.058778332769922864,
        -0.0522326306375443,
        0.04522021230271634,
        -0.03387837434278587,
        0.015582011487874456,
    ),
}
_TAN_PI_8 = 0.41421356237309503


def _arcsin_core(x: Value) -> tuple[Value, Value, Value]:
    """(outer, s, tail): arcsin(|x|) or, with `outer`, where |x| > 1/2, arccos(|x|) / 2 is s + tail.

    arccos(x) = 2 * arcsin(sqrt((1 - x) / 2)); beyond 1 the root is NaN.
    """
    size = absolute(x)
    outer = size > 0.5
    z = select(outer, fma(size, -0.5, 0.5), x * x)
    root = sqrt(z)
    s = select(outer, root, size)
    tail = s * z * polynomial(z, _ARCSIN[x.kind])
    # What the root lost, to first order; at zero there is nothing, and 0 / 0.
    lost = fma(root, -root, z) / (root + root)
    return outer, s, tail + select(outer & (z > 0.0), lost, 0.0)


def _arcsin(x: Value) -> Value:
    high, low = _HALF_PI[x.kind]
    outer, s, tail = _arcsin_core(x)
    y = select(outer, high - ((s + tail) * 2.0 - low), s + tail)
    return copysign(y, x)


def _arccos(x: Value) -> Value:
    high, low = _HALF_PI[x.kind]
    outer, s, tail = _arcsin_core(x)
    positive = x > 0.0
    twice = (s + tail) * 2.0
    far = select(positive, twice, high * 2.0 - (twice - low * 2.0))
    near = high - (copysign(s, x) - (low - copysign(tail, x)))
    return select(outer, far, near)


@device(FLOAT32)
def arcsin_float32(x: Value) -> Value:
    """The inverse sine, NaN beyond 1."""
    return _arcsin(x)


@device(FLOAT64)
def arcsin_float64(x: Value) -> Value:
    """The inverse sine, NaN beyond 1."""
    return _arcsin(x)


@device(FLOAT32)
def arccos_float32(x: Value) -> Value:
    """The inverse cosine, NaN beyond 1."""
    return _arccos(x)


@device(FLOAT64)
def arccos_float64(x: Value) -> Value:
    """The inverse cosine, NaN beyond 1."""
    return _arccos(x)


def _arctan_ratio(over: Value, under: Value) -> Value:
    """arctan(over / under) for 0 <= over <= under."""
    high, low = _HALF_PI[over.kind]
    if over.kind == FLOAT32:
        t = over / under
        z = t * t
        return fma(t * z, polynomial(z, _ARCTAN[FLOAT32]), t)
    # arctan(v) = pi / 4 + arctan((v - 1) / (v + 1)).
    outer = over > under * _TAN_PI_8
    t = select(outer, over - under, over) / select(outer, over + under, under)
    z = t * t
    tail = t * z * polynomial(z, _ARCTAN[FLOAT64])
    base = select(outer, t.of(high * 0.5), 0.0)
    return base + (t + (tail + select(outer, t.of(low * 0.5), 0.0)))


def _arctan(x: Value) -> Value:
    high, low = _HALF_PI[x.kind]
    size = absolute(x)
    steep = size > 1.0
    y = _arctan_ratio(select(steep, 1.0, size), select(steep, size, 1.0))
    return copysign(select(steep, high - (y - low), y), x)


def _arctan2(y: Value, x: Value) -> Value:
    high, low = _HALF_PI[x.kind]
    x_size, y_size = absolute(x), absolute(y)
    steep = y_size > x_size
    over = select(steep, x_size, y_size)
    under = select(steep, y_size, x_size)
    # inf / inf counts as 1, 0 / 0 as 0.
    both_infinite = (over == math.inf) & (under == math.inf)
    both_zero = (over == 0.0) & (under == 0.0)
    over = select(both_infinite, 1.0, over)
    under = select(both_infinite | both_zero, 1.0, under)
    if x.kind == FLOAT64:
        # over + under must not overflow, and the choice of piece not round a subnormal.
        factor = select(under > 1e300, 0.25, under.of(1.0))
        factor = select(under < 1e-290, 2.0**100, factor)
        over, under = over * factor, under * factor
    angle = _arctan_ratio(over, under)
    angle = select(steep, high - (angle - low), angle)
    angle = select(bits(x) < 0, high * 2.0 - (angle - low * 2.0), angle)
    return copysign(angle, y)


@device(FLOAT32)
def arctan_float32(x: Value) -> Value:
    """The inverse tangent."""
    return _arctan(x)


@device(FLOAT64)
def arctan_float64(x: Value) -> Value:
    """The inverse tangent."""
    return _arctan(x)


@device(FLOAT32)
def arctan2_float32(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), signed zeros and infinities as in C99."""
    return _arctan2(y, x)


@device(FLOAT64)
def arctan2_float64(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), signed zeros and infinities as in C99."""
    return _arctan2(y, x)
