"""NumPy's elementwise functions: the operations under NumPy's names, and compositions of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.graph.dtypes import DTypeLike, canonical_dtype, is_floating
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.graph.tracer import functions, methods, properties, ufuncs
from minijit.numpy.declare import numpy_function, refuse_out
from minijit.ops import binary, bitwise, compare, division, transcendental, unary
from minijit.ops import cast as cast_ops
from minijit.ops import power as powers
from minijit.ops import select as selection
from minijit.ops.promote import as_operand, broadcast_to, convert, loop_dtypes

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "conj",
    "conjugate",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "divide",
    "divmod",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "fix",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "gcd",
    "greater",
    "greater_equal",
    "heaviside",
    "hypot",
    "imag",
    "invert",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "lcm",
    "ldexp",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "modf",
    "multiply",
    "nan_to_num",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "power",
    "rad2deg",
    "radians",
    "real",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
    "where",
]

add, subtract, multiply = binary.add, binary.subtract, binary.multiply
divide = true_divide = binary.divide
floor_divide, fmod = division.floor_divide, division.fmod
remainder = mod = division.remainder
gcd, lcm = division.gcd, division.lcm
power = pow = powers.power
float_power = powers.float_power
maximum, minimum, fmax, fmin = binary.maximum, binary.minimum, binary.fmax, binary.fmin
copysign, nextafter, ldexp = binary.copysign, binary.nextafter, binary.ldexp
heaviside = binary.heaviside

negative, positive, sign, signbit = unary.negative, unary.positive, unary.sign, unary.signbit
absolute = abs = unary.absolute
fabs, square, reciprocal = unary.fabs, unary.square, unary.reciprocal
sqrt, rsqrt, cbrt = unary.sqrt, unary.rsqrt, unary.cbrt
floor, ceil, trunc, rint = unary.floor, unary.ceil, unary.trunc, unary.rint
isnan, isinf, isfinite = unary.isnan, unary.isinf, unary.isfinite

exp, exp2, expm1 = transcendental.exp, transcendental.exp2, transcendental.expm1
log, log2, log10 = transcendental.log, transcendental.log2, transcendental.log10
log1p = transcendental.log1p
logaddexp, logaddexp2 = transcendental.logaddexp, transcendental.logaddexp2
sin, cos, tan = transcendental.sin, transcendental.cos, transcendental.tan
arcsin = asin = transcendental.arcsin
arccos = acos = transcendental.arccos
arctan = atan = transcendental.arctan
arctan2 = atan2 = transcendental.arctan2
sinh, cosh, tanh = transcendental.sinh, transcendental.cosh, transcendental.tanh
arcsinh = asinh = transcendental.arcsinh
arccosh = acosh = transcendental.arccosh
arctanh = atanh = transcendental.arctanh
hypot = transcendental.hypot
degrees = rad2deg = transcendental.degrees
radians = deg2rad = transcendental.radians
sigmoid, erf, erfc = transcendental.sigmoid, transcendental.erf, transcendental.erfc

equal, not_equal = compare.equal, compare.not_equal
less, less_equal = compare.less, compare.less_equal
greater, greater_equal = compare.greater, compare.greater_equal
logical_and, logical_or = compare.logical_and, compare.logical_or
logical_not, logical_xor = compare.logical_not, compare.logical_xor

bitwise_and, bitwise_or = bitwise.bitwise_and, bitwise.bitwise_or
bitwise_xor, bitwise_count = bitwise.bitwise_xor, bitwise.bitwise_count
invert = bitwise_invert = bitwise_not = bitwise.invert
left_shift = bitwise_left_shift = bitwise.left_shift
right_shift = bitwise_right_shift = bitwise.right_shift


@numpy_function()
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """Return ``x`` where ``condition`` holds and ``y`` elsewhere, all three broadcast.

    Raises:
        TypeError: only ``condition`` is given: how many elements hold is not known while tracing.
    """
    if x is None or y is None:
        raise TypeError(
            f"where(condition) alone (at {user_line()}) returns as many indices as elements "
            f"hold, a "
            "shape that depends on data; write where(condition, x, y) with a value for both cases"
        )
    return selection.where(condition, x, y)


_NO_VALUE: Any = np._NoValue  # what NumPy's own functions hand through


@numpy_function()
def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
) -> Any:
    """Limit ``a`` to ``[a_min, a_max]``; a bound that is None is none.

    Args:
        a: Operand.
        a_min: Lower bound.
        a_max: Upper bound; it wins over a larger lower one.
        out: Refused.
        min: Another name of ``a_min``.
        max: Another name of ``a_max``.
    """
    refuse_out(out)
    low = min if a_min is None or a_min is _NO_VALUE else a_min
    high = max if a_max is None or a_max is _NO_VALUE else a_max
    return selection.clip(a, *(None if bound is _NO_VALUE else bound for bound in (low, high)))


def _clip_method(x: Any, min: Any = None, max: Any = None, out: Any = None) -> Any:
    return clip(x, min, max, out)


@numpy_function("around", "round_", method=True)
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Round to ``decimals`` decimals (a static integer), halves to even, as NumPy does."""
    refuse_out(out)
    a = as_operand(a)
    dtype = abstractify(a).dtype
    if decimals >= 0 and dtype.kind in "iu":
        return a
    if decimals == 0:
        return rint(a)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    before, after = (multiply, divide) if decimals > 0 else (divide, multiply)
    result = after(rint(before(a, scale)), scale)
    return convert(result, dtype) if dtype.kind in "iu" else result


