"""Division that rounds.

Floor_divide, remainder, fmod, gcd and lcm, with NumPy's signs and zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.ops.define import elementwise, typed
from minijit.ops.unary import trunc

__all__ = ["floor_divide", "fmod", "gcd", "lcm", "remainder"]

Code = Callable[..., Any]
_FMOD, _REMAINDER, _QUOTIENT = range(3)


def _float_division(dtype: np.dtype[Any], part: int) -> Code:
    """Return one of the three divisions of floats, as NumPy's ``npy_divmod`` defines them.

    The truncated remainder is found by subtracting the divisor times powers of two, each step
    exact: neither target has a remainder that the other has too, and CUDA's ``%`` is inexact.
    """
    zero, half, one = dtype.type(0), dtype.type(0.5), dtype.type(1)
    infinity, nan = dtype.type(np.inf), dtype.type(np.nan)
    whole = dtype.type(2.0 ** np.finfo(dtype).nmant)

    def divide(x: Any, y: Any) -> Any:
        size, step = math.fabs(x), math.fabs(y)
        rest = size if (size < infinity) & (step > zero) else nan
        if rest >= step:
            multiple = step
            while multiple + multiple <= rest:
                multiple = multiple + multiple
            while multiple >= step:
                if rest >= multiple:
                    rest = rest - multiple
                multiple = multiple * half
        mod = math.copysign(rest, x)
        if part == _FMOD:
            return mod
        if part == _QUOTIENT:
            if y == zero:
                return x / y
            quotient = (x - mod) / y
            if (mod != zero) & ((y < zero) != (mod < zero)):
                quotient = quotient - one
            if quotient == zero:
                return math.copysign(zero, x / y)
            # Already whole but for rounding; half way goes down, as NumPy's correction does.
            near = math.fabs(quotient)
            if near < whole:
                near = math.copysign((near + whole) - whole, quotient)
                low = near - one if near > quotient else near
                return low + one if quotient - low > half else low
            return quotient
        if mod == zero:
            return math.copysign(zero, y)
        if (y < zero) != (mod < zero):
            return mod + y
        return mod

    return divide


def _whole_division(dtype: np.dtype[Any], part: int) -> Code:
    """Return one of the three divisions of integers; by zero gives zero, and nothing traps.

    Up to 32 bits the quotient is computed in floating point, where its floor is exact: that
    vectorises on the CPU, and avoids CUDA's 64-bit division, to which Numba would widen it.
    """
    if dtype.itemsize > 4:
        return _long_division(dtype, part)
    wide = np.float32 if dtype.itemsize <= 2 else np.float64
    zero, one = np.int64(0), np.int64(1)
    long = np.int64

    def divide(x: Any, y: Any) -> Any:
        dividend, divisor = long(x), long(y)
        safe = divisor if divisor != zero else one
        quotient = long(wide(dividend) / wide(safe))
        rest = dividend - quotient * safe
        if part != _FMOD:
            below = (rest != zero) & ((rest < zero) != (safe < zero))
            quotient = quotient - one if below else quotient
            rest = rest + safe if below else rest
        result = quotient if part == _QUOTIENT else rest
        return result if divisor != zero else zero

    return divide


def _long_division(dtype: np.dtype[Any], part: int) -> Code:
    zero, one = dtype.type(0), dtype.type(1)
    if dtype.kind == "u":

        def divide_unsigned(x: Any, y: Any) -> Any:
            safe = y if y != zero else one
            result = x // safe if part == _QUOTIENT else x % safe
            return result if y != zero else zero

        return divide_unsigned
    minus = dtype.type(-1)

    def divide(x: Any, y: Any) -> Any:
        # Division by -1 overflows for the smallest integer, which traps on x86.
        safe = one if (y == zero) | (y == minus) else y
        quotient = x // safe
        rest = x - quotient * safe
        if part == _QUOTIENT:
            return (-x if y == minus else quotient) if y != zero else zero
        if part == _FMOD:
            # Floor and truncation differ where the rest is not zero and the signs differ.
            return rest - safe if (rest != zero) & ((x < zero) != (safe < zero)) else rest
        return rest

    return divide


def _division(part: int) -> Callable[[np.dtype[Any]], Code]:
    def make(dtype: np.dtype[Any]) -> Code:
        return (_float_division if dtype.kind == "f" else _whole_division)(dtype, part)

    return make


floor_divide = elementwise(
    "floor_divide",
    ufunc=np.floor_divide,
    scalar=typed(_division(_QUOTIENT)),
    flops=30,
    jvp=(0, 0),
    doc="Largest integer not above x / y; integers by zero give zero.",
)
remainder = elementwise(
    "remainder",
    ufunc=np.remainder,
    scalar=typed(_division(_REMAINDER)),
    flops=30,
    jvp=(1, lambda result, x, y: -floor_divide(x, y)),
    doc="x - floor(x / y) * y, with the sign of y; integers by zero give zero.",
)
fmod = elementwise(
    "fmod",
    ufunc=np.fmod,
    scalar=typed(_division(_FMOD)),
    flops=30,
    jvp=(1, lambda result, x, y: -trunc(x / y)),
    doc="x - trunc(x / y) * y, with the sign of x; integers by zero give zero.",
)


def _gcd(dtype: np.dtype[Any]) -> Code:
    # Absolute values are taken in 64 bits: Numba negates a narrow integer in its own width.
    wide = np.int64 if dtype.kind == "i" else np.uint64
    long, none = np.uint64, np.uint64(0)
    zero = wide(0)

    def gcd(x: Any, y: Any) -> Any:
        x, y = wide(x), wide(y)
        a, b = long(-x if x < zero else x), long(-y if y < zero else y)
        while b != none:
            a, b = b, a % b
        return a

    return gcd


def _lcm(dtype: np.dtype[Any]) -> Code:
    wide = np.int64 if dtype.kind == "i" else np.uint64
    long, none = np.uint64, np.uint64(0)
    zero = wide(0)

    def lcm(x: Any, y: Any) -> Any:
        x, y = wide(x), wide(y)
        first, second = long(-x if x < zero else x), long(-y if y < zero else y)
        a, b = first, second
        while b != none:
            a, b = b, a % b
        return first // a * second if a != none else none

    return lcm


gcd = elementwise(
    "gcd",
    ufunc=np.gcd,
    scalar=typed(_gcd),
    flops=100,
    doc="Greatest common divisor.",
)
lcm = elementwise(
    "lcm",
    ufunc=np.lcm,
    scalar=typed(_lcm),
    flops=100,
    doc="Least common multiple.",
)
