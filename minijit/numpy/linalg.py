"""``numpy.linalg`` as far as it is products and sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.graph.dtypes import is_floating
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify, array_namespace
from minijit.graph.tracer import functions
from minijit.numpy import reductions
from minijit.numpy.manipulation import matrix_transpose
from minijit.numpy.products import matmul, outer, tensordot, vecdot
from minijit.ops.axes import normalize_axes
from minijit.ops.binary import multiply
from minijit.ops.compare import not_equal
from minijit.ops.diagonal import diagonal as diagonal_of
from minijit.ops.power import power
from minijit.ops.promote import as_operand, convert, is_traced
from minijit.ops.shape import squeeze
from minijit.ops.unary import absolute, sqrt

__all__ = [
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_transpose",
    "norm",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return a norm of vectors (one axis) or matrices (two axes).

    Args:
        x: An array; integers are computed in float64.
        ord: For vectors None or 2 (Euclid), inf, -inf, 0, or a number p; for matrices None or
            "fro" (Frobenius), 1, -1, inf, -inf.
        axis: One axis, two axes, or None: all elements as a vector when ``ord`` is None, else all
            axes of ``x``.
        keepdims: Keep the reduced axes with extent one.

    Raises:
        ValueError: the order is not one of these (others need a decomposition).
    """
    if not is_traced(x):
        return array_namespace((x,)).linalg.norm(x, ord, axis, keepdims)
    return _traced_norm(x, ord, axis, keepdims)


def _traced_norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x = as_operand(x)
    aval = abstractify(x)
    if not is_floating(aval.dtype):
        x = convert(x, np.dtype(np.float64))
    if axis is None:
        axes = tuple(range(aval.ndim))
        if ord is None:
            return _vector_norm(x, 2, axes, keepdims)
    else:
        axes = normalize_axes(axis, aval.ndim)
    if len(axes) == 1:
        return _vector_norm(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError(f"a norm is over one or two axes, not {axes} (at {user_line()})")


def _vector_norm(x: Any, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if isinstance(order, str):
        raise ValueError(f"a vector has no norm {order!r} (at {user_line()})")
    if order == 2:
        return sqrt(reductions.sum(multiply(x, x), axes, keepdims=keepdims))
    if order in (np.inf, -np.inf):
        extremum = reductions.max if order > 0 else reductions.min
        return extremum(absolute(x), axes, keepdims=keepdims)
    if order == 0:
        dtype = abstractify(x).dtype
        return reductions.sum(convert(not_equal(x, 0), dtype), axes, keepdims=keepdims)
    magnitudes = absolute(x)
    if order == 1:
        return reductions.sum(magnitudes, axes, keepdims=keepdims)
    total = reductions.sum(power(magnitudes, order), axes, keepdims=keepdims)
    return power(total, 1 / order)


def _matrix_norm(x: Any, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if order in (None, "fro", "f"):
        return _vector_norm(x, 2, axes, keepdims)
    if order not in (1, -1, np.inf, -np.inf):
        raise ValueError(
            f"the matrix norm {order!r} needs a decomposition and cannot be traced (at "
            f"{user_line()}); None, 'fro', 1, -1, inf and -inf can"
        )
    rows, columns = axes
    summed, compared = (rows, columns) if order in (1, -1) else (columns, rows)
    totals = reductions.sum(absolute(x), summed, keepdims=True)
    extremum = reductions.max if order > 0 else reductions.min
    result = extremum(totals, compared, keepdims=True)
    return result if keepdims else squeeze(result, axes)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Return the norm of vectors along ``axis``; several axes, or None for all, form one."""
    if not is_traced(x):
        return array_namespace((x,)).linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)
    return _traced_vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


def _traced_vector_norm(
    x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2
) -> Any:
    x = as_operand(x)
    aval = abstractify(x)
    if not is_floating(aval.dtype):
        x = convert(x, np.dtype(np.float64))
    axes = tuple(range(aval.ndim)) if axis is None else normalize_axes(axis, aval.ndim)
    return _vector_norm(x, ord, axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return the norm of the matrices of the last two axes."""
    return norm(x, ord, (-2, -1), keepdims)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return the diagonals of the matrices of the last two axes."""
    return diagonal_of(as_operand(x), offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Sum the diagonals of the matrices of the last two axes."""
    return reductions.sum(diagonal(x, offset=offset), -1, dtype)


functions.update(
    {
        "linalg.diagonal": diagonal,
        "linalg.matrix_norm": matrix_norm,
        "linalg.norm": _traced_norm,
        "linalg.trace": trace,
        "linalg.vector_norm": _traced_vector_norm,
    }
)
