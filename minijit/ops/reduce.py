"""Reductions as monoids.

A combination and its identity, from which both targets build their loops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import BOOL
from minijit.graph.primitive import LINEAR, Monoid, Primitive, find_primitive
from minijit.graph.trace import bind
from minijit.ops.compare import equal
from minijit.ops.define import reduction
from minijit.ops.promote import broadcast_in_dim_p, convert
from minijit.ops.select import where
from minijit.ops.shape import reshape, static_slice, transpose

__all__ = [
    "argmax_p",
    "argmin_p",
    "reduce_all_p",
    "reduce_any_p",
    "reduce_max_p",
    "reduce_min_p",
    "reduce_prod_p",
    "reduce_sum_p",
]

Code = Callable[..., Any]


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return np.False_
    return dtype.type(-np.inf) if dtype.kind == "f" else dtype.type(np.iinfo(dtype).min)


def _highest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return np.True_
    return dtype.type(np.inf) if dtype.kind == "f" else dtype.type(np.iinfo(dtype).max)


def _same(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype


def _folded(name: str) -> Callable[..., Any]:
    """Return eager code by the ufunc-like function ``name``, in the operand's own dtype."""

    def eager(xp: Any, operand: Any, *, axes: tuple[int, ...]) -> Any:
        operand = xp.asarray(operand)
        with np.errstate(all="ignore"):
            return getattr(xp, name)(operand, axis=axes)

    return eager


def _accumulated(name: str) -> Callable[..., Any]:
    def eager(xp: Any, operand: Any, *, axes: tuple[int, ...]) -> Any:
        operand = xp.asarray(operand)
        with np.errstate(all="ignore"):
            return getattr(xp, name)(operand, axis=axes, dtype=operand.dtype)

    return eager


def _position(name: str) -> Callable[..., Any]:
    def eager(xp: Any, operand: Any, *, axes: tuple[int, ...]) -> Any:
        operand = xp.asarray(operand)
        kept = [axis for axis in range(operand.ndim) if axis not in axes]
        moved = operand.transpose(*kept, *axes)
        count = math.prod(operand.shape[axis] for axis in axes)
        rows = moved.reshape(*moved.shape[: len(kept)], count)
        return getattr(xp, name)(rows, axis=-1)

    return eager


