"""sin, cos and tan of any finite angle; infinity gives NaN."""

from __future__ import annotations

from collections.abc import Callable

from minijit.kernels.math.branch import unless_rare
from minijit.kernels.math.device import device
from minijit.kernels.math.intrinsics import absolute, fma, select
from minijit.kernels.math.polynomial import polynomial
from minijit.kernels.math.reduction import NEAR, reduce_far, reduce_near
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value

# (sin(r) / r - 1) / z in z = r**2 for |r| <= pi / 4 * 1.0005 (Remez).
# For float32 degree 2, error 2**-27.9 against z + 0.01; for float64 degree 5, 2**-57.8.
_SIN = {
    FLOAT32: (-0.16666655478895162, 0.008332201296387324, -0.0001951964236103693),
    FLOAT64: (
        -0.16666666666666638,
        0.008333333333323688,
        -0.00019841269830628814,
        2.75573139309077e-06,
        -2.5050790385664364e-08,
        1.5898439869226288e-10,
    ),
}
# ((cos(r) - 1) / z + 1 / 2) / z, likewise.
# For float32 degree 2, error 2**-32.7 against z**2 + 0.01; for float64 degree 5, 2**-63.1.
_COS = {
    FLOAT32: (0.04166665224290298, -0.0013887588773778589, 2.446043624723585e-05),
    FLOAT64: (
        0.04166666666666666,
        -0.0013888888888883312,
        2.4801587294818034e-05,
        -2.7557315793152294e-07,
        2.0875907262197544e-09,
        -1.136863854688918e-11,
    ),
}
# (sin(r) / r - 1) / z and (cos(r) - 1) / z for results that are rounded to float16: degree
# 1, error 2**-19.1, and degree 2, 2**-24.8.
_SIN_FOR_FLOAT16 = (-0.16663407, 0.008163267)
_COS_FOR_FLOAT16 = (-0.49999893, 0.04165613, -0.0013595504)

# A sum whose second part is a rounding error of the first.
_Sum = tuple[Value, Value]


def _sin_cos(angle: Value, low: Value) -> tuple[_Sum, _Sum]:
    """sin and cos of angle + low: the way of Sun's fdlibm."""
    z = angle * angle
    half = z * 0.5
    sine_tail = fma(angle * z, polynomial(z, _SIN[z.kind]), fma(low, -half, low))
    near = 1.0 - half
    cosine_tail = fma(z * z, polynomial(z, _COS[z.kind]), fma(angle, -low, (1.0 - near) - half))
    return (angle, sine_tail), (near, cosine_tail)


def _by_quadrant(quadrant: Value, even: Value, odd: Value) -> Value:
    """even, odd, -even, -odd for quadrant 0, 1, 2, 3."""
    value = select((quadrant & 1) == 0, even, odd)
    return select((quadrant & 2) == 0, value, -value)


def _sin(x: Value, quadrant: Value, angle: Value, low: Value) -> Value:
    sine, cosine = _sin_cos(angle, low)
    return select(x == 0.0, x, _by_quadrant(quadrant, sine[0] + sine[1], cosine[0] + cosine[1]))


def _cos(x: Value, quadrant: Value, angle: Value, low: Value) -> Value:
    sine, cosine = _sin_cos(angle, low)
    return _by_quadrant(quadrant + 1, sine[0] + sine[1], cosine[0] + cosine[1])


def _tan(x: Value, quadrant: Value, angle: Value, low: Value) -> Value:
    sine, cosine = _sin_cos(angle, low)
    even = (quadrant & 1) == 0
    over = [select(even, s, -c) for s, c in zip(sine, cosine, strict=True)]
    under = [select(even, c, s) for s, c in zip(sine, cosine, strict=True)]
    # Quotient of two sums, corrected by what the first quotient leaves over.
    top = over[0] + over[1]
    top_low = (over[0] - top) + over[1]
    bottom = under[0] + under[1]
    bottom_low = (under[0] - bottom) + under[1]
    inverse = 1.0 / bottom
    quotient = top * inverse
    rest = fma(quotient, -bottom, top) + fma(quotient, -bottom_low, top_low)
    return select(x == 0.0, x, fma(rest, inverse, quotient))


def _sin_far(x: Value) -> Value:
    return _sin(x, *reduce_far(x))


def _cos_far(x: Value) -> Value:
    return _cos(x, *reduce_far(x))


def _tan_far(x: Value) -> Value:
    return _tan(x, *reduce_far(x))


def _of_any(x: Value, near: Callable[..., Value], far: Callable[[Value], Value]) -> Value:
    """Of an angle of any size: near(x, quadrant, angle, low), or far(x)."""
    return unless_rare(near(x, *reduce_near(x)), x, absolute(x) > NEAR[x.kind], far)


@device(FLOAT32)
def sin_float32(x: Value) -> Value:
    """The sine of x in radians."""
    return _of_any(x, _sin, _sin_far)


@device(FLOAT32)
def cos_float32(x: Value) -> Value:
    """The cosine of x in radians."""
    return _of_any(x, _cos, _cos_far)


@device(FLOAT32)
def tan_float32(x: Value) -> Value:
    """The tangent of x in radians."""
    return _of_any(x, _tan, _tan_far)


@device(FLOAT64)
def sin_float64(x: Value) -> Value:
    """The sine of x in radians."""
    return _of_any(x, _sin, _sin_far)


@device(FLOAT64)
def cos_float64(x: Value) -> Value:
    """The cosine of x in radians."""
    return _of_any(x, _cos, _cos_far)


@device(FLOAT64)
def tan_float64(x: Value) -> Value:
    """The tangent of x in radians."""
    return _of_any(x, _tan, _tan_far)


def _sin_cos_for_float16(x: Value) -> tuple[Value, Value, Value]:
    """(quadrant, sin, cos) of the reduced angle: no float16 is far off."""
    quadrant, angle, _ = reduce_near(x)
    z = angle * angle
    # Multiplied last, so that a zero keeps its sign.
    sine = angle * fma(z, polynomial(z, _SIN_FOR_FLOAT16), 1.0)
    return quadrant, sine, fma(z, polynomial(z, _COS_FOR_FLOAT16), 1.0)


@device(FLOAT32)
def sin_float16(x: Value) -> Value:
    """The sine of a float16 in radians, for a result that is rounded to float16."""
    return _by_quadrant(*_sin_cos_for_float16(x))


@device(FLOAT32)
def cos_float16(x: Value) -> Value:
    """The cosine of a float16 in radians, for a result that is rounded to float16."""
    quadrant, sine, cosine = _sin_cos_for_float16(x)
    return _by_quadrant(quadrant + 1, sine, cosine)


@device(FLOAT32)
def tan_float16(x: Value) -> Value:
    """The tangent of a float16 in radians, for a result that is rounded to float16."""
    quadrant, sine, cosine = _sin_cos_for_float16(x)
    even = (quadrant & 1) == 0
    return select(even, sine, -cosine) / select(even, cosine, sine)
