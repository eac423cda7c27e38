"""Products of arrays: dot and its relatives, each one matrix product or one multiplication."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.graph.tracer import functions, ufuncs
from minijit.numpy.declare import numpy_function, refuse_out
from minijit.numpy.manipulation import diagonal, moveaxis
from minijit.numpy.reductions import sum as reduce_sum
from minijit.ops.binary import multiply
from minijit.ops.dot import contract, matmul
from minijit.ops.promote import as_operand, convert
from minijit.ops.shape import expand_dims, reshape

__all__ = [
    "dot",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "outer",
    "tensordot",
    "trace",
    "vdot",
    "vecdot",
    "vecmat",
]


def _array(value: Any) -> Any:
    """Return ``value`` with a strong dtype: NumPy's dot makes Python scalars arrays."""
    value = as_operand(value)
    return convert(value, abstractify(value).dtype)


@numpy_function(method=True)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Sum over the last axis of ``a`` and the second to last of ``b``; scalars multiply.

    Raises:
        ValueError: the two extents differ.
    """
    refuse_out(out)
    a, b = _array(a), _array(b)
    left, right = abstractify(a).ndim, abstractify(b).ndim
    if not left or not right:
        return multiply(a, b)
    if left <= 2 and right <= 2:
        return matmul(a, b)
    return contract(a, b, ([left - 1], [max(right - 2, 0)]))


@numpy_function()
def vdot(a: Any, b: Any, /) -> Any:
    """Sum of the products of all elements, both arrays flattened."""
    a, b = as_operand(a), as_operand(b)
    return matmul(reshape(a, (abstractify(a).size,)), reshape(b, (abstractify(b).size,)))


@numpy_function()
def inner(a: Any, b: Any, /) -> Any:
    """Sum over the last axes of both; scalars multiply."""
    a, b = _array(a), _array(b)
    left, right = abstractify(a).ndim, abstractify(b).ndim
    if not left or not right:
        return multiply(a, b)
    return contract(a, b, ([left - 1], [right - 1]))


@numpy_function("linalg.outer")
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Return ``a[i] * b[j]`` of two arrays, flattened."""
    refuse_out(out)
    a, b = as_operand(a), as_operand(b)
    column = reshape(a, (abstractify(a).size, 1))
    return multiply(column, reshape(b, (1, abstractify(b).size)))


@numpy_function("linalg.tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum over pairs of axes.

    Args:
        a: An array.
        b: An array.
        axes: A number n (the last n axes of ``a`` with the first n of ``b``), or the axes of each.

    Raises:
        ValueError: paired axes differ in number or extent.
    """
    a, b = as_operand(a), as_operand(b)
    if isinstance(axes, Sequence):
        first, second = (tuple(x) if isinstance(x, Sequence) else (x,) for x in axes)
    else:
        count, ndim = operator.index(axes), abstractify(a).ndim
        first, second = tuple(range(ndim - count, ndim)), tuple(range(count))
    if len(first) != len(second):
        raise ValueError(f"tensordot: axes {axes} do not come in pairs (at {user_line()})")
    return contract(a, b, (first, second))


@numpy_function("linalg.vecdot")
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the products of vectors along ``axis``, broadcast over the other axes."""
    x1, x2 = moveaxis(as_operand(x1), axis, -1), moveaxis(as_operand(x2), axis, -1)
    return matmul(expand_dims(x1, (-2,)), expand_dims(x2, (-1,)))[..., 0, 0]


@numpy_function()
def matvec(x1: Any, x2: Any, /) -> Any:
    """Return the products of matrices ``(..., n, k)`` and vectors ``(..., k)``."""
    return matmul(as_operand(x1), expand_dims(as_operand(x2), (-1,)))[..., 0]


@numpy_function()
def vecmat(x1: Any, x2: Any, /) -> Any:
    """Return the products of vectors ``(..., k)`` and matrices ``(..., k, m)``."""
    return matmul(expand_dims(as_operand(x1), (-2,)), as_operand(x2))[..., 0, :]


@numpy_function()
def kron(a: Any, b: Any) -> Any:
    """Return the Kronecker product: each element of ``a`` times the whole of ``b``."""
    a, b = as_operand(a), as_operand(b)
    left, right = abstractify(a).shape, abstractify(b).shape
    ndim = max(len(left), len(right))
    left = (1,) * (ndim - len(left)) + left
    right = (1,) * (ndim - len(right)) + right
    product = multiply(
        reshape(a, [extent for n in left for extent in (n, 1)]),
        reshape(b, [extent for n in right for extent in (1, n)]),
    )
    return reshape(product, [math.prod(pair) for pair in zip(left, right, strict=True)])


@numpy_function(method=True)
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """Sum of the diagonal ``offset`` of two axes."""
    refuse_out(out)
    return reduce_sum(diagonal(a, offset, axis1, axis2), -1, dtype)


functions["linalg.matmul"] = matmul
for _name in ("vecdot", "matvec", "vecmat"):
    ufuncs[_name] = functions[_name]
