"""Products of matrices by NumPy's rules, run by the array library (BLAS, cuBLAS) or in loops."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import canonical_dtype
from minijit.graph.index import Affine
from minijit.graph.primitive import Contraction
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify, array_namespace, bind
from minijit.graph.tracer import ufuncs
from minijit.ops.axes import inserted, normalize_axes
from minijit.ops.batching import Dim, own_shape
from minijit.ops.binary import add, multiply
from minijit.ops.library import library
from minijit.ops.promote import broadcast_shapes, convert, is_traced, loop_dtypes
from minijit.ops.reduce import reduce_any_p, reduce_sum_p
from minijit.ops.shape import move_axis, reshape, squeeze, transpose

__all__ = ["contract", "matmul", "matmul_p"]


def _product_shape(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of ``left @ right``.

    Raises:
        ValueError: it is not defined; the message names the user's line.
    """
    if not left or not right:
        raise ValueError(f"matmul of shapes {left}, {right}: use * for scalars (at {user_line()})")
    inner = right[-2] if len(right) > 1 else right[0]
    if left[-1] != inner:
        raise ValueError(
            f"matmul of shapes {left}, {right}: the inner extents {left[-1]} and {inner} differ "
            f"(at {user_line()})"
        )
    batch = broadcast_shapes(left[:-2], right[:-2])
    return batch + left[-2:-1] + (right[-1:] if len(right) > 1 else ())


def _matmul_aval(left: ShapedArray, right: ShapedArray) -> ShapedArray:
    loops = loop_dtypes(np.matmul, (left.strip_weak_type(), right.strip_weak_type()))
    if loops[:2] != (left.dtype, right.dtype):
        raise TypeError(f"matmul computes with {loops[:2]}, not with {left} and {right}")
    return ShapedArray(_product_shape(left.shape, right.shape), loops[2])


def _matmul_eager(xp: Any, left: Any, right: Any) -> Any:
    with np.errstate(all="ignore"):
        if xp is np and left.dtype == np.float16:
            # NumPy has no routine for it; its loop adds up in float32 as well.
            return xp.matmul(left.astype(np.float32), right.astype(np.float32)).astype(np.float16)
        return xp.matmul(left, right)


def _matmul_into(xp: Any, left: ShapedArray, right: ShapedArray) -> Any:
    # On vectors and dense matrices both call the same BLAS routine; dot gets there quicker.
    blas = left.dtype.kind == "f" and left.dtype.itemsize >= 4
    if blas and max(left.ndim, right.ndim) <= 2:
        return xp.dot

    if xp is np and left.dtype == np.float16:
        return None

    def into(left: Any, right: Any, *, out: Any) -> None:
        with np.errstate(all="ignore"):
            xp.matmul(left, right, out=out)

    return into


def _matmul_terms(avals: Sequence[ShapedArray]) -> int:
    return avals[0].shape[-1]


def _matmul_factors(
    index: tuple[Affine, ...], avals: Sequence[ShapedArray], term: Affine
) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
    left, right = (aval.shape for aval in avals)
    own = list(index)
    columns = (own.pop(),) if len(right) > 1 else ()
    rows = (own.pop(),) if len(left) > 1 else ()

    def batch(shape: tuple[int, ...]) -> tuple[Affine, ...]:
        axes = own[len(own) - len(shape) :]
        return tuple(Affine() if n == 1 else at for at, n in zip(axes, shape, strict=True))

    return (*batch(left[:-2]), *rows, term), (*batch(right[:-2]), term, *columns)


def _matmul_batch(dims: Sequence[Dim], left: Any, right: Any) -> tuple[Any, int]:
    ranks = [len(own_shape(x, dim)) for x, dim in zip((left, right), dims, strict=True)]
    if dims[1] is None and ranks[1] <= 2:
        # All rows of the batch are multiplied with one matrix, wherever the batch lies among them.
        at = min(dims[0] or 0, ranks[0] - 1)
        return bind(matmul_p, move_axis(left, dims[0] or 0, at), right), at
    if dims[0] is None and ranks[0] <= 2 and ranks[1] == 1:
        # The batch is a matrix of rows, and so is the result.
        matrix = transpose(left) if ranks[0] == 2 else left
        return bind(matmul_p, move_axis(right, dims[1] or 0, 0), matrix), 0
    if ranks == [1, 1]:
        return _dots(
            *(move_axis(x, dim or 0, 0) for x, dim in zip((left, right), dims, strict=True))
        )
    # In front of a stack of matrices, which vectors become as well.
    stack = max(2, *ranks) - 2
    operands = []
    for x, dim, rank, unit in ((left, dims[0], ranks[0], 0), (right, dims[1], ranks[1], 1)):
        shape = own_shape(x, dim)
        matrix = inserted(shape, unit, 1) if rank == 1 else shape
        size = () if dim is None else (abstractify(x).shape[dim],)
        x = x if dim is None else move_axis(x, dim, 0)
        missing = (1,) * (stack + 2 - len(matrix)) if size else ()
        operands.append(reshape(x, (*size, *missing, *matrix)))
    units = [axis for axis, rank in ((-2, ranks[0]), (-1, ranks[1])) if rank == 1]
    result = bind(matmul_p, *operands)
    return squeeze(result, units) if units else result, 0


def _dots(left: Any, right: Any) -> tuple[Any, int]:
    """Return the products of the rows of two matrices, which no library need compute."""
    total_p = reduce_any_p if abstractify(left).dtype.kind == "b" else reduce_sum_p
    return bind(total_p, multiply(left, right), axes=(1,)), 0


