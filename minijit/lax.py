"""The operations, branches and loops under the names and signatures of ``jax.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.graph.dtypes import canonical_dtype, is_integer
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify, bind
from minijit.numpy import elementwise, reductions
from minijit.ops import binary, bitwise, compare, create, division, join, shape, unary
from minijit.ops.associative_scan import associative_scan
from minijit.ops.axes import extents_of, normalize_axis, shape_of
from minijit.ops.call import stop_gradient
from minijit.ops.cast import astype as convert_element_type
from minijit.ops.cond import cond, switch
from minijit.ops.dot import contract, matmul
from minijit.ops.dynamic_slice import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
)
from minijit.ops.map import map
from minijit.ops.promote import broadcast_in_dim_p, convert
from minijit.ops.scan import scan
from minijit.ops.select import clip
from minijit.ops.select import where as select
from minijit.ops.shape import expand_dims, reshape, rev, squeeze, transpose
from minijit.ops.while_loop import fori_loop, while_loop

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "associative_scan",
    "atan",
    "atan2",
    "atanh",
    "batch_matmul",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast",
    "broadcast_in_dim",
    "broadcasted_iota",
    "cbrt",
    "ceil",
    "clamp",
    "collapse",
    "concatenate",
    "cond",
    "convert_element_type",
    "cos",
    "cosh",
    "div",
    "dot",
    "dot_general",
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "eq",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "floor",
    "fori_loop",
    "full",
    "full_like",
    "ge",
    "gt",
    "index_in_dim",
    "integer_pow",
    "iota",
    "is_finite",
    "le",
    "log",
    "log1p",
    "logistic",
    "lt",
    "map",
    "max",
    "min",
    "mul",
    "ne",
    "neg",
    "nextafter",
    "pad",
    "population_count",
    "pow",
    "reciprocal",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_prod",
    "reduce_sum",
    "rem",
    "reshape",
    "rev",
    "rsqrt",
    "scan",
    "select",
    "shift_left",
    "shift_right_arithmetic",
    "sign",
    "sin",
    "sinh",
    "slice",
    "slice_in_dim",
    "sqrt",
    "square",
    "squeeze",
    "stop_gradient",
    "sub",
    "switch",
    "tan",
    "tanh",
    "transpose",
    "while_loop",
]

# Some of these names hide Python's own from here on.
add, sub, mul = binary.add, binary.subtract, binary.multiply
max, min, nextafter = binary.maximum, binary.minimum, binary.nextafter
rem, pow = division.fmod, elementwise.power
abs, neg, sign, square = unary.absolute, unary.negative, unary.sign, unary.square
reciprocal, sqrt, rsqrt, cbrt = unary.reciprocal, unary.sqrt, unary.rsqrt, unary.cbrt
floor, ceil, is_finite = unary.floor, unary.ceil, unary.isfinite
exp, exp2, expm1 = elementwise.exp, elementwise.exp2, elementwise.expm1
log, log1p = elementwise.log, elementwise.log1p
sin, cos, tan = elementwise.sin, elementwise.cos, elementwise.tan
asin, acos, atan, atan2 = elementwise.asin, elementwise.acos, elementwise.atan, elementwise.atan2
sinh, cosh, tanh = elementwise.sinh, elementwise.cosh, elementwise.tanh
asinh, acosh, atanh = elementwise.asinh, elementwise.acosh, elementwise.atanh
logistic, erf, erfc = elementwise.sigmoid, elementwise.erf, elementwise.erfc
eq, ne, lt = compare.equal, compare.not_equal, compare.less
le, gt, ge = compare.less_equal, compare.greater, compare.greater_equal
bitwise_and, bitwise_or = bitwise.bitwise_and, bitwise.bitwise_or
bitwise_xor, bitwise_not = bitwise.bitwise_xor, bitwise.invert
shift_left, shift_right_arithmetic = bitwise.left_shift, bitwise.right_shift
population_count = bitwise.bitwise_count
batch_matmul = matmul


def div(x: Any, y: Any) -> Any:
    """Return ``x / y``; integers are divided towards zero, as in C."""
    avals = (abstractify(x), abstractify(y))
    if not all(is_integer(aval.dtype) for aval in avals):
        return binary.divide(x, y)
    quotient = division.floor_divide(x, y)
    inexact = compare.not_equal(x, binary.multiply(quotient, y))
    below_zero = compare.not_equal(compare.less(x, 0), compare.less(y, 0))
    rounded_down = compare.logical_and(inexact, below_zero)
    return binary.add(quotient, convert(rounded_down, abstractify(quotient).dtype))


def integer_pow(x: Any, y: int) -> Any:
    """Return ``x ** y`` for a static integer ``y``."""
    return pow(x, y)


def clamp(min: Any, x: Any, max: Any) -> Any:
    """Limit ``x`` to ``[min, max]``."""
    return clip(x, min, max)


# shapes


def broadcast(operand: Any, sizes: Sequence[int]) -> Any:
    """Repeat along new leading axes of extents ``sizes``."""
    own = abstractify(operand).shape
    dims = tuple(range(len(sizes), len(sizes) + len(own)))
    return broadcast_in_dim(operand, (*extents_of(sizes), *own), dims)


def broadcast_in_dim(
    operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Any:
    """Broadcast to ``shape``, axis i of the operand becoming axis ``broadcast_dimensions[i]``."""
    return bind(
        broadcast_in_dim_p,
        operand,
        shape=extents_of(shape),
        dims=shape_of(tuple(broadcast_dimensions)),
    )


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Merge the axes from ``start_dimension`` up to ``stop_dimension``."""
    extents = abstractify(operand).shape
    first, last, _ = _range_of(start_dimension, stop_dimension, 1, len(extents))
    merged = int(np.prod(extents[first:last], dtype=np.int64))
    return reshape(operand, (*extents[:first], merged, *extents[last:]))


