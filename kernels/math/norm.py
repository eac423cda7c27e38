"""hypot, logaddexp and logaddexp2: functions of two arguments that the larger one dominates."""

from __future__ import annotations

import math

from minijit.kernels.math.device import device
from minijit.kernels.math.exponential import LOG2_E, clamp, exp2_medium, exp_nonpositive
from minijit.kernels.math.intrinsics import absolute, fma, select, sqrt, to_float32, to_float64
from minijit.kernels.math.logarithm import log1p_any, log1p_third
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value


def _larger(x: Value, y: Value) -> tuple[Value, Value]:
    """(larger, smaller); NaN in either place makes one of them NaN."""
    swap = y > x
    return select(swap, y, x), select(swap, x, y)


@device(FLOAT32)
def hypot_float32(x: Value, y: Value) -> Value:
    """sqrt(x * x + y * y) without overflow on the way."""
    a, b = to_float64(x), to_float64(y)
    return _hypot_borders(x, y, to_float32(sqrt(fma(a, a, b * b))))


@device(FLOAT64)
def hypot_float64(x: Value, y: Value) -> Value:
    """sqrt(x * x + y * y) without overflow on the way."""
    larger, smaller = _larger(absolute(x), absolute(y))
    # Powers of two, so that no square overflows and none that counts underflows.
    scale = select(larger > 2.0**500, 2.0**-600, larger.of(1.0))
    scale = select(larger < 2.0**-400, 2.0**600, scale)
    back = select(larger > 2.0**500, 2.0**600, larger.of(1.0))
    back = select(larger < 2.0**-400, 2.0**-600, back)
    a, b = larger * scale, smaller * scale
    return _hypot_borders(x, y, sqrt(fma(a, a, b * b)) * back)


def _hypot_borders(x: Value, y: Value, result: Value) -> Value:
    """C99: infinite if either side is, even next to NaN."""
    return select((absolute(x) == math.inf) | (absolute(y) == math.inf), math.inf, result)


def _gap(larger: Value, smaller: Value) -> Value:
    """smaller - larger, 0 for two infinities of one sign."""
    return select(larger == smaller, 0.0, smaller - larger)


def _logaddexp_for_float32(x: Value, y: Value, unit: float) -> tuple[Value, Value]:
    """(larger, log(1 + b ** (smaller - larger))) in float64, where unit = log2(b)."""
    larger, smaller = _larger(to_float64(x), to_float64(y))
    e = exp2_medium(clamp(_gap(larger, smaller) * unit, -400.0, 0.0))
    return larger, log1p_third(e)


def _plus_log2(equal: Value, larger: Value, more: Value) -> Value:
    """larger + more / log(2); of two equal arguments exactly one more, as in NumPy."""
    return select(equal, larger + 1.0, fma(more, LOG2_E, larger))


@device(FLOAT32)
def logaddexp_float32(x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y))."""
    larger, more = _logaddexp_for_float32(x, y, LOG2_E)
    return to_float32(larger + more)


@device(FLOAT32)
def logaddexp2_float32(x: Value, y: Value) -> Value:
    """log2(2 ** x + 2 ** y)."""
    larger, more = _logaddexp_for_float32(x, y, 1.0)
    return to_float32(_plus_log2(x == y, larger, more))


@device(FLOAT64)
def logaddexp_float64(x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y)); where the sum cancels, 3 ulp of the larger argument."""
    larger, smaller = _larger(x, y)
    return larger + log1p_any(exp_nonpositive(_gap(larger, smaller)))


@device(FLOAT64)
def logaddexp2_float64(x: Value, y: Value) -> Value:
    """log2(2 ** x + 2 ** y); where the sum cancels, 3 ulp of the larger argument."""
    larger, smaller = _larger(x, y)
    more = log1p_any(exp_nonpositive(_gap(larger, smaller) * math.log(2.0)))
    return _plus_log2(larger == smaller, larger, more)
