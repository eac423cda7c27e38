"""Products of matrices by NumPy's rules, run by the array library (BLAS, cuBLAS) or in loops."""

from __future__ import annotations

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
from minijit.ops.axes import normalize_axes
from minijit.ops.library import library
from minijit.ops.promote import broadcast_shapes, convert, is_traced, loop_dtypes
from minijit.ops.shape import reshape, transpose

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
        return xp.matmul(left, right)


def _matmul_into(xp: Any, left: ShapedArray, right: ShapedArray) -> Any:
    # On two dense matrices both call the same BLAS routine; dot gets there quicker.
    blas = left.dtype.kind == "f" and left.dtype.itemsize >= 4
    return xp.dot if blas and left.ndim == right.ndim == 2 else xp.matmul


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


matmul_p = library(
    "matmul",
    eager=_matmul_eager,
    into=_matmul_into,
    contraction=Contraction(_matmul_terms, _matmul_factors),
    abstract_eval=_matmul_aval,
    doc="Product of matrices, batched over leading axes; 1-D operands as in NumPy.",
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