around = round


@numpy_function()
def fix(x: Any, out: Any = None) -> Any:
    """Round towards zero."""
    refuse_out(out)
    return trunc(x)


def divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """Return ``(x // y, x % y)``."""
    return floor_divide(x, y), remainder(x, y)


def modf(x: Any) -> tuple[Any, Any]:
    """Return the fractional and the integral part of ``x``, both with its sign."""
    x = as_operand(x)
    dtype = loop_dtypes(np.modf, (abstractify(x),))[0]
    x = convert(x, dtype)
    whole = trunc(x)
    rest = where(isinf(x), 0.0, subtract(x, whole))
    return copysign(rest, x), whole


@numpy_function()
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Replace NaN by ``nan`` and infinities by the largest finite numbers, or by those given."""
    x = as_operand(x)
    dtype = abstractify(x).dtype
    if not is_floating(dtype):
        return x
    limits = np.finfo(dtype)
    high = limits.max if posinf is None else convert(posinf, dtype)
    low = limits.min if neginf is None else convert(neginf, dtype)
    result = where(isnan(x), convert(nan, dtype), x)
    result = where(equal(x, dtype.type(np.inf)), high, result)
    return where(equal(x, dtype.type(-np.inf)), low, result)


@numpy_function()
def isposinf(x: Any, out: Any = None) -> Any:
    """Whether x is +inf."""
    refuse_out(out)
    return equal(x, np.inf)


@numpy_function()
def isneginf(x: Any, out: Any = None) -> Any:
    """Whether x is -inf."""
    refuse_out(out)
    return equal(x, -np.inf)


@numpy_function()
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether ``|a - b| <= atol + rtol * |b|`` element by element."""
    a, b = as_operand(a), as_operand(b)
    if not is_floating(abstractify(b).dtype):
        b = multiply(b, 1.0)
    near = less_equal(absolute(subtract(a, b)), add(atol, multiply(rtol, absolute(b))))
    result = logical_or(logical_and(near, isfinite(b)), equal(a, b))
    if equal_nan:
        result = logical_or(result, logical_and(isnan(a), isnan(b)))
    return result


@numpy_function()
def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), 1 at zero."""
    x = as_operand(x)
    if not is_floating(abstractify(x).dtype):
        x = multiply(x, 1.0)
    angle = multiply(where(equal(x, 0), 1e-20, x), np.pi)
    return divide(sin(angle), angle)


def astype(x: Any, dtype: DTypeLike, /, *, copy: bool = True, device: Any = None) -> Any:
    """Return ``x`` as ``dtype``."""
    return cast_ops.astype(x, dtype)


def _astype_method(
    x: Any,
    dtype: DTypeLike,
    order: str = "K",
    casting: Any = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> Any:
    wanted = canonical_dtype(dtype)
    if not np.can_cast(x.dtype, wanted, casting):
        raise TypeError(
            f"cannot cast {x.dtype.name} to {wanted.name} by the rule {casting!r} (at "
            f"{user_line()})"
        )
    return convert(x, wanted)


def conjugate(x: Any) -> Any:
    """Return ``x``: minijit computes with real numbers."""
    return as_operand(x)


conj = real = conjugate


def imag(x: Any) -> Any:
    """Return zeros of ``x``'s shape and dtype."""
    aval = abstractify(as_operand(x))
    return broadcast_to(aval.dtype.type(0), aval.shape)


functions["astype"] = astype
functions["real"], functions["imag"] = real, imag
methods.update(
    {
        "astype": _astype_method,
        "clip": _clip_method,
        "conj": conjugate,
        "conjugate": conjugate,
    }
)
properties.update({"real": real, "imag": imag})
# NumPy's further ufuncs, and names that only CuPy's kernels have.
ufuncs.update(
    {
        "clip": functions["clip"],
        "conjugate": conjugate,
        "deg2rad": radians,
        "divmod": divmod,
        "fix": functions["fix"],
        "modf": modf,
        "rad2deg": degrees,
        "round": functions["round"],
        "sinc": functions["sinc"],
        "true_divide": divide,
        "where": functions["where"],
    }
)