def _range_of(start: int | None, stop: int | None, step: int, extent: int) -> tuple[int, int, int]:
    """Return what ``start:stop:step`` means on an axis of ``extent`` elements."""
    positions = np.s_[start:stop:step].indices(extent)
    return positions[0], positions[1], positions[2]


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """Return the elements from ``start_indices`` to ``limit_indices`` in steps of ``strides``."""
    starts, limits = shape_of(tuple(start_indices)), shape_of(tuple(limit_indices))
    steps = (1,) * len(starts) if strides is None else shape_of(tuple(strides))
    extents = abstractify(operand).shape
    bounds = tuple(zip(starts, limits, steps, extents, strict=True))
    if not all(0 <= start <= limit <= n and step > 0 for start, limit, step, n in bounds):
        raise ValueError(f"slice {starts} to {limits} leaves shape {extents} (at {user_line()})")
    return shape.static_slice(
        operand, [range(start, limit, step) for start, limit, step, _ in bounds]
    )


def slice_in_dim(
    operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Any:
    """Return the slice ``start_index:limit_index:stride`` along one axis."""
    extents = abstractify(operand).shape
    ranges = [range(n) for n in extents]
    axis = normalize_axis(axis, len(extents))
    ranges[axis] = range(*_range_of(start_index, limit_index, stride, extents[axis]))
    return shape.static_slice(operand, ranges)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """Return the elements at ``index`` along one axis."""
    extents = abstractify(operand).shape
    axis = normalize_axis(axis, len(extents))
    position = normalize_axis(index, extents[axis])
    result = slice_in_dim(operand, position, position + 1, 1, axis)
    return result if keepdims else squeeze(result, axis)


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Join arrays along an axis."""
    return join.concatenate(operands, dimension)


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """Surround with ``padding_value``: ``(before, after, between)`` elements for each axis.

    Negative numbers before and after remove elements.
    """
    extents = abstractify(operand).shape
    for axis, (low, high, between) in enumerate(padding_config):
        if between:
            operand = join.spread(operand, padding_value, axis, between)
        if low < 0 or high < 0:
            extent = abstractify(operand).shape[axis]
            start, stop = -np.minimum(low, 0), extent + np.minimum(high, 0)
            operand = slice_in_dim(operand, int(start), int(stop), 1, axis)
    if len(padding_config) != len(extents):
        raise ValueError(f"pad: {len(padding_config)} triples for {len(extents)} axes")
    low_high = [[int(np.maximum(width, 0)) for width in triple[:2]] for triple in padding_config]
    lows, highs = [pair[0] for pair in low_high], [pair[1] for pair in low_high]
    return join.pad(operand, padding_value, lows, highs)


# creation


def iota(dtype: Any, size: int) -> Any:
    """Return ``0, 1, ..., size - 1``."""
    return create.iota((size,), 0, dtype)


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Any:
    """Return the index of each element along ``dimension``."""
    return create.iota(tuple(shape), dimension, dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """Return an array of one value."""
    return create.full(shape, fill_value, dtype)


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Return an array of one value with the shape and dtype of ``x``."""
    aval = abstractify(x)
    extents = aval.shape if shape is None else shape
    return create.full(extents, fill_value, aval.dtype if dtype is None else dtype)


# products and reductions


def dot(lhs: Any, rhs: Any) -> Any:
    """Return the product of vectors and matrices."""
    return matmul(lhs, rhs)


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: tuple[
        tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
    ],
    preferred_element_type: Any = None,
) -> Any:
    """Sum products over pairs of axes, along batch axes.

    Args:
        lhs: An array.
        rhs: An array.
        dimension_numbers: ``((contracted of lhs, of rhs), (batch of lhs, of rhs))``.
        preferred_element_type: Dtype to compute and return in.
    """
    if preferred_element_type is not None:
        kind = canonical_dtype(preferred_element_type)
        lhs, rhs = convert(lhs, kind), convert(rhs, kind)
    contracted, batch = dimension_numbers
    return contract(lhs, rhs, contracted, batch)


def argmax(operand: Any, axis: int, index_dtype: Any = np.int32) -> Any:
    """Return the position of the first largest element along ``axis``."""
    return convert(reductions.argmax(operand, axis), canonical_dtype(index_dtype))


def argmin(operand: Any, axis: int, index_dtype: Any = np.int32) -> Any:
    """Return the position of the first smallest element along ``axis``."""
    return convert(reductions.argmin(operand, axis), canonical_dtype(index_dtype))


def reduce_sum(operand: Any, axes: Sequence[int]) -> Any:
    """Sum over ``axes``, in the operand's dtype."""
    return reductions.sum(operand, tuple(axes), abstractify(operand).dtype)


def reduce_prod(operand: Any, axes: Sequence[int]) -> Any:
    """Product over ``axes``, in the operand's dtype."""
    return reductions.prod(operand, tuple(axes), abstractify(operand).dtype)


def reduce_max(operand: Any, axes: Sequence[int]) -> Any:
    """Return the largest element over ``axes``."""
    return reductions.max(operand, tuple(axes))


def reduce_min(operand: Any, axes: Sequence[int]) -> Any:
    """Return the smallest element over ``axes``."""
    return reductions.min(operand, tuple(axes))


def reduce_and(operand: Any, axes: Sequence[int]) -> Any:
    """Whether all elements hold over ``axes``."""
    return reductions.all(operand, tuple(axes))


def reduce_or(operand: Any, axes: Sequence[int]) -> Any:
    """Whether some element holds over ``axes``."""
    return reductions.any(operand, tuple(axes))
