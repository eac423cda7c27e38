"""Exponentials, logarithms, trigonometric and hyperbolic functions, and what is built like them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.ops.compare import equal
from minijit.ops.define import Elementwise, elementwise, plain, typed
from minijit.ops.promote import loop_dtypes, operand_aval
from minijit.ops.select import where
from minijit.ops.unary import rsqrt

__all__ = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cos",
    "cosh",
    "degrees",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "radians",
    "sigmoid",
    "sin",
    "sinh",
    "tan",
    "tanh",
]

Code = Callable[..., Any]


def _unary(
    ufunc: np.ufunc,
    code: Code,
    doc: str,
    domain: tuple[float, float],
    derivative: Code,
    flops: int = 20,
) -> Elementwise:
    return elementwise(
        ufunc.__name__,
        ufunc=ufunc,
        scalar=plain(code),
        doc=doc,
        flops=flops,
        samples=(domain,),
        jvp=(derivative,),
    )


_LN2, _LN10 = math.log(2.0), math.log(10.0)
_BELL = 2 / math.sqrt(math.pi)  # the slope of erf at zero

exp = _unary(np.exp, lambda x: math.exp(x), "e ** x.", (-10, 10), lambda y, x: y)
exp2 = _unary(np.exp2, lambda x: math.exp2(x), "2 ** x.", (-10, 10), lambda y, x: _LN2 * y)
expm1 = _unary(
    np.expm1, lambda x: math.expm1(x), "exp(x) - 1, exact near zero.", (-5, 5), lambda y, x: y + 1
)
log = _unary(np.log, lambda x: math.log(x), "Natural logarithm.", (0, 20), lambda y, x: 1 / x)
log2 = _unary(
    np.log2, lambda x: math.log2(x), "Logarithm to base 2.", (0, 20), lambda y, x: 1 / (_LN2 * x)
)
log10 = _unary(
    np.log10,
    lambda x: math.log10(x),
    "Logarithm to base 10.",
    (0, 20),
    lambda y, x: 1 / (_LN10 * x),
)
log1p = _unary(
    np.log1p,
    lambda x: math.log1p(x),
    "log(1 + x), exact near zero.",
    (-0.9, 10),
    lambda y, x: 1 / (1 + x),
)
sin = _unary(np.sin, lambda x: math.sin(x), "Sine.", (-10, 10), lambda y, x: cos(x), 30)
cos: Elementwise = _unary(
    np.cos, lambda x: math.cos(x), "Cosine.", (-10, 10), lambda y, x: -sin(x), 30
)
tan = _unary(np.tan, lambda x: math.tan(x), "Tangent.", (-1.5, 1.5), lambda y, x: 1 + y * y, 40)
arcsin = _unary(
    np.arcsin,
    lambda x: math.asin(x),
    "Inverse sine.",
    (-1, 1),
    lambda y, x: rsqrt((1 - x) * (1 + x)),
)
arccos = _unary(
    np.arccos,
    lambda x: math.acos(x),
    "Inverse cosine.",
    (-1, 1),
    lambda y, x: -rsqrt((1 - x) * (1 + x)),
)
arctan = _unary(
    np.arctan,
    lambda x: math.atan(x),
    "Inverse tangent.",
    (-10, 10),
    lambda y, x: 1 / (1 + x * x),
)
sinh = _unary(
    np.sinh, lambda x: math.sinh(x), "Hyperbolic sine.", (-5, 5), lambda y, x: cosh(x), 30
)
cosh: Elementwise = _unary(
    np.cosh, lambda x: math.cosh(x), "Hyperbolic cosine.", (-5, 5), lambda y, x: sinh(x), 30
)
tanh = _unary(
    np.tanh,
    lambda x: math.tanh(x),
    "Hyperbolic tangent.",
    (-5, 5),
    lambda y, x: (1 - y) * (1 + y),
    30,
)
arcsinh = _unary(
    np.arcsinh,
    lambda x: math.asinh(x),
    "Inverse hyperbolic sine.",
    (-10, 10),
    lambda y, x: rsqrt(x * x + 1),
    30,
)
arccosh = _unary(
    np.arccosh,
    lambda x: math.acosh(x),
    "Inverse hyperbolic cosine.",
    (1, 10),
    lambda y, x: rsqrt((x - 1) * (x + 1)),
    30,
)
arctanh = _unary(
    np.arctanh,
    lambda x: math.atanh(x),
    "Inverse hyperbolic tangent.",
    (-1, 1),
    lambda y, x: 1 / ((1 - x) * (1 + x)),
    30,
)


def _ratio(over: float, under: float) -> Callable[[np.dtype[Any]], Code]:
    def make(dtype: np.dtype[Any]) -> Code:
        factor = dtype.type(over) / dtype.type(under)  # rounded as NumPy's own constant is
        return lambda x: x * factor

    return make


degrees = elementwise(
    "degrees",
    ufunc=np.degrees,
    scalar=typed(_ratio(180.0, math.pi)),
    jvp=(180.0 / math.pi,),
    doc="Radians to degrees.",
)
radians = elementwise(
    "radians",
    ufunc=np.radians,
    scalar=typed(_ratio(math.pi, 180.0)),
    jvp=(math.pi / 180.0,),
    doc="Degrees to radians.",
)


def _sigmoid(dtype: np.dtype[Any]) -> Code:
    one, zero = dtype.type(1), dtype.type(0)

    def sigmoid(x: Any) -> Any:
        # exp of a negative number only: neither branch overflows, both keep their digits.
        small = math.exp(-math.fabs(x))
        return (one if x >= zero else small) / (one + small)

    return sigmoid


def _sigmoid_eager(xp: Any, x: Any) -> Any:
    x = xp.asarray(x)
    x = x.astype(loop_dtypes(np.exp, (operand_aval(x),))[-1])
    one = x.dtype.type(1)
    with np.errstate(all="ignore"):
        small = xp.exp(-xp.abs(x))
        return (xp.where(x >= 0, one, small) / (one + small))[()]


sigmoid = elementwise(
    "sigmoid",
    dtypes=np.exp,
    scalar=typed(_sigmoid),
    eager=_sigmoid_eager,
    flops=25,
    samples=((-10, 10),),
    jvp=(lambda y, x: y * (1 - y),),
    doc="Logistic function 1 / (1 + exp(-x)).",
)


# Where an array library keeps erf and erfc; NumPy has neither.
_SPECIAL_FUNCTIONS = {"cupy": "cupyx.scipy.special"}


def _by_math(function: Callable[[float], float]) -> Callable[..., Any]:
    """Return eager code by a function of Python's ``math``, in float64."""

    def eager(xp: Any, x: Any) -> Any:
        if xp.__name__ in _SPECIAL_FUNCTIONS:
            module = importlib.import_module(_SPECIAL_FUNCTIONS[xp.__name__])
            return getattr(module, function.__name__)(x)
        x = np.asarray(x)
        dtype = loop_dtypes(np.exp, (operand_aval(x),))[-1]
        loop = np.vectorize(function, otypes=[np.float64])
        return loop(x.astype(np.float64)).astype(dtype)[()]

    return eager


