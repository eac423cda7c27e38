"""Arrays that follow from their indices: spaced values, identities, triangles, coordinates."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijit.graph.dtypes import (
    canonical_dtype,
    default_dtype,
    is_floating,
    is_integer,
    python_scalar_dtype,
)
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.graph.tracer import functions
from minijit.numpy.declare import numpy_function
from minijit.numpy.manipulation import broadcast_to, diagonal, moveaxis
from minijit.numpy.reductions import any as reduce_any
from minijit.ops.axes import shape_of
from minijit.ops.binary import add, divide, multiply, subtract
from minijit.ops.compare import equal, greater_equal
from minijit.ops.create import iota, zeros
from minijit.ops.join import concatenate, pad
from minijit.ops.promote import as_operand, convert, is_traced, result_dtype
from minijit.ops.select import where
from minijit.ops.shape import expand_dims, reshape
from minijit.ops.unary import floor

__all__ = [
    "diag",
    "diagflat",
    "eye",
    "fromfunction",
    "identity",
    "indices",
    "linspace",
    "meshgrid",
    "tri",
    "tril",
    "triu",
]


def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = None) -> Any:
    """Return an ``(N, M)`` array of ones on the diagonal ``k``, zeros elsewhere.

    The dtype is ``config.default_float`` by default; the extents are static.
    """
    kind = default_dtype(float) if dtype is None else canonical_dtype(dtype)
    rows, columns, offset = _matrix(N, M, k)
    if not is_traced():
        return np.eye(rows, columns, offset, kind)
    return convert(equal(_difference(rows, columns), offset), kind)


def identity(n: Any, dtype: Any = None) -> Any:
    """Return the identity matrix of ``n`` rows."""
    return eye(n, dtype=dtype)


def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = None) -> Any:
    """Return an ``(N, M)`` array of ones at and below the diagonal ``k``, zeros above it."""
    kind = default_dtype(float) if dtype is None else canonical_dtype(dtype)
    rows, columns, offset = _matrix(N, M, k)
    if not is_traced():
        return np.tri(rows, columns, offset, kind)
    return convert(greater_equal(offset, _difference(rows, columns)), kind)


def _matrix(rows: Any, columns: Any, k: Any) -> tuple[int, int, int]:
    first = operator.index(rows)
    return first, first if columns is None else operator.index(columns), operator.index(k)


def _difference(rows: int, columns: int) -> Any:
    """Return the column index minus the row index."""
    shape = (rows, columns)
    return iota(shape, 1, np.int64) - iota(shape, 0, np.int64)


@numpy_function()
def tril(m: Any, k: int = 0) -> Any:
    """Keep the elements at and below the diagonal ``k`` of the last two axes; zeros above it."""
    return _triangle(m, lambda difference: greater_equal(operator.index(k), difference))


@numpy_function()
def triu(m: Any, k: int = 0) -> Any:
    """Keep the elements at and above the diagonal ``k`` of the last two axes; zeros below it."""
    return _triangle(m, lambda difference: greater_equal(difference, operator.index(k)))


def _triangle(m: Any, kept: Callable[[Any], Any]) -> Any:
    m = as_operand(m)
    aval = abstractify(m)
    shape = aval.shape if aval.ndim > 1 else aval.shape * 2  # NumPy makes rows of a vector
    mask = kept(_difference(*shape[-2:]))
    return where(mask, m, aval.dtype.type(0))


@numpy_function()
def diag(v: Any, k: int = 0) -> Any:
    """Return the diagonal ``k`` of a matrix, or the matrix that has a vector on it."""
    v = as_operand(v)
    aval = abstractify(v)
    if aval.ndim == 2:
        return diagonal(v, k)
    if aval.ndim != 1:
        raise ValueError(
            f"diag takes a vector or a matrix, not {aval.ndim} axes (at {user_line()})"
        )
    offset = operator.index(k)
    size = aval.shape[0] + abs(offset)
    # Above the diagonal an element is found by its row, below it by its column.
    along = expand_dims(pad(v, 0, [0], [abs(offset)]), (1,) if offset >= 0 else (0,))
    values = broadcast_to(along, (size, size))
    return where(equal(_difference(size, size), offset), values, aval.dtype.type(0))


@numpy_function()
def diagflat(v: Any, k: int = 0) -> Any:
    """Return the matrix that has the elements of ``v``, flattened, on the diagonal ``k``."""
    v = as_operand(v)
    return diag(reshape(v, (abstractify(v).size,)), k)


def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Return ``num`` evenly spaced values from ``start`` to ``stop``, as NumPy computes them.

    Args:
        start: First value; may be a traced array.
        stop: Last value (after the last without ``endpoint``); may be a traced array.
        num: Static count.
        endpoint: Whether ``stop`` is the last value.
        retstep: Also return the distance.
        dtype: By default minijit's default float for Python numbers, else what NumPy gives.
        axis: Where the values are laid out, when ``start`` or ``stop`` are arrays.

    Raises:
        ValueError: ``num`` is negative.
    """
    plain = all(python_scalar_dtype(value) is not None for value in (start, stop))
    kind = default_dtype(float) if dtype is None and plain else dtype
    if not is_traced(start, stop):
        plainly: Any = np.linspace  # its overloads do not cover a retstep that is no literal
        return plainly(start, stop, num, endpoint, retstep, kind, axis)
    return _traced_linspace(start, stop, num, endpoint, retstep, kind, axis)


