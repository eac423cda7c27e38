"""Scalar functions that LLVM turns into vector code: branch-free, at most 3 ulp off.

One exception, as in NumPy: where the terms of logaddexp and logaddexp2 in float64 cancel, the error
is small beside the larger argument, not beside the result.
"""

from __future__ import annotations

_MODULES = {
    "exponential": ("exp", "exp_nonpositive", "exp2", "expm1"),
    "logarithm": ("log", "log2", "log10", "log1p"),
    "trigonometric": ("sin", "cos", "tan"),
    "inverse_trigonometric": ("arcsin", "arccos", "arctan", "arctan2"),
    "hyperbolic": ("tanh", "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "sigmoid"),
    "error_function": ("erf", "erfc"),
    "power": ("power", "cbrt"),
    "norm": ("hypot", "logaddexp", "logaddexp2"),
}

#: By NumPy's name of the function and of the type of all its arguments and of its result: module
#: and name there. Nothing is imported before it is needed: the modules import Numba.
CPU_FUNCTIONS: dict[tuple[str, str], tuple[str, str]] = {
    (name, dtype): (f"minijit.kernels.math.{module}", f"{name}_{dtype}")
    for module, names in _MODULES.items()
    for name in names
    for dtype in ("float32", "float64")
}

_HALF_MODULES = {
    "exponential": ("exp",),
    "logarithm": ("log2", "log10"),
    "trigonometric": ("sin", "cos", "tan"),
    "hyperbolic": ("sigmoid",),
}

#: The same of functions that compute in float32 what is rounded to float16.
HALF_FUNCTIONS: dict[str, tuple[str, str]] = {
    name: (f"minijit.kernels.math.{module}", f"{name}_float16")
    for module, names in _HALF_MODULES.items()
    for name in names
}

_EXACT = {"remainder": ("fmod", "remainder", "floor_divide"), "neighbour": ("nextafter",)}

#: Exact functions, in the form of CPU_FUNCTIONS.
EXACT_FUNCTIONS: dict[tuple[str, str], tuple[str, str]] = {
    (name, dtype): (f"minijit.kernels.math.{module}", f"{name}_{dtype}")
    for module, names in _EXACT.items()
    for name in names
    for dtype in ("float32", "float64")
}

#: Those that hold a loop or a branch. LLVM makes no vectors of a loop around one: they have to be
#: called, for whole vectors.
BRANCHING = frozenset(
    (name, dtype)
    for name in (*_MODULES["trigonometric"], *_EXACT["remainder"])
    for dtype in ("float32", "float64")
)

#: What makes the function of float32 x and y for one whole number y, and up to which one it gains.
WHOLE_POWER = ("minijit.kernels.math.power", "whole_power")
LARGEST_WHOLE_POWER = 64

__all__ = [
    "BRANCHING",
    "CPU_FUNCTIONS",
    "EXACT_FUNCTIONS",
    "HALF_FUNCTIONS",
    "LARGEST_WHOLE_POWER",
    "WHOLE_POWER",
]