erf = elementwise(
    "erf",
    dtypes=np.exp,
    scalar=plain(lambda x: math.erf(x)),
    eager=_by_math(math.erf),
    flops=25,
    jvp=(lambda y, x: _BELL * exp(-x * x),),
    doc="Error function.",
)
erfc = elementwise(
    "erfc",
    dtypes=np.exp,
    scalar=plain(lambda x: math.erfc(x)),
    eager=_by_math(math.erfc),
    flops=25,
    jvp=(lambda y, x: -_BELL * exp(-x * x),),
    doc="1 - erf(x), exact where erf is near 1.",
)
arctan2 = elementwise(
    "arctan2",
    ufunc=np.arctan2,
    scalar=plain(lambda y, x: math.atan2(y, x)),
    flops=30,
    jvp=(lambda r, y, x: x / (x * x + y * y), lambda r, y, x: -y / (x * x + y * y)),
    doc="Angle of the point (x, y).",
)


def _or_one(x: Any) -> Any:
    """Return ``x``, and 1 where it is zero: the slope of a length at zero is taken for zero."""
    return where(equal(x, 0), x.dtype.type(1), x)


hypot = elementwise(
    "hypot",
    ufunc=np.hypot,
    scalar=plain(lambda x, y: math.hypot(x, y)),
    flops=15,
    jvp=(lambda r, x, y: x / _or_one(r), lambda r, x, y: y / _or_one(r)),
    doc="sqrt(x**2 + y**2) without overflow.",
)


def _logaddexp(dtype: np.dtype[Any]) -> Code:
    step = dtype.type(math.log(2.0))

    def logaddexp(x: Any, y: Any) -> Any:
        # Equal operands stand apart for two infinities of one sign, whose difference is NaN.
        high = x if x > y else y
        rest = math.log1p(math.exp(-math.fabs(x - y)))
        return x + step if x == y else (high + rest if x - y == x - y else x - y)

    return logaddexp


logaddexp = elementwise(
    "logaddexp",
    ufunc=np.logaddexp,
    scalar=typed(_logaddexp),
    flops=40,
    jvp=(lambda r, x, y: sigmoid(x - y), lambda r, x, y: sigmoid(y - x)),
    doc="log(exp(x) + exp(y)) without overflow.",
)


def _logaddexp2(dtype: np.dtype[Any]) -> Code:
    one, per_bit = dtype.type(1), dtype.type(1 / math.log(2.0))

    def logaddexp2(x: Any, y: Any) -> Any:
        high = x if x > y else y
        rest = per_bit * math.log1p(math.exp2(-math.fabs(x - y)))
        return x + one if x == y else (high + rest if x - y == x - y else x - y)

    return logaddexp2


logaddexp2 = elementwise(
    "logaddexp2",
    ufunc=np.logaddexp2,
    scalar=typed(_logaddexp2),
    flops=40,
    jvp=(lambda r, x, y: sigmoid(_LN2 * (x - y)), lambda r, x, y: sigmoid(_LN2 * (y - x))),
    doc="log2(2**x + 2**y) without overflow.",
)