def _matmul_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (left, right), (moved_left, moved_right) = primals, tangents
    terms = [] if moved_left is None else [bind(matmul_p, moved_left, right)]
    terms += [] if moved_right is None else [bind(matmul_p, left, moved_right)]
    return bind(matmul_p, left, right), functools.reduce(add, terms)


def _matmul_transpose(cotangent: Any, left: Any, right: Any) -> tuple[Any, Any]:
    """Return the cotangent times the other operand, summed over what that one is repeated along."""
    rows, columns = _as_matrix(left.shape, 0), _as_matrix(right.shape, 1)
    batch = broadcast_shapes(rows[:-2], columns[:-2])
    cotangent = reshape(cotangent, (*batch, rows[-2], columns[-1]))
    if isinstance(left, ShapedArray):
        product = _summed(cotangent, _swapped(reshape(right, columns)), rows)
        return reshape(product, left.shape), None
    product = _summed(_swapped(reshape(left, rows)), cotangent, columns)
    return None, reshape(product, right.shape)


def _as_matrix(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return the shape of an operand, a vector being a row or a column."""
    if len(shape) > 1:
        return shape
    return (1, *shape) if axis == 0 else (*shape, 1)


def _swapped(x: Any) -> Any:
    axes = tuple(range(x.ndim))
    return transpose(x, (*axes[:-2], axes[-1], axes[-2]))


def _summed(left: Any, right: Any, shape: tuple[int, ...]) -> Any:
    """Return the product of matrices in a shape with fewer batches, over which it is summed."""
    if left.shape[-1] == 1:
        product = left * right  # elementwise, and fuses
    elif len(shape) == 2 and left.shape[:-2] == right.shape[:-2]:
        batch = tuple(range(left.ndim - 2))
        return contract(left, right, ((*batch, left.ndim - 1), (*batch, right.ndim - 2)))
    else:
        product = bind(matmul_p, left, right)
    own = (1,) * (product.ndim - len(shape)) + shape
    axes = tuple(a for a in range(product.ndim) if own[a] == 1 != product.shape[a])
    return bind(reduce_sum_p, product, axes=axes) if axes else product


matmul_p = library(
    "matmul",
    eager=_matmul_eager,
    into=_matmul_into,
    contraction=Contraction(_matmul_terms, _matmul_factors),
    abstract_eval=_matmul_aval,
    jvp=_matmul_jvp,
    transpose=_matmul_transpose,
    doc="Product of matrices, batched over leading axes; 1-D operands as in NumPy.",
    batch=_matmul_batch,
)


def matmul(a: Any, b: Any, *, dtype: Any = None) -> Any:
    """Return ``a @ b``.

    Args:
        a: Shape ``(..., n, k)`` or ``(k,)``.
        b: Shape ``(..., k, m)`` or ``(k,)``.
        dtype: To compute and return in; by default what NumPy takes (integers stay integers).

    Raises:
        ValueError: the extents do not fit, or an operand is a scalar.
    """
    if not is_traced(a, b):
        options = {} if dtype is None else {"dtype": dtype}
        return array_namespace((a, b)).matmul(a, b, **options)
    avals = (abstractify(a), abstractify(b))
    _product_shape(avals[0].shape, avals[1].shape)
    wanted = None if dtype is None else canonical_dtype(dtype)
    loops = loop_dtypes(np.matmul, [aval.strip_weak_type() for aval in avals], wanted)
    return bind(matmul_p, convert(a, loops[0]), convert(b, loops[1]))


def contract(
    a: Any,
    b: Any,
    axes: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Any:
    """Return the products of ``a`` and ``b`` summed over pairs of axes, as one matrix product.

    Args:
        a: An array.
        b: An array.
        axes: The axes of each that are summed over, in pairs of one extent.
        batch: The axes of each that go along with each other, in pairs of one extent.

    Returns:
        An array of the batch axes, then the other axes of ``a``, then those of ``b``.

    Raises:
        ValueError: paired axes differ in extent.
    """
    left, right = abstractify(a).shape, abstractify(b).shape
    sums = (normalize_axes(tuple(axes[0]), len(left)), normalize_axes(tuple(axes[1]), len(right)))
    runs = (normalize_axes(tuple(batch[0]), len(left)), normalize_axes(tuple(batch[1]), len(right)))
    for pairs in (zip(*sums, strict=True), zip(*runs, strict=True)):
        for i, j in pairs:
            if left[i] != right[j]:
                raise ValueError(
                    f"shapes {left} and {right} do not fit: axis {i} has extent {left[i]}, "
                    f"axis {j} has {right[j]} (at {user_line()})"
                )
    rows = tuple(i for i in range(len(left)) if i not in sums[0] + runs[0])
    columns = tuple(j for j in range(len(right)) if j not in sums[1] + runs[1])
    shared = tuple(left[i] for i in runs[0])
    inner = math.prod(left[i] for i in sums[0])
    outer = tuple(left[i] for i in rows) + tuple(right[j] for j in columns)
    a = reshape(
        transpose(a, runs[0] + rows + sums[0]), (*shared, math.prod(left[i] for i in rows), inner)
    )
    b = reshape(
        transpose(b, runs[1] + sums[1] + columns),
        (*shared, inner, math.prod(right[j] for j in columns)),
    )
    return reshape(matmul(a, b), shared + outer)


ufuncs["matmul"] = matmul
