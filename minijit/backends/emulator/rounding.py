"""Exact rounding of whole arrays: fma with one rounding, and the four rounding modes.

A sum or a product is kept as its rounded value and what the rounding lost, both floats.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from minijit.backends.emulator.exact import exact_fma
from minijit.backends.emulator.operation import Array

__all__ = ["add", "divide", "fma32", "fma64", "multiply", "narrow", "root", "two_sum"]

_SPLIT = 2.0**27 + 1
_TIE_BITS = np.uint32(0x1FFFFFFF)
_TIE = np.uint32(0x10000000)
_SMALLEST_NORMAL = np.float32(2.0**-126)


def _lost(a: Array, b: Array, total: Array) -> Array:
    """``a + b - total`` exactly (Knuth's TwoSum)."""
    part = total - a
    return np.asarray((a - (total - part)) + (b - part))


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """``a + b`` rounded, and what the rounding lost; nothing where the sum is not finite."""
    total = np.asarray(a + b)
    return total, _finite(_lost(a, b, total))


def _step(value: Array, lost: Array, mode: str) -> Array:
    """Correct a nearest rounding, which lost ``lost`` or something of its sign, to ``mode``."""
    infinity = value.dtype.type(np.inf)
    up, down = lost > 0, lost < 0
    if mode == "rz":
        up, down = up & (value < 0), down & (value > 0)
    if mode != "rm":
        value = np.where(up, np.nextafter(value, infinity), value)
    if mode != "rp":
        value = np.where(down, np.nextafter(value, -infinity), value)
    return np.asarray(value)


def _inwards(result: Array, finite: Array, mode: str) -> Array:
    """Replace an overflow where ``mode`` points away from that infinity."""
    made = np.isinf(result) & finite
    if mode != "rn" and made.any():
        stays = {"rz": made, "rm": result > 0, "rp": result < 0}[mode]
        limit = np.copysign(np.finfo(result.dtype).max, result)
        return np.where(made & stays, limit, result)
    return result


def _zero_sign(result: Array, a: Array, b: Array, mode: str) -> Array:
    """The sum of numbers that cancel is -0 where rounding goes down."""
    if mode == "rm":
        opposite = np.signbit(a) != np.signbit(b)
        return np.where((result == 0) & (a == -b) & opposite, result.dtype.type(-0.0), result)
    return result


def _odd(value: Array, lost: Array) -> Array:
    """``value + lost`` rounded to odd: what is inexact gets an odd last bit.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
    rounding to odd" (2008).
    """
    even = np.ascontiguousarray(value).view(np.uint64) & np.uint64(1) == 0
    inexact = (lost != 0) & np.isfinite(value) & even
    return np.where(inexact, np.nextafter(value, np.where(lost > 0, np.inf, -np.inf)), value)


def narrow(value: Array, lost: Array, mode: str, kind: Any = np.float32) -> Array:
    """``value + lost`` (float64, ``lost`` below half a step) rounded once to a narrower float."""
    value = _odd(value, lost)
    result = value.astype(kind)
    if mode == "rn":
        return result
    finite = np.isfinite(value)
    over = np.isinf(result) & finite
    stepped = _step(result, np.where(over | ~finite, 0, value - result), mode)
    return _inwards(stepped, finite, mode)


def fma32(a: Array, b: Array, c: Array, mode: str) -> Array:
    """``a * b + c`` of float32, rounded once."""
    product = a.astype(np.float64) * b
    total = product + c
    if mode != "rn":
        wide = c.astype(np.float64)
        result = narrow(total, _finite(_lost(product, wide, total)), mode)
        return _zero_sign(result, product, wide, mode)
    result = total.astype(np.float32)
    # Rounding twice goes wrong only from halfway between two float32, or among subnormals.
    doubtful = (total.view(np.uint32)[::2] & _TIE_BITS) == _TIE
    doubtful |= np.abs(result) <= _SMALLEST_NORMAL
    if doubtful.any():
        product, addend = (np.broadcast_to(x, total.shape)[doubtful] for x in (product, c))
        lost = _finite(_lost(product, addend.astype(np.float64), total[doubtful]))
        result[doubtful] = narrow(total[doubtful], lost, mode)
    return result


def _finite(x: Array) -> Array:
    return np.where(np.isfinite(x), x, 0)


def _split_product(a: Array, b: Array) -> tuple[Array, Array]:
    """``a * b`` as a rounded product and what it lost (Dekker)."""
    product = a * b
    x, y = _SPLIT * a, _SPLIT * b
    a1, b1 = x - (x - a), y - (y - b)
    a2, b2 = a - a1, b - b1
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


def _exponent(x: Array) -> Array:
    bits = np.ascontiguousarray(x).view(np.uint64) >> np.uint64(52) & np.uint64(0x7FF)
    return bits.astype(np.int64) - 1023


def fma64(a: Array, b: Array, c: Array, mode: str) -> Array:
    """``a * b + c`` of float64, rounded once (algorithm of Boldo and Melquiond, see ``_odd``)."""
    a, b, c = np.broadcast_arrays(a, b, c)
    high, low = _split_product(a, b)
    upper = c + low
    lower = _lost(c, low, upper)
    first = high + upper
    rest = _lost(high, upper, first)
    tail = rest + lower
    tail = _odd(tail, _lost(rest, lower, tail))
    result = np.asarray(first + tail)
    if mode != "rn":
        result = _step(result, _lost(first, tail, result), mode)
        if mode == "rm":
            # Zero is exact here, the sum of opposite numbers.
            result = np.where(result == 0, -0.0, result)
    # That needs room for the parts; elsewhere (infinities, zeros, extremes) exact fractions do it.
    x, y, z = _exponent(a), _exponent(b), _exponent(c)
    good = (np.maximum(x, y) < 990) & (np.minimum(x, y) > -990) & (np.abs(x + y) < 900)
    good &= (np.abs(z) < 900) | ((c == 0) & (mode == "rn") & (high != 0))
    if not good.all():
        for place in np.nonzero(~good)[0]:
            result[place] = exact_fma(float(a[place]), float(b[place]), float(c[place]), mode)
    return result


def add(a: Array, b: Array, mode: str) -> Array:
    """``a + b`` of float32 or float64."""
    total = np.asarray(a + b)
    if mode == "rn":
        return total
    finite = np.isfinite(a) & np.isfinite(b)
    stepped = _step(total, _finite(_lost(a, b, total)), mode)
    return _zero_sign(_inwards(stepped, finite, mode), a, b, mode)


def multiply(a: Array, b: Array, mode: str) -> Array:
    """``a * b`` of float32 or float64."""
    product = np.asarray(a * b)
    if mode == "rn":
        return product
    fma = fma32 if a.dtype == np.float32 else fma64
    # Adding a zero of the product's sign keeps the sign of a zero.
    return fma(a, b, np.copysign(a.dtype.type(0), product), mode)


def divide(a: Array, b: Array, mode: str) -> Array:
    """``a / b`` of float32 or float64."""
    nearest = np.asarray(a / b)
    if mode == "rn":
        return nearest
    finite = np.isfinite(a) & np.isfinite(b) & (b != 0)
    left = _remainder(a, nearest, b)
    lost = np.where(finite & np.isfinite(nearest), np.copysign(left, left * np.sign(b)), 0)
    return _inwards(_step(nearest, lost, mode), finite, mode)


def root(a: Array, mode: str) -> Array:
    """The square root of float32 or float64."""
    nearest = np.asarray(np.sqrt(a))
    if mode == "rn":
        return nearest
    left = _remainder(a, nearest, nearest)
    return _step(nearest, np.where(np.isfinite(nearest), left, 0), mode)


def _remainder(a: Array, x: Array, y: Array) -> Array:
    """``a - x * y`` in float64, with the right sign."""
    if a.dtype == np.float32:
        return np.asarray(a - x.astype(np.float64) * y)
    left = fma64(-x, y, a, "rn")
    # What is left of the smallest numbers is too small for a float, and still has a sign.
    for place in np.nonzero((np.abs(a) < 2.0**-900) & np.isfinite(x) & np.isfinite(y))[0]:
        p, q, r = (Fraction(float(v[place])) for v in np.broadcast_arrays(a, x, y))
        left[place] = float((p > q * r) - (p < q * r))
    return left