def _traced_linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: None = None,
) -> Any:
    count = operator.index(num)
    if count < 0:
        raise ValueError(f"number of samples, {count}, must be non-negative (at {user_line()})")
    avals = [abstractify(as_operand(end)) for end in (start, stop)]
    work = result_dtype(avals)
    work = work if is_floating(work) else np.dtype(np.float64)
    kind = work if dtype is None else canonical_dtype(dtype)
    # NumPy adds the start, as an array of its own dtype, to values in the working dtype.
    start, stop = (
        convert(as_operand(end), aval.dtype) for end, aval in zip((start, stop), avals, strict=True)
    )
    delta = subtract(convert(stop, work), convert(start, work))
    shape = abstractify(delta).shape
    divisions = count - 1 if endpoint else count
    numbers = iota((count,), 0, work)
    if shape:
        numbers = broadcast_to(reshape(numbers, (count,) + (1,) * len(shape)), (count, *shape))
    if divisions > 0:
        step = divide(delta, divisions)
        # Where some step underflows to zero, NumPy divides first, for all of them.
        vanishes = reduce_any(equal(step, 0))
        divided_first = multiply(divide(numbers, divisions), delta)
        values = where(vanishes, divided_first, multiply(numbers, step))
    else:
        step, values = work.type(np.nan), multiply(numbers, delta)
    values = convert(add(values, start), work)
    if endpoint and count > 1:
        values = where(equal(numbers, divisions), convert(stop, work), values)
    if is_integer(kind):
        values = floor(values)
    result = convert(moveaxis(values, 0, axis) if axis else values, kind)
    return (result, step) if retstep else result


functions["linspace"] = _traced_linspace


@numpy_function()
def meshgrid(
    *xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True
) -> tuple[Any, ...]:
    """Return coordinate matrices of coordinate vectors.

    Args:
        xi: Vectors.
        indexing: "xy" (the second vector runs along the first axis) or "ij".
        sparse: Keep unit axes instead of repeating.
        copy: Has no meaning for traced arrays.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is 'xy' or 'ij', not {indexing!r} (at {user_line()})")
    vectors = [as_operand(x) for x in xi]
    sizes = [abstractify(x).size for x in vectors]
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = [1, 0]
    shape = [0] * len(axes)
    for n, axis in zip(sizes, axes, strict=True):
        shape[axis] = n
    grids = [
        reshape(x, [n if other == axis else 1 for other in range(len(axes))])
        for x, n, axis in zip(vectors, sizes, axes, strict=True)
    ]
    return tuple(grids if sparse else (broadcast_to(grid, tuple(shape)) for grid in grids))


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """Return the index of each element along each axis, stacked along a new first axis.

    With ``sparse`` they are a tuple of arrays with unit axes. The dtype is ``config.default_int``
    by default.
    """
    shape = shape_of(dimensions)
    kind = default_dtype(int) if dtype is None else canonical_dtype(dtype)
    if not is_traced():
        return np.indices(shape, kind, sparse)  # type: ignore[call-overload]
    if sparse:
        lines = [
            [n if axis == other else 1 for other, n in enumerate(shape)]
            for axis in range(len(shape))
        ]
        return tuple(iota(line, axis, kind) for axis, line in enumerate(lines))
    if not shape:
        return zeros((0,), kind)
    return concatenate([expand_dims(iota(shape, axis, kind), (0,)) for axis in range(len(shape))])


def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = None, **kwargs: Any
) -> Any:
    """Return ``function`` of the indices along each axis; they are minijit's default float."""
    kind = default_dtype(float) if dtype is None else canonical_dtype(dtype)
    extents = shape_of(shape)
    grids = [iota(extents, axis, kind) for axis in range(len(extents))]
    return function(*grids, **kwargs)