def _repeated(x: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """Return an array from which ``axes`` disappeared in the shape that it had."""
    kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
    return bind(broadcast_in_dim_p, x, shape=shape, dims=kept)


def _sum_transpose(cotangent: Any, operand: ShapedArray, *, axes: tuple[int, ...]) -> tuple[Any]:
    return (_repeated(cotangent, operand.shape, axes),)


def _extremum_jvp(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    """Return the rule of an extremum: equal elements share its derivative evenly."""

    def jvp(primals: Any, tangents: Any, *, axes: tuple[int, ...]) -> tuple[Any, Any]:
        (x,), (moved,) = primals, tangents
        result = bind(primitive(), x, axes=axes)
        held = equal(x, _repeated(result, x.shape, axes))
        # Chosen, not multiplied by zero: a NaN beside the extremum is none of its derivative.
        total = bind(reduce_sum_p, where(held, moved, x.dtype.type(0)), axes=axes)
        return result, total / bind(reduce_sum_p, convert(held, x.dtype), axes=axes)

    return jvp


def _prod_jvp(primals: Any, tangents: Any, *, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Multiply halves with each other, by the product rule, until one element is left.

    A product divided by one of its factors would be wrong where that is zero.
    """
    (x,), (moved,) = primals, tangents
    product, change = _in_rows(x, axes), _in_rows(moved, axes)
    while (count := product.shape[-1]) > 1:
        half = count // 2
        (a, b, c), (da, db, dc) = _cut(product, half), _cut(change, half)
        product, change = a * b, a * db + da * b
        if count % 2:
            product, change = _joined(product, c), _joined(change, dc)
    kept = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    return bind(reduce_prod_p, x, axes=axes), reshape(change, kept)


def _in_rows(x: Any, axes: tuple[int, ...]) -> Any:
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    count = math.prod(x.shape[axis] for axis in axes)
    return reshape(transpose(x, kept + axes), (*(x.shape[axis] for axis in kept), count))


def _cut(x: Any, half: int) -> list[Any]:
    """Return the first columns, as many after them, and what is left."""
    outer = [range(n) for n in x.shape[:-1]]
    ends = (0, half, 2 * half, x.shape[-1])
    return [static_slice(x, [*outer, range(*pair)]) for pair in itertools.pairwise(ends)]


def _joined(x: Any, y: Any) -> Any:
    return bind(find_primitive("concatenate"), x, y, axis=x.ndim - 1)


reduce_sum_p = reduction(
    "reduce_sum",
    monoid=Monoid("sum", lambda dtype: lambda x, y: x + y, lambda dtype: (dtype.type(0),)),
    result_dtype=_same,
    eager=_accumulated("sum"),
    jvp=LINEAR,
    transpose=_sum_transpose,
    doc="Sum over axes, in the operand's dtype.",
)
reduce_prod_p = reduction(
    "reduce_prod",
    monoid=Monoid("prod", lambda dtype: lambda x, y: x * y, lambda dtype: (dtype.type(1),)),
    result_dtype=_same,
    eager=_accumulated("prod"),
    jvp=_prod_jvp,
    doc="Product over axes, in the operand's dtype.",
)
reduce_max_p: Primitive = reduction(
    "reduce_max",
    monoid=Monoid(
        "max",
        lambda dtype: lambda x, y: x if (x > y) | (x != x) else y,
        lambda dtype: (_lowest(dtype),),
    ),
    result_dtype=_same,
    eager=_folded("max"),
    jvp=_extremum_jvp(lambda: reduce_max_p),
    doc="Largest element over axes; NaN when one is.",
)
reduce_min_p: Primitive = reduction(
    "reduce_min",
    monoid=Monoid(
        "min",
        lambda dtype: lambda x, y: x if (x < y) | (x != x) else y,
        lambda dtype: (_highest(dtype),),
    ),
    result_dtype=_same,
    eager=_folded("min"),
    jvp=_extremum_jvp(lambda: reduce_min_p),
    doc="Smallest element over axes; NaN when one is.",
)
reduce_any_p = reduction(
    "reduce_any",
    monoid=Monoid("any", lambda dtype: lambda x, y: x | y, lambda dtype: (np.False_,)),
    result_dtype=lambda dtype: BOOL,
    eager=_folded("any"),
    doc="Whether a bool holds somewhere along axes.",
)
reduce_all_p = reduction(
    "reduce_all",
    monoid=Monoid("all", lambda dtype: lambda x, y: x & y, lambda dtype: (np.True_,)),
    result_dtype=lambda dtype: BOOL,
    eager=_folded("all"),
    doc="Whether a bool holds everywhere along axes.",
)

# Positions decide between equals, so that the answer does not depend on the order in which chunks
# are combined; the identity's position lies after every element's.
_AFTER_ALL = np.int64(np.iinfo(np.int64).max)


def _first_largest(dtype: np.dtype[Any]) -> Code:
    def combine(x: Any, i: Any, y: Any, j: Any) -> Any:
        x_nan, y_nan = x != x, y != y
        tie = (x == y) | (x_nan & y_nan)
        first = ((x > y) & (not y_nan)) | (x_nan & (not y_nan)) | (tie & (i <= j))
        return (x, i) if first else (y, j)

    return combine


def _first_smallest(dtype: np.dtype[Any]) -> Code:
    def combine(x: Any, i: Any, y: Any, j: Any) -> Any:
        x_nan, y_nan = x != x, y != y
        tie = (x == y) | (x_nan & y_nan)
        first = ((x < y) & (not y_nan)) | (x_nan & (not y_nan)) | (tie & (i <= j))
        return (x, i) if first else (y, j)

    return combine


argmax_p = reduction(
    "argmax",
    monoid=Monoid(
        "argmax",
        _first_largest,
        lambda dtype: (_lowest(dtype), _AFTER_ALL),
        position=True,
        result=1,
    ),
    result_dtype=lambda dtype: np.dtype(np.int64),
    eager=_position("argmax"),
    doc="Flat position along axes of the first largest element; of the first NaN if there is one.",
)
argmin_p = reduction(
    "argmin",
    monoid=Monoid(
        "argmin",
        _first_smallest,
        lambda dtype: (_highest(dtype), _AFTER_ALL),
        position=True,
        result=1,
    ),
    result_dtype=lambda dtype: np.dtype(np.int64),
    eager=_position("argmin"),
    doc="Flat position along axes of the first smallest element; of the first NaN if there is one.",
)
