"""Binary arithmetic: sums, products, quotients, maxima and minima, and operations on the sign."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.graph.tracer import ufuncs
from minijit.ops.define import Elementwise, choice, elementwise, plain, typed
from minijit.ops.promote import convert, loop_dtypes, operand_aval

__all__ = [
    "add",
    "copysign",
    "divide",
    "fmax",
    "fmin",
    "heaviside",
    "ldexp",
    "maximum",
    "minimum",
    "multiply",
    "nextafter",
    "subtract",
]

Code = Callable[..., Any]

add = elementwise(
    "add",
    ufunc=np.add,
    scalar=plain(lambda x, y: x + y, "+"),
    jvp=(1, 1),
    doc="Sum; of bools, or.",
)
subtract = elementwise(
    "sub",
    ufunc=np.subtract,
    scalar=plain(lambda x, y: x - y, "-"),
    jvp=(1, -1),
    doc="Difference.",
)
multiply = elementwise(
    "mul",
    ufunc=np.multiply,
    scalar=plain(lambda x, y: x * y, "*"),
    jvp=(lambda result, x, y: y, lambda result, x, y: x),
    doc="Product; of bools, and.",
)
divide = elementwise(
    "div",
    ufunc=np.divide,
    scalar=plain(lambda x, y: x / y, "/"),
    flops=5,
    jvp=(lambda result, x, y: 1 / y, lambda result, x, y: -result / y),
    doc="Quotient as a floating-point number, also of integers.",
)


class Extremum(Elementwise):
    """An extremum, whose scalar code returns the second of two zeros, as NumPy's float loops do.

    Those of float16 return the first one.
    """

    def record(self, *args: Any, dtype: np.dtype[Any] | None) -> Any:
        """Record the operation; see :class:`Elementwise`."""
        loop = loop_dtypes(self.ufunc, list(map(operand_aval, args)), dtype)[0]
        operands = reversed(args) if loop == np.float16 else args
        return super().record(*operands, dtype=dtype)


def _extremum(name: str, ufunc: np.ufunc, code: Code, doc: str) -> Extremum:
    partials = (lambda r, x, y: _share(r, x, y), lambda r, x, y: _share(r, y, x))
    operation = elementwise(name, ufunc=ufunc, scalar=choice(code), jvp=partials, doc=doc)
    ufuncs[ufunc.__name__] = extremum = Extremum(operation.primitive, ufunc)
    return extremum


def _share(result: Any, own: Any, other: Any) -> Any:
    """Return 1 where the result is ``own``, 1/2 where it is both operands, else 0."""
    ours, theirs = _equals(own, result), _equals(other, result)
    return ours * (1 - 0.5 * theirs)


def _equals(x: Any, y: Any) -> Any:
    """Return 1 where ``x`` is ``y``, else 0, in the dtype of ``x``."""
    return convert(ufuncs["equal"](x, y), x.dtype)


# `|` keeps the code free of branches.
maximum = _extremum(
    "max",
    np.maximum,
    lambda x, y: x if (x > y) | (x != x) else y,
    "The larger operand; NaN when either is.",
)
minimum = _extremum(
    "min",
    np.minimum,
    lambda x, y: x if (x < y) | (x != x) else y,
    "The smaller operand; NaN when either is.",
)
fmax = _extremum(
    "fmax",
    np.fmax,
    lambda x, y: x if (x > y) | (y != y) else y,
    "The larger operand; NaN only when both are.",
)
fmin = _extremum(
    "fmin",
    np.fmin,
    lambda x, y: x if (x < y) | (y != y) else y,
    "The smaller operand; NaN only when both are.",
)
copysign: Elementwise = elementwise(
    "copysign",
    ufunc=np.copysign,
    scalar=plain(lambda x, y: math.copysign(x, y), exact=True),
    jvp=(lambda result, x, y: copysign(1, x) * copysign(1, y), 0),
    doc="Size of x with the sign of y.",
)


def _nextafter_half(dtype: np.dtype[Any]) -> Code:
    """Return ``nextafter`` of float16 numbers that are held as float32."""
    zero, half = dtype.type(0), dtype.type(0.5)
    least, infinity = dtype.type(2.0**-24), dtype.type(np.inf)
    largest, top = dtype.type(np.finfo(np.float16).max), dtype.type(2.0**15)
    spacing = dtype.type(2.0**-10)

    def nextafter(x: Any, y: Any) -> Any:
        if (x != x) | (y != y):
            return x + y
        if x == y:
            return x
        size = math.fabs(x)
        if size == zero:
            return math.copysign(least, y)
        outward = (y > x) == (x > zero)
        if size == infinity:
            return math.copysign(largest, x)
        if outward & (size == largest):
            return math.copysign(infinity, x)
        power = top
        while power > size:
            power = power * half
        # Inside of a power of two the numbers are twice as dense.
        dense = (size == power) & (not outward)
        step = power * (spacing * half if dense else spacing)
        step = step if step > least else least
        return math.copysign(size + step if outward else size - step, x)

    return nextafter


_nextafter = elementwise(
    "nextafter",
    ufunc=np.nextafter,
    scalar=plain(lambda x, y: math.nextafter(x, y)),
    only=("float32", "float64"),
    jvp=(1, 0),
    doc="Next number after x towards y.",
)
_nextafter16 = elementwise(
    "nextafter_float16",
    dtypes=np.nextafter,
    scalar=typed(_nextafter_half),
    only=("float16",),
    jvp=(1, 0),
    doc="Next number after x towards y, in float16.",
)


class NextAfter(Elementwise):
    """``nextafter``: float16, held as float32 in kernels, needs code of its own."""

    def __init__(self) -> None:
        """Extend the operation on float32 and float64."""
        super().__init__(_nextafter.primitive, _nextafter.ufunc)

    def record(self, *args: Any, dtype: np.dtype[Any] | None) -> Any:
        """Record one of the two primitives."""
        loop = loop_dtypes(self.ufunc, list(map(operand_aval, args)), dtype)[0]
        if loop == np.float16:
            return _nextafter16.record(*args, dtype=dtype)
        return super().record(*args, dtype=dtype)


nextafter = NextAfter()
ufuncs["nextafter"] = nextafter


def _ldexp(dtype: np.dtype[Any]) -> Code:
    """Return multiplication by a power of two, rounded once, as musl's ``scalbn`` does it.

    ``math.ldexp`` is a call out of the kernel on the CPU.
    """
    limits = np.finfo(dtype)
    high, low = np.int64(limits.maxexp - 1), np.int64(limits.minexp)
    # Scaling down stops short of the denormal numbers until the last step, which alone may round.
    fall = np.int64(low + limits.nmant + 1)
    up, down = dtype.type(2.0 ** int(high)), dtype.type(2.0 ** int(fall))
    zero, bit = np.int64(0), np.int64(1)
    one, two, half = dtype.type(1), dtype.type(2), dtype.type(0.5)
    wide: Any = np.int64

    def ldexp(x: Any, n: Any) -> Any:
        rest = wide(n)
        for _ in range(2):
            if rest > high:
                x, rest = x * up, rest - high
            elif rest < low:
                x, rest = x * down, rest - fall
        rest = high if rest > high else (low if rest < low else rest)
        power, base = one, two if rest >= zero else half
        rest = rest if rest >= zero else -rest
        while rest > zero:
            if rest & bit:
                power = power * base
            base = base * base
            rest = rest >> bit
        return x * power

    return ldexp


ldexp: Elementwise = elementwise(
    "ldexp",
    ufunc=np.ldexp,
    scalar=typed(_ldexp),
    samples=((-4.0, 4.0), (-10.0, 10.0)),
    jvp=(lambda result, x, n: ldexp(result.dtype.type(1), n), 0),
    doc="x * 2**n with an integer n.",
)


def _heaviside(dtype: np.dtype[Any]) -> Code:
    zero, one = dtype.type(0), dtype.type(1)
    return lambda x, y: y if x == zero else (one if x > zero else (zero if x < zero else x))


heaviside = elementwise(
    "heaviside",
    ufunc=np.heaviside,
    scalar=typed(_heaviside),
    jvp=(0, lambda result, x, y: _equals(x, 0)),
    doc="0 below zero, 1 above it, y at it; NaN of NaN.",
)
