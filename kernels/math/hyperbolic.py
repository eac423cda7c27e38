"""tanh, sinh, cosh, their inverses, and sigmoid, from the cores of exp, expm1 and log1p."""

from __future__ import annotations

import math

from minijit.kernels.math.device import device
from minijit.kernels.math.exponential import (
    exp_for_float16,
    exp_nonpositive,
    expm1_reduced,
    power_of_two,
    reduce_by_ln2,
)
from minijit.kernels.math.intrinsics import absolute, copysign, fma, select, sqrt
from minijit.kernels.math.logarithm import log1p_any
from minijit.kernels.math.polynomial import polynomial
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value

# (sinh(x) / x - 1) / z in z = x**2 for |x| <= 1 (Remez).
# float32: degree 3, error 2**-34 against z + 0.01; float64: degree 6, 2**-63.1.
_SINH = {
    FLOAT32: (1.6666667e-01, 8.3333505e-03, 1.983615e-04, 2.8170346e-06),
    FLOAT64: (
        0.16666666666666669,
        0.00833333333333316,
        0.00019841269841425568,
        2.7557319158602526e-06,
        2.5052122942564345e-08,
        1.6057272172519845e-10,
        7.75843341538346e-13,
    ),
}

# Beyond, 2**28 + 1 and the like are 2**28 as far as the logarithm can tell.
_LARGE = 2.0**28


def _tanh(x: Value, limit: float) -> Value:
    size = absolute(x)
    rounded, r = reduce_by_ln2(select(size > limit, limit, size) * 2.0)
    power = power_of_two(rounded)
    expm1 = fma(power, expm1_reduced(r), power - 1.0)
    return copysign(expm1 / (expm1 + 2.0), x)


@device(FLOAT32)
def tanh_float32(x: Value) -> Value:
    """The hyperbolic tangent."""
    return _tanh(x, 10.0)


@device(FLOAT64)
def tanh_float64(x: Value) -> Value:
    """The hyperbolic tangent."""
    return _tanh(x, 20.0)


def _sigmoid(x: Value, e: Value) -> Value:
    """1 / (1 + exp(-x)), for negative x as exp(x) / (1 + exp(x)), where `e` is exp(-|x|)."""
    return select(x >= 0.0, 1.0, e) / (e + 1.0)


@device(FLOAT32)
def sigmoid_float32(x: Value) -> Value:
    """1 / (1 + exp(-x))."""
    return _sigmoid(x, exp_nonpositive(-absolute(x)))


@device(FLOAT32)
def sigmoid_float16(x: Value) -> Value:
    """1 / (1 + exp(-x)) for a result that is rounded to float16."""
    return _sigmoid(x, exp_for_float16(-absolute(x)))


@device(FLOAT64)
def sigmoid_float64(x: Value) -> Value:
    """1 / (1 + exp(-x))."""
    return _sigmoid(x, exp_nonpositive(-absolute(x)))


def _quarter_exp(size: Value) -> Value:
    """exp(size) / 4, which does not overflow where sinh and cosh do not."""
    rounded, r = reduce_by_ln2(size, -2)
    return (expm1_reduced(r) + 1.0) * power_of_two(rounded)


def _sinh(x: Value, limit: float) -> Value:
    size = absolute(x)
    quarter = _quarter_exp(select(size > limit, limit, size))
    z = x * x
    near = fma(size * z, polynomial(z, _SINH[x.kind]), size)
    return copysign(select(size <= 1.0, near, (quarter - 0.0625 / quarter) * 2.0), x)


def _cosh(x: Value, limit: float) -> Value:
    size = absolute(x)
    quarter = _quarter_exp(select(size > limit, limit, size))
    return (quarter + 0.0625 / quarter) * 2.0


@device(FLOAT32)
def sinh_float32(x: Value) -> Value:
    """The hyperbolic sine."""
    return _sinh(x, 89.5)


@device(FLOAT64)
def sinh_float64(x: Value) -> Value:
    """The hyperbolic sine."""
    return _sinh(x, 710.5)


@device(FLOAT32)
def cosh_float32(x: Value) -> Value:
    """The hyperbolic cosine."""
    return _cosh(x, 89.5)


@device(FLOAT64)
def cosh_float64(x: Value) -> Value:
    """The hyperbolic cosine."""
    return _cosh(x, 710.5)


def _log1p_or_double(large: Value, size: Value, near: Value) -> Value:
    """log1p(near), or log(2 * size) where `large`; infinity where size is."""
    y = log1p_any(select(large, size - 1.0, near))
    y = select(large, y + math.log(2.0), y)
    return select(size == math.inf, math.inf, y)


def _arcsinh(x: Value) -> Value:
    size = absolute(x)
    square = size * size
    near = size + square / (sqrt(square + 1.0) + 1.0)
    y = copysign(_log1p_or_double(size > _LARGE, size, near), x)
    return select(x == x, y, x)


def _arccosh(x: Value) -> Value:
    above = x - 1.0
    near = above + sqrt(fma(above, above, above * 2.0))
    y = _log1p_or_double(x > _LARGE, x, near)
    return select(x >= 1.0, y, math.nan)


def _arctanh(x: Value) -> Value:
    size = absolute(x)
    twice = size * 2.0
    ratio = select(size < 0.5, twice * size, twice) / (1.0 - size)
    y = log1p_any(select(size < 0.5, twice + ratio, ratio)) * 0.5
    y = select(size == 1.0, math.inf, y)
    # Halving would round a subnormal; x + x**3 / 3 is x as well.
    y = select(size < 1e-10, size, y)
    return copysign(select(size <= 1.0, y, math.nan), x)


@device(FLOAT32)
def arcsinh_float32(x: Value) -> Value:
    """The inverse hyperbolic sine."""
    return _arcsinh(x)


@device(FLOAT64)
def arcsinh_float64(x: Value) -> Value:
    """The inverse hyperbolic sine."""
    return _arcsinh(x)


@device(FLOAT32)
def arccosh_float32(x: Value) -> Value:
    """The inverse hyperbolic cosine, NaN below 1."""
    return _arccosh(x)


@device(FLOAT64)
def arccosh_float64(x: Value) -> Value:
    """The inverse hyperbolic cosine, NaN below 1."""
    return _arccosh(x)


@device(FLOAT32)
def arctanh_float32(x: Value) -> Value:
    """The inverse hyperbolic tangent, NaN beyond 1."""
    return _arctanh(x)


@device(FLOAT64)
def arctanh_float64(x: Value) -> Value:
    """The inverse hyperbolic tangent, NaN beyond 1."""
    return _arctanh(x)
