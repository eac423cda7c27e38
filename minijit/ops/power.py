"""Powers: the general operation, and the cheaper ones that constant exponents stand for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.graph.tracer import methods, ufuncs
from minijit.ops.binary import multiply
from minijit.ops.compare import equal
from minijit.ops.define import Elementwise, elementwise, plain, typed
from minijit.ops.promote import (
    broadcast_to,
    convert,
    loop_dtypes,
    operand_aval,
)
from minijit.ops.select import where
from minijit.ops.transcendental import exp2, log
from minijit.ops.unary import positive, reciprocal, sqrt, square

__all__ = ["float_power", "power"]

Code = Callable[..., Any]


def _power(dtype: np.dtype[Any]) -> Code:
    if dtype.kind == "f":
        return lambda x, y: math.pow(x, y)
    zero, one = dtype.type(0), dtype.type(1)
    minus = ~zero

    def whole_power(x: Any, n: Any) -> Any:
        if n < zero:  # never, of unsigned numbers
            odd = (n & one) != zero
            return (
                one if (x == one) | ((x == minus) & (not odd)) else (minus if x == minus else zero)
            )
        result = one
        while n > zero:
            if n & one:
                result = result * x
            x = x * x
            n = n >> one
        return result

    return whole_power


def _by_base(result: Any, x: Any, y: Any) -> Any:
    # x ** 0 is constant, also at zero, where 0 * 0 ** -1 would be NaN.
    constant = equal(y, 0)
    return where(constant, y, y * _general(x, where(constant, y, y - 1)))


def _by_exponent(result: Any, x: Any, y: Any) -> Any:
    return result * log(where(equal(x, 0), x.dtype.type(1), x))


_general = elementwise(
    "pow",
    ufunc=np.power,
    scalar=typed(_power),
    flops=60,
    samples=((0.1, 4.0), (0.0, 4.0)),
    jvp=(_by_base, _by_exponent),
    doc="x ** y; an integer to a negative power that is traced gives its quotient's integer part.",
)


class Power(Elementwise):
    """``power`` with NumPy's shortcuts for constant exponents, in every spelling."""

    def __init__(self) -> None:
        """Extend the general operation."""
        super().__init__(_general.primitive, _general.ufunc)
        self.__name__ = "power"

    def record(self, *args: Any, dtype: np.dtype[Any] | None) -> Any:
        """Record the first argument to the power of the second.

        Raises:
            ValueError: an integer to a constant negative integer power, as in NumPy.
        """
        x, y = args
        avals = (operand_aval(x), operand_aval(y))
        loop = loop_dtypes(self.ufunc, avals, dtype)[0]
        short = None
        if isinstance(y, (int, float, np.number)):
            convert(y, loop)  # refuses a Python integer that the dtype cannot hold
            short = _whole_power(y) if loop.kind in "iu" else _real_power(float(y), loop)
        elif isinstance(x, (int, float, np.floating)) and x == 2 and loop.kind == "f":
            return exp2(convert(y, loop, avals[0].weak_type and avals[1].weak_type))
        if short is None:
            return super().record(x, y, dtype=dtype)
        return short(convert(x, loop, avals[0].weak_type and avals[1].weak_type))


def _real_power(y: float, dtype: np.dtype[Any]) -> Callable[[Any], Any] | None:
    shortcuts: dict[float, Callable[[Any], Any]] = {
        -1.0: reciprocal,
        0.0: _one_everywhere,
        1.0: positive,
        2.0: square,
    }
    if dtype.itemsize > 2:
        # Like NumPy's loops, where pow would give +0 of -0.0 and inf of -inf.
        shortcuts[0.5] = sqrt
        # At most 1.5 ulp, like pow itself, at a twentieth of the cost; float16 would round between.
        shortcuts[3.0] = lambda x: multiply(square(x), x)
        shortcuts[4.0] = lambda x: square(square(x))
    return shortcuts.get(y)


def _whole_power(y: Any) -> Callable[[Any], Any]:
    if y < 0:
        raise ValueError(
            f"Integers to negative integer powers are not allowed (at {user_line()}); "
            f"write x ** {float(y)} for a floating-point result"
        )
    return lambda x: _by_squaring(x, int(y))


def _by_squaring(x: Any, n: int) -> Any:
    result = None
    while n:
        if n & 1:
            result = x if result is None else multiply(result, x)
        n >>= 1
        x = square(x) if n else x
    return _one_everywhere(x) if result is None else result


def _one_everywhere(x: Any) -> Any:
    aval = abstractify(x)
    return broadcast_to(aval.dtype.type(1), aval.shape)


def _operator(x: Any, y: Any) -> Any:
    """Return ``x ** y``, which NumPy computes otherwise than ``power`` in two cases.

    Bools are squared as int8, not as int64, and the root of float16 is ``sqrt``.
    """
    if type(y) is int and y == 2:
        return square(x)
    if type(y) is float and y == 0.5 and abstractify(x).dtype == np.float16:
        return sqrt(x)
    return power(x, y)


power = Power()
ufuncs["power"] = power
methods["__pow__"] = _operator
float_power = elementwise(
    "float_power",
    ufunc=np.float_power,
    scalar=plain(lambda x, y: math.pow(x, y)),
    flops=60,
    samples=((0.1, 4.0), (0.0, 4.0)),
    jvp=(_by_base, _by_exponent),
    doc="x ** y in float64.",
)
