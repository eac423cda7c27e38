"""Samples, exact references and the error in units of the last place, for the scalar functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mpmath
import numba
import numpy as np
import scipy.special
from numpy.typing import NDArray

from minijit.kernels.math import CPU_FUNCTIONS
from minijit.lowering.symbols import Symbol, resolve

FLOATS: dict[str, Any] = {"float32": np.float32, "float64": np.float64}
BINARY = ("arctan2", "power", "hypot", "logaddexp", "logaddexp2")
CASES = sorted(CPU_FUNCTIONS)

Array = NDArray[Any]


def apply(name: str, dtype: str, *arguments: Array) -> Array:
    """The function under test over whole arrays, in a loop as the CPU backend would write it."""
    out = np.empty_like(arguments[0])
    _compiled(name, dtype, len(arguments))(*arguments, out)
    return out


@functools.cache
def _compiled(name: str, dtype: str, arity: int) -> Any:
    return loop(resolve(Symbol(*CPU_FUNCTIONS[name, dtype])), arity)


def loop(function: Callable[..., Any], arity: int) -> Any:
    if arity == 2:

        @numba.njit(error_model="numpy")
        def binary(x, y, out):
            for i in range(out.size):
                out[i] = function(x[i], y[i])

        return binary

    @numba.njit(error_model="numpy")
    def unary(x, out):
        for i in range(out.size):
            out[i] = function(x[i])

    return unary


def border_values(dtype: str) -> Array:
    """Special values, limits of the type and of the functions, each with its two neighbours."""
    kind = FLOATS[dtype]
    info = np.finfo(kind)
    positive = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 17.0, 28.0, 127.0, 128.0, 150.0]
    positive += [1e-30, 1e-10, 1e-3, 1e3, 1e5, 1e10, 1e22, 1e30, 2.0**24, 2.0**28, 2.0**31]
    positive += [
        np.pi / 4,
        np.pi / 2,
        np.pi,
        2 * np.pi,
        np.tan(np.pi / 8),
        np.log(2.0),
        np.sqrt(2.0),
    ]
    positive += [
        88.72284,
        89.0,
        103.97208,
        104.0,
        709.782712893384,
        710.4758600739439,
        745.13321910,
    ]
    positive += [info.max, info.tiny, info.smallest_subnormal, info.eps, np.inf]
    with np.errstate(all="ignore"):
        values = np.array(positive, kind)
        values = np.concatenate(
            [values, np.nextafter(values, kind(np.inf)), np.nextafter(values, 0)]
        )
    return np.concatenate([values, -values, np.array([np.nan], kind)])


def samples(dtype: str, count: int, seed: int) -> Array:
    """About `count` numbers: random bit patterns, and some where the functions have their shape."""
    kind = FLOATS[dtype]
    random = np.random.default_rng(seed)
    bits = random.bytes(count // 4 * kind().itemsize)
    some = count // 16
    parts = [np.frombuffer(bits, kind)]
    parts += [random.standard_normal(some) * scale for scale in (0.01, 0.3, 1.0, 4.0, 30.0, 300.0)]
    parts += [1.0 + 0.01 * random.standard_normal(some), random.uniform(-1, 1, some * 3)]
    parts += [10.0 ** random.uniform(-12, 12, some)]
    with np.errstate(all="ignore"):
        numbers = np.concatenate([part.astype(kind) for part in parts])
    return random.permutation(numbers)


def arguments_of(name: str, dtype: str, count: int, seed: int = 1) -> tuple[Array, ...]:
    x = samples(dtype, count, seed)
    border = border_values(dtype)
    if name not in BINARY:
        return (in_domain(name, np.concatenate([x, border])),)
    y = samples(dtype, count, seed + 1)
    if name == "power":
        # Half of them with a finite positive result: where the logarithm's last bits are seen.
        half = count // 2
        with np.errstate(all="ignore"):
            limit = np.log(float(np.finfo(x.dtype).max)) / np.log(
                np.abs(x[:half].astype(np.float64))
            )
            scale = np.random.default_rng(seed).uniform(-1.1, 1.1, half)
            y[:half] = (limit * scale).astype(y.dtype)
            x[:half] = np.abs(x[:half])
    border = border[:: 1 if count > 50_000 else 3]
    mesh_x, mesh_y = np.meshgrid(border, border)
    return np.concatenate([x, mesh_x.ravel()]), np.concatenate([y, mesh_y.ravel()])


def in_domain(name: str, x: Array) -> Array:
    """The arguments that a function of one may be called with."""
    return x[~(x > 0)] if name == "exp_nonpositive" else x


def _mp_sigmoid(x: mpmath.mpf) -> mpmath.mpf:
    return 1 / (1 + mpmath.exp(-x))


def _mp_logaddexp(x: mpmath.mpf, y: mpmath.mpf) -> mpmath.mpf:
    return max(x, y) + mpmath.log1p(mpmath.exp(-abs(x - y)))


def _mp_logaddexp2(x: mpmath.mpf, y: mpmath.mpf) -> mpmath.mpf:
    return max(x, y) + mpmath.log1p(mpmath.mpf(2) ** -abs(x - y)) / mpmath.log(2)


_EXACT: dict[str, Callable[..., Any]] = {
    "exp": mpmath.exp,
    "exp_nonpositive": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "log10": lambda x: mpmath.log(x) / mpmath.log(10),
    "log1p": mpmath.log1p,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "arctan": mpmath.atan,
    "arctan2": mpmath.atan2,
    "tanh": mpmath.tanh,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh,
    "arctanh": mpmath.atanh,
    "sigmoid": _mp_sigmoid,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "power": lambda x, y: x**y,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "hypot": mpmath.hypot,
    "logaddexp": _mp_logaddexp,
    "logaddexp2": _mp_logaddexp2,
}
_EXPONENTIAL = (
    *("exp", "exp_nonpositive", "exp2", "expm1", "sinh", "cosh", "sigmoid", "tanh", "erf", "erfc"),
)
_SCIPY = {"sigmoid": "expit", "erf": "erf", "erfc": "erfc"}


def library(name: str) -> Callable[..., Array]:
    """NumPy's ufunc, or SciPy's where NumPy has none."""
    name = name.removesuffix("_nonpositive")
    return getattr(scipy.special, _SCIPY[name]) if name in _SCIPY else getattr(np, name)


def exact(name: str, arguments: tuple[float, ...], precision: int = 160) -> mpmath.mpf | None:
    """The value at one point, or None where it is no finite real number or nothing to compute."""
    if not all(np.isfinite(arguments)):
        return None
    if name == "arctan2" and 0.0 in arguments:
        return None  # mpmath has no -0.0
    with mpmath.workprec(precision):
        # Results of such size overflow or underflow in every type; mpmath would take for ever.
        if name in _EXPONENTIAL and abs(arguments[0]) > 2000.0:
            return None
        if name == "power":
            x, y = arguments
            if x == 0.0 or abs(y) * abs(mpmath.log(abs(x), 2)) > 4000.0:
                return None
        try:
            value = _EXACT[name](*(mpmath.mpf(argument) for argument in arguments))
        except (ZeroDivisionError, ValueError, OverflowError):
            return None
        if not isinstance(value, mpmath.mpf) or not mpmath.isfinite(value):
            return None
        return value


def ulp_error_exact(got: float, value: mpmath.mpf, dtype: str) -> float:
    """|got - value| in units of the last place that a number of the type next to `value` has.

    An infinite result counts as the power of two that follows the largest finite number, and below
    the smallest normal number the unit is the smallest subnormal.
    """
    info = np.finfo(FLOATS[dtype])
    with mpmath.workprec(200):
        top = mpmath.mpf(2) ** int(info.maxexp)
        if abs(value) > top:
            value = mpmath.sign(value) * top
        result = mpmath.mpf(got) if np.isfinite(got) else mpmath.sign(got) * top
        if np.isnan(got):
            return float("inf")
        exponent = int(info.minexp)
        if value != 0:
            exponent = max(int(mpmath.frexp(value)[1]) - 1, exponent)
        return float(abs(result - value) / mpmath.mpf(2) ** (exponent - int(info.nmant)))


def ulp_error_float32(got: Array, value: Array) -> Array:
    """The same over arrays, for float32 results and a float64 reference."""
    info = np.finfo(np.float32)
    with np.errstate(all="ignore"):
        top = 2.0 ** float(info.maxexp)
        value = np.clip(value, -top, top)
        result = np.clip(got.astype(np.float64), -top, top)
        exponent = np.maximum(np.frexp(value)[1] - 1, info.minexp)
        error = np.abs(result - value) / np.ldexp(1.0, exponent - info.nmant)
        error[np.isnan(result) & np.isnan(value)] = 0.0
        error[np.isnan(result) != np.isnan(value)] = np.inf
    return error
