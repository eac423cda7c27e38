"""Unary operations that are exact or correctly rounded.

Signs, rounding, square root, tests of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.ops.define import Elementwise, elementwise, plain, typed

__all__ = [
    "absolute",
    "cbrt",
    "ceil",
    "fabs",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "negative",
    "positive",
    "reciprocal",
    "rint",
    "rsqrt",
    "sign",
    "signbit",
    "sqrt",
    "square",
    "trunc",
]

Code = Callable[..., Any]

negative = elementwise(
    "neg",
    ufunc=np.negative,
    scalar=plain(lambda x: -x, exact=True),
    jvp=(-1,),
    doc="Numerical negative.",
)
positive = elementwise(
    "positive",
    ufunc=np.positive,
    scalar=plain(lambda x: x, exact=True),
    jvp=(1,),
    doc="The operand itself.",
)


def _absolute(dtype: np.dtype[Any]) -> Code:
    if dtype.kind in "bu":
        return lambda x: x
    if dtype.kind == "f":
        return lambda x: math.fabs(x)
    return lambda x: -x if x < 0 else x


absolute = elementwise(
    "abs",
    ufunc=np.absolute,
    scalar=typed(_absolute, exact=True),
    jvp=(lambda result, x: sign(x),),
    doc="Absolute value; the smallest integer stays as it is, as in NumPy.",
)
fabs = elementwise(
    "fabs",
    ufunc=np.fabs,
    scalar=plain(lambda x: math.fabs(x), exact=True),
    jvp=(lambda result, x: sign(x),),
    doc="Absolute value as a floating-point number.",
)


def _sign(dtype: np.dtype[Any]) -> Code:
    zero, one = dtype.type(0), dtype.type(1)
    if dtype.kind == "u":
        return lambda x: one if x > zero else zero
    minus = dtype.type(-1)

    def sign(x: Any) -> Any:
        # The last case keeps NaN, and gives +0 for both zeros.
        return one if x > zero else (minus if x < zero else (zero if x == zero else x))

    return sign


sign: Elementwise = elementwise(
    "sign",
    ufunc=np.sign,
    scalar=typed(_sign, exact=True),
    jvp=(0,),
    doc="-1, 0 or 1; NaN of NaN.",
)
square = elementwise(
    "square",
    ufunc=np.square,
    scalar=plain(lambda x: x * x),
    jvp=(lambda result, x: 2 * x,),
    doc="x * x.",
)


def _reciprocal(dtype: np.dtype[Any]) -> Code:
    one = dtype.type(1)
    if dtype.kind == "f":
        return lambda x: one / x
    zero = dtype.type(0)
    if dtype.kind == "u":
        return lambda x: one if x == one else zero
    minus = dtype.type(-1)
    # NumPy divides narrow integers as int, where 1 // 0 is the smallest one.
    by_zero = dtype.type(np.iinfo(dtype).min if dtype.itemsize >= 4 else 0)
    return lambda x: x if (x == one) | (x == minus) else (by_zero if x == zero else zero)


reciprocal = elementwise(
    "reciprocal",
    ufunc=np.reciprocal,
    scalar=typed(_reciprocal),
    flops=5,
    jvp=(lambda result, x: -square(result),),
    doc="1 / x.",
)
sqrt = elementwise(
    "sqrt",
    ufunc=np.sqrt,
    scalar=plain(lambda x: math.sqrt(x)),
    flops=5,
    samples=((0.0, 16.0),),
    jvp=(lambda result, x: 0.5 / result,),
    doc="Square root, correctly rounded.",
)


def _rsqrt(dtype: np.dtype[Any]) -> Code:
    one = dtype.type(1)
    return lambda x: one / math.sqrt(x)


def _rsqrt_eager(xp: Any, x: Any) -> Any:
    with np.errstate(all="ignore"):
        return xp.reciprocal(xp.sqrt(x))


rsqrt = elementwise(
    "rsqrt",
    dtypes=np.sqrt,
    scalar=typed(_rsqrt),
    eager=_rsqrt_eager,
    flops=8,
    samples=((0.1, 16.0),),
    jvp=(lambda result, x: -0.5 * result * square(result),),
    doc="1 / sqrt(x).",
)


def _cbrt(dtype: np.dtype[Any]) -> Code:
    third, zero = dtype.type(1 / 3), dtype.type(0)
    three = dtype.type(3)

    def cbrt(x: Any) -> Any:
        size = math.fabs(x)
        root = math.pow(size, third)
        # One Newton step takes the error of pow's rounded exponent away.
        if (root > zero) & math.isfinite(root):
            root = root - (root - size / (root * root)) / three
        return math.copysign(root, x)

    return cbrt


cbrt = elementwise(
    "cbrt",
    ufunc=np.cbrt,
    scalar=typed(_cbrt),
    flops=20,
    jvp=(lambda result, x: reciprocal(3 * square(result)),),
    doc="Cube root; negative operands have negative roots.",
)


def _nearest(dtype: np.dtype[Any]) -> Code:
    """Return rounding to the nearest integer by adding and subtracting 2**(mantissa bits).

    ``math.floor`` returns an int64 on the CPU and a float on CUDA, and ``round`` an int64 on both:
    neither serves infinities nor large numbers; this vectorises on both.
    """
    whole = dtype.type(2.0 ** np.finfo(dtype).nmant)

    def nearest(x: Any) -> Any:
        size = math.fabs(x)
        return math.copysign((size + whole) - whole, x) if size < whole else x

    return nearest


def _floor(dtype: np.dtype[Any]) -> Code:
    if dtype.kind != "f":
        return lambda x: x
    one, zero = dtype.type(1), dtype.type(0)
    whole = dtype.type(2.0 ** np.finfo(dtype).nmant)

    def floor(x: Any) -> Any:
        size = math.fabs(x)
        near = math.copysign((size + whole) - whole, x)
        down = math.copysign(near - (one if near > x else zero), x)
        return down if size < whole else x

    return floor


def _ceil(dtype: np.dtype[Any]) -> Code:
    if dtype.kind != "f":
        return lambda x: x
    one, zero = dtype.type(1), dtype.type(0)
    whole = dtype.type(2.0 ** np.finfo(dtype).nmant)

    def ceil(x: Any) -> Any:
        size = math.fabs(x)
        near = math.copysign((size + whole) - whole, x)
        up = math.copysign(near + (one if near < x else zero), x)
        return up if size < whole else x

    return ceil


def _trunc(dtype: np.dtype[Any]) -> Code:
    if dtype.kind != "f":
        return lambda x: x
    one, zero = dtype.type(1), dtype.type(0)
    whole = dtype.type(2.0 ** np.finfo(dtype).nmant)

    def trunc(x: Any) -> Any:
        size = math.fabs(x)
        near = (size + whole) - whole
        return math.copysign(near - (one if near > size else zero), x) if size < whole else x

    return trunc


floor = elementwise(
    "floor",
    ufunc=np.floor,
    scalar=typed(_floor, exact=True),
    jvp=(0,),
    doc="Largest integer not above x.",
)
ceil = elementwise(
    "ceil",
    ufunc=np.ceil,
    scalar=typed(_ceil, exact=True),
    jvp=(0,),
    doc="Smallest integer not below x.",
)
trunc = elementwise(
    "trunc",
    ufunc=np.trunc,
    scalar=typed(_trunc, exact=True),
    jvp=(0,),
    doc="Integer part of x.",
)
rint = elementwise(
    "rint",
    ufunc=np.rint,
    scalar=typed(_nearest, exact=True),
    jvp=(0,),
    doc="Nearest integer, halves to even.",
)


def _float_test(answer: bool, test: Code) -> Callable[[np.dtype[Any]], Code]:
    return lambda dtype: test if dtype.kind == "f" else (lambda x: answer)


isnan = elementwise(
    "isnan",
    ufunc=np.isnan,
    scalar=typed(_float_test(False, lambda x: x != x)),
    doc="Whether x is NaN; never for integers.",
)
isinf = elementwise(
    "isinf",
    ufunc=np.isinf,
    scalar=typed(_float_test(False, lambda x: math.isinf(x))),
    doc="Whether x is infinite; never for integers.",
)
isfinite = elementwise(
    "isfinite",
    ufunc=np.isfinite,
    scalar=typed(_float_test(True, lambda x: math.isfinite(x))),
    doc="Whether x is neither infinite nor NaN; always for integers.",
)


def _signbit(dtype: np.dtype[Any]) -> Code:
    one, zero = dtype.type(1), dtype.type(0)
    return lambda x: math.copysign(one, x) < zero


signbit = elementwise(
    "signbit",
    ufunc=np.signbit,
    scalar=typed(_signbit),
    doc="Whether the sign bit is set, also of -0.0 and NaN.",
)
