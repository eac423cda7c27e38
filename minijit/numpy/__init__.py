"""NumPy's array namespace for arrays and tracers: the array API's names, and NumPy's own.

Called with arrays, a function returns what NumPy or CuPy returns; called while a function is
traced, it records. Plain NumPy code needs nothing from here: NumPy's own functions find tracers by
its protocols. So do those of CuPy that are kernels or methods of its arrays: its ufuncs,
``where``, ``clip``, ``sum``, ``prod``, ``max``, ``min``, ``mean``, ``var``, ``std``, ``reshape``,
``transpose``, ``ravel``, ``squeeze``, ``swapaxes``, ``flip``, ``repeat``, ``take``, ``diagonal``,
``trace``, ``dot``, ``outer``, ``linalg.norm``. Its others (``cupy.asarray``, ``concatenate``,
``stack``, ``expand_dims``, ``matmul``, ``zeros_like``, ``pad``, ``any``, ``all`` ...) take nothing
but CuPy arrays and raise: write the function of this module or NumPy's instead, or ``a @ b``.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from minijit.graph.tracer import properties
from minijit.numpy import linalg
from minijit.numpy import methods as _methods  # noqa: F401 - fills the tracer's table of methods
from minijit.ops.promote import broadcast_shapes

# isort: off
# fmt: off
from minijit.numpy.choice import (
    select,
)
from minijit.numpy.creation import (
    arange, array, asarray, copy, empty, empty_like, full, full_like, ones, ones_like, zeros,
    zeros_like,
)
from minijit.numpy.differences import (
    diff,
)
from minijit.numpy.einsum import (
    einsum,
)
from minijit.numpy.elementwise import (
    abs, absolute, acos, acosh, add, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh,
    around, asin, asinh, astype, atan, atan2, atanh, bitwise_and, bitwise_count, bitwise_invert,
    bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift, bitwise_xor, cbrt, ceil, clip,
    conj, conjugate, copysign, cos, cosh, deg2rad, degrees, divide, divmod, equal, erf, erfc, exp,
    exp2, expm1, fabs, fix, float_power, floor, floor_divide, fmax, fmin, fmod, gcd, greater,
    greater_equal, heaviside, hypot, imag, invert, isclose, isfinite, isinf, isnan, isneginf,
    isposinf, lcm, ldexp, left_shift, less, less_equal, log, log1p, log2, log10, logaddexp,
    logaddexp2, logical_and, logical_not, logical_or, logical_xor, maximum, minimum, mod, modf,
    multiply, nan_to_num, negative, nextafter, not_equal, positive, pow, power, rad2deg, radians,
    real, reciprocal, remainder, right_shift, rint, round, rsqrt, sigmoid, sign, signbit, sin, sinc,
    sinh, sqrt, square, subtract, tan, tanh, true_divide, trunc, where,
)
from minijit.numpy.grids import (
    diag, diagflat, eye, fromfunction, identity, indices, linspace, meshgrid, tri, tril, triu,
)
from minijit.numpy.inspection import (
    allclose, array_equal, array_equiv, can_cast, iscomplexobj, isrealobj, isscalar, ndim,
    promote_types, result_type, shape, size,
)
from minijit.numpy.joining import (
    append, array_split, column_stack, concatenate, dsplit, dstack, hsplit, hstack, repeat, roll,
    split, stack, tile, unstack, vsplit, vstack,
)
from minijit.numpy.manipulation import (
    atleast_1d, atleast_2d, atleast_3d, broadcast_arrays, broadcast_to, diagonal, expand_dims, flip,
    fliplr, flipud, matrix_transpose, moveaxis, ravel, reshape, rollaxis, rot90, squeeze, swapaxes,
    transpose,
)
from minijit.numpy.nan_reductions import (
    nanmax, nanmean, nanmin, nanprod, nanstd, nansum, nanvar,
)
from minijit.numpy.padding import (
    pad,
)
from minijit.numpy.products import (
    dot, inner, kron, matmul, matvec, outer, tensordot, trace, vdot, vecdot, vecmat,
)
from minijit.numpy.reductions import (
    all, amax, amin, any, argmax, argmin, count_nonzero, cumprod, cumsum, max, min, prod, ptp, sum,
)
from minijit.numpy.refused import (
    argwhere, compress, extract, flatnonzero, intersect1d, nonzero, setdiff1d, setxor1d, trim_zeros,
    union1d, unique, unique_all, unique_counts, unique_inverse, unique_values,
)
from minijit.numpy.sorting import (
    argsort, sort,
)
from minijit.numpy.statistics import (
    average, logsumexp, mean, std, var,
)
from minijit.numpy.taking import (
    take, take_along_axis,
)

# Names that mean the same in NumPy.
from numpy import (
    bool_, dtype, finfo, float16, float32, float64, floating, generic, iinfo, inexact, int8, int16,
    int32, int64, integer, isdtype, issubdtype, ndarray, number, signedinteger, uint8, uint16,
    uint32, uint64, unsignedinteger,
)

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "all", "allclose", "amax", "amin", "any", "append",
    "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax",
    "argmin", "argsort", "argwhere", "around", "array", "array_equal", "array_equiv", "array_split",
    "asanyarray", "asarray", "ascontiguousarray", "asin", "asinh", "astype", "atan", "atan2",
    "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "average", "bitwise_and", "bitwise_count",
    "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "bool", "bool_", "broadcast_arrays", "broadcast_shapes", "broadcast_to",
    "can_cast", "cbrt", "ceil", "clip", "column_stack", "compress", "concat", "concatenate", "conj",
    "conjugate", "copy", "copysign", "cos", "cosh", "count_nonzero", "cumprod", "cumsum", "deg2rad",
    "degrees", "diag", "diagflat", "diagonal", "diff", "divide", "divmod", "dot", "dsplit",
    "dstack", "dtype", "e", "einsum", "empty", "empty_like", "equal", "erf", "erfc", "euler_gamma",
    "exp", "exp2", "expand_dims", "expm1", "extract", "eye", "fabs", "finfo", "fix", "flatnonzero",
    "flip", "fliplr", "flipud", "float16", "float32", "float64", "float_power", "floating", "floor",
    "floor_divide", "fmax", "fmin", "fmod", "fromfunction", "full", "full_like", "gcd", "generic",
    "greater", "greater_equal", "heaviside", "hsplit", "hstack", "hypot", "identity", "iinfo",
    "imag", "indices", "inexact", "inf", "inner", "int8", "int16", "int32", "int64", "integer",
    "intersect1d", "invert", "isclose", "iscomplexobj", "isdtype", "isfinite", "isinf", "isnan",
    "isneginf", "isposinf", "isrealobj", "isscalar", "issubdtype", "kron", "lcm", "ldexp",
    "left_shift", "less", "less_equal", "linalg", "linspace", "log", "log1p", "log2", "log10",
    "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logsumexp", "matmul", "matrix_transpose", "matvec", "max", "maximum", "mean", "meshgrid",
    "min", "minimum", "mod", "modf", "moveaxis", "multiply", "nan", "nan_to_num", "nanmax",
    "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "ndarray", "ndim", "negative",
    "newaxis", "nextafter", "nonzero", "not_equal", "number", "ones", "ones_like", "outer", "pad",
    "permute_dims", "pi", "positive", "pow", "power", "prod", "promote_types", "ptp", "rad2deg",
    "radians", "ravel", "real", "reciprocal", "remainder", "repeat", "reshape", "result_type",
    "right_shift", "rint", "roll", "rollaxis", "rot90", "round", "rsqrt", "select", "setdiff1d",
    "setxor1d", "shape", "sigmoid", "sign", "signbit", "signedinteger", "sin", "sinc", "sinh",
    "size", "sort", "split", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum",
    "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "trace", "transpose",
    "tri", "tril", "trim_zeros", "triu", "true_divide", "trunc", "uint8", "uint16", "uint32",
    "uint64", "union1d", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "unsignedinteger", "unstack", "var", "vdot", "vecdot", "vecmat", "vsplit", "vstack", "where",
    "zeros", "zeros_like",
]
# fmt: on
# isort: on

bool = np.bool_
concat = concatenate
permute_dims = transpose
asanyarray = ascontiguousarray = asarray

e, euler_gamma, pi = math.e, np.euler_gamma, math.pi
inf, nan = math.inf, math.nan
newaxis = None


def _namespace(tracer: Any) -> Any:
    return sys.modules[__name__]


properties["__array_namespace__"] = _namespace
