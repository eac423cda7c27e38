"""sin, cos and tan of any finite angle; infinity gives NaN."""

from __future__ import annotations

from minijit.kernels.math.device import device
from minijit.kernels.math.intrinsics import fma, select, to_float32
from minijit.kernels.math.polynomial import polynomial
from minijit.kernels.math.reduction import reduce_float32, reduce_float64
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value

# (sin(r) / r - 1) / z in z = r**2 for |r| <= pi / 4 * 1.0005 (Remez).
# For float32 degree 2, error 2**-27.9 against z + 0.01; for float64 degree 5, 2**-57.8.
_SIN_FOR_FLOAT32 = (-0.16666655478895162, 0.008332201296387324, -0.0001951964236103693)
_SIN = (
    -0.16666666666666638,
    0.008333333333323688,
    -0.00019841269830628814,
    2.75573139309077e-06,
    -2.5050790385664364e-08,
    1.5898439869226288e-10,
)
# ((cos(r) - 1) / z + 1 / 2) / z, likewise.
# For float32 degree 2, error 2**-32.7 against z**2 + 0.01; for float64 degree 5, 2**-63.1.
_COS_FOR_FLOAT32 = (0.04166665224290298, -0.0013887588773778589, 2.446043624723585e-05)
_COS = (
    0.04166666666666666,
    -0.0013888888888883312,
    2.4801587294818034e-05,
    -2.7557315793152294e-07,
    2.0875907262197544e-09,
    -1.136863854688918e-11,
)


def _sin_cos_for_float32(angle: Value) -> tuple[Value, Value]:
    """sin and cos of a reduced angle, in float32 or float64 as the angle is."""
    z = angle * angle
    # Multiplied last, so that a zero keeps its sign.
    sine = angle * fma(z, polynomial(z, _SIN_FOR_FLOAT32), 1.0)
    cosine = fma(z, fma(z, polynomial(z, _COS_FOR_FLOAT32), -0.5), 1.0)
    return sine, cosine


def _sin_cos(angle: Value, low: Value) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """sin and cos of angle + low, each as (high, low): the way of Sun's fdlibm."""
    z = angle * angle
    half = z * 0.5
    sine_tail = fma(angle * z, polynomial(z, _SIN), fma(low, -half, low))
    near = 1.0 - half
    cosine_tail = fma(z * z, polynomial(z, _COS), fma(angle, -low, (1.0 - near) - half))
    return (angle, sine_tail), (near, cosine_tail)


def _by_quadrant(quadrant: Value, even: Value, odd: Value) -> Value:
    """even, odd, -even, -odd for quadrant 0, 1, 2, 3."""
    value = select((quadrant & 1) == 0, even, odd)
    return select((quadrant & 2) == 0, value, -value)


@device(FLOAT32)
def sin_float32(x: Value) -> Value:
    """The sine of x in radians."""
    quadrant, angle = reduce_float32(x)
    sine, cosine = _sin_cos_for_float32(angle)
    return to_float32(_by_quadrant(quadrant, sine, cosine))


@device(FLOAT32)
def cos_float32(x: Value) -> Value:
    """The cosine of x in radians."""
    quadrant, angle = reduce_float32(x)
    sine, cosine = _sin_cos_for_float32(angle)
    return to_float32(_by_quadrant(quadrant + 1, sine, cosine))


@device(FLOAT32)
def tan_float32(x: Value) -> Value:
    """The tangent of x in radians."""
    quadrant, angle = reduce_float32(x)
    sine, cosine = _sin_cos_for_float32(angle)
    even = (quadrant & 1) == 0
    return to_float32(select(even, sine, -cosine) / select(even, cosine, sine))


@device(FLOAT64)
def sin_float64(x: Value) -> Value:
    """The sine of x in radians."""
    quadrant, angle, low = reduce_float64(x)
    sine, cosine = _sin_cos(angle, low)
    return select(x == 0.0, x, _by_quadrant(quadrant, sine[0] + sine[1], cosine[0] + cosine[1]))


@device(FLOAT64)
def cos_float64(x: Value) -> Value:
    """The cosine of x in radians."""
    quadrant, angle, low = reduce_float64(x)
    sine, cosine = _sin_cos(angle, low)
    return _by_quadrant(quadrant + 1, sine[0] + sine[1], cosine[0] + cosine[1])


@device(FLOAT64)
def tan_float64(x: Value) -> Value:
    """The tangent of x in radians."""
    quadrant, angle, low = reduce_float64(x)
    sine, cosine = _sin_cos(angle, low)
    even = (quadrant & 1) == 0
    over = [select(even, s, -c) for s, c in zip(sine, cosine, strict=True)]
    under = [select(even, c, s) for s, c in zip(sine, cosine, strict=True)]
    # Quotient of two sums (high, low), corrected by what the first quotient leaves over.
    top = over[0] + over[1]
    top_low = (over[0] - top) + over[1]
    bottom = under[0] + under[1]
    bottom_low = (under[0] - bottom) + under[1]
    inverse = 1.0 / bottom
    quotient = top * inverse
    rest = fma(quotient, -bottom, top) + fma(quotient, -bottom_low, top_low)
    return select(x == 0.0, x, fma(rest, inverse, quotient))
