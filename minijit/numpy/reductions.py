"""NumPy's reductions over any axes: sums, products, extrema, truth values and positions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import BOOL, DTypeLike, canonical_dtype
from minijit.graph.primitive import Primitive
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify, bind
from minijit.graph.tracer import functions
from minijit.numpy.declare import numpy_function, refuse_out
from minijit.ops.axes import normalize_axes, normalize_axis
from minijit.ops.binary import add, maximum, minimum, multiply, subtract
from minijit.ops.cumulative import cumprod_p, cumsum_p
from minijit.ops.promote import as_operand, broadcast_to, convert
from minijit.ops.reduce import (
    argmax_p,
    argmin_p,
    reduce_all_p,
    reduce_any_p,
    reduce_max_p,
    reduce_min_p,
    reduce_prod_p,
    reduce_sum_p,
)
from minijit.ops.select import where as select
from minijit.ops.shape import expand_dims, reshape

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "max",
    "min",
    "prod",
    "ptp",
    "sum",
]

Axis = int | tuple[int, ...] | None
NO_VALUE: Any = np._NoValue  # what NumPy's own functions hand through


def reduced_axes(aval: ShapedArray, axis: Axis) -> tuple[int, ...]:
    """Return the axes that ``axis`` names, sorted; None names all of them.

    Raises:
        numpy.exceptions.AxisError: one is out of range.
        ValueError: one is given twice.
    """
    if axis is None:
        return tuple(range(aval.ndim))
    return tuple(sorted(normalize_axes(axis, aval.ndim)))


def _folded_axes(aval: ShapedArray, axis: Axis) -> tuple[int, ...]:
    """Return the axes that ``axis`` names; of an array without axes, 0 and -1 name none.

    So it is in NumPy wherever a ufunc reduces, which it does not for means.
    """
    if aval.ndim == 0 and not isinstance(axis, (tuple, list, NoneType)):
        return () if operator.index(axis) in (0, -1) else reduced_axes(aval, axis)
    return reduced_axes(aval, axis)


def reduced_size(aval: ShapedArray, axes: tuple[int, ...]) -> int:
    """Return how many elements are combined into each result."""
    return math.prod(aval.shape[axis] for axis in axes)


def fold(
    primitive: Primitive,
    x: Any,
    axis: Axis,
    keepdims: Any = False,
    where: Any = NO_VALUE,
    identity: Any = None,
) -> Any:
    """Reduce ``x`` in its own dtype.

    Args:
        primitive: The reduction.
        x: Operand.
        axis: Axes by NumPy's rule.
        keepdims: Keep reduced axes with extent one.
        where: Mask of the elements that count.
        identity: Value of an empty reduction, and of masked elements; None where NumPy has none.

    Raises:
        ValueError: nothing to combine and no identity.
    """
    aval = abstractify(x)
    axes = _folded_axes(aval, axis)
    if where is not NO_VALUE and where is not True:
        if identity is None:
            raise ValueError(
                f"{primitive} has no identity, so to use where= pass initial= (at {user_line()})"
            )
        x = broadcast_to(select(where, x, aval.dtype.type(identity)), aval.shape)
    if reduced_size(aval, axes):
        result = bind(primitive, x, axes=axes) if axes else x
    else:
        result = _empty(primitive, aval, axes, identity)
    return expand_dims(result, axes) if keepdims is True and axes else result


def _empty(primitive: Primitive, aval: ShapedArray, axes: tuple[int, ...], identity: Any) -> Any:
    shape = tuple(n for axis, n in enumerate(aval.shape) if axis not in axes)
    if identity is None:
        raise ValueError(
            f"zero-size array to {primitive}, which has no identity (at {user_line()})"
        )
    return broadcast_to(aval.dtype.type(identity), shape)


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which NumPy sums: integers at least as wide as its default one."""
    if dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def _accumulate(
    primitive: Primitive, operation: Callable[..., Any], identity: int
) -> Callable[..., Any]:
    def reduce(
        a: Any,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = NO_VALUE,
        where: Any = NO_VALUE,
    ) -> Any:
        refuse_out(out)
        a = as_operand(a)
        wanted = _wide(abstractify(a).dtype) if dtype is None else canonical_dtype(dtype)
        result = fold(primitive, convert(a, wanted), axis, keepdims, where, identity)
        if initial is NO_VALUE or initial is None:
            return result
        return operation(result, convert(initial, wanted))

    return reduce


_sum = _accumulate(reduce_sum_p, add, 0)
_prod = _accumulate(reduce_prod_p, multiply, 1)


@numpy_function("sum_with_dtype", method=True)
def sum(
    a: Any,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """Sum over axes; integers are summed as int64 or uint64.

    Raises:
        ValueError: an axis is out of range or given twice.
    """
    return _sum(a, axis, dtype, out, keepdims, initial, where)


@numpy_function("prod_with_dtype", method=True)
def prod(
    a: Any,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """Product over axes; integers are multiplied as int64 or uint64.

    Raises:
        ValueError: an axis is out of range or given twice.
    """
    return _prod(a, axis, dtype, out, keepdims, initial, where)


def _extremum(primitive: Primitive, operation: Callable[..., Any]) -> Callable[..., Any]:
    identity = primitive.monoid.identity  # type: ignore[union-attr]  # every reduction has one

    def reduce(a: Any, axis: Axis, out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
        refuse_out(out)
        a = as_operand(a)
        dtype = abstractify(a).dtype
        if initial is NO_VALUE or initial is None:
            return fold(primitive, convert(a, dtype), axis, keepdims, where)
        neutral = identity(dtype)[0]
        result = fold(primitive, convert(a, dtype), axis, keepdims, where, neutral)
        return operation(result, convert(initial, dtype))

    return reduce


_max = _extremum(reduce_max_p, maximum)
_min = _extremum(reduce_min_p, minimum)


@numpy_function(method=True)
def max(
    a: Any,
    axis: Axis = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """Largest element over axes; NaN where one is.

    Raises:
        ValueError: no elements and no ``initial``; an axis is out of range or given twice.
    """
    return _max(a, axis, out, keepdims, initial, where)


@numpy_function(method=True)
def min(
    a: Any,
    axis: Axis = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """Smallest element over axes; NaN where one is.

    Raises:
        ValueError: no elements and no ``initial``; an axis is out of range or given twice.
    """
    return _min(a, axis, out, keepdims, initial, where)


amax, amin = max, min


@numpy_function(method=True)
def any(
    a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False, *, where: Any = NO_VALUE
) -> Any:
    """Whether an element is not zero (NaN is not) along axes."""
    refuse_out(out)
    return fold(reduce_any_p, convert(as_operand(a), BOOL), axis, keepdims, where, False)


@numpy_function(method=True)
def all(
    a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False, *, where: Any = NO_VALUE
) -> Any:
    """Whether every element is not zero along axes."""
    refuse_out(out)
    return fold(reduce_all_p, convert(as_operand(a), BOOL), axis, keepdims, where, True)


def _position(primitive: Primitive, a: Any, axis: int | None, out: Any, keepdims: Any) -> Any:
    refuse_out(out)
    a = as_operand(a)
    aval = abstractify(a)
    axes = _folded_axes(aval, axis)
    if not reduced_size(aval, axes):
        raise ValueError(f"attempt to get {primitive} of an empty sequence (at {user_line()})")
    result = bind(primitive, a, axes=axes) if axes else broadcast_to(np.int64(0), aval.shape)
    return expand_dims(result, axes) if keepdims is True and axes else result


@numpy_function(method=True)
def argmax(
    a: Any,
    axis: int | None = None,
    out: Any = None,
    *,
    keepdims: Any = False,
    dtype: DTypeLike = None,
) -> Any:
    """Position (int64) of the first largest element along an axis, or in the flattened array.

    ``dtype``, of the result, is an option that only CuPy has.

    Raises:
        ValueError: there are no elements.
    """
    position = _position(argmax_p, a, axis, out, keepdims)
    return position if dtype is None else convert(position, canonical_dtype(dtype))


@numpy_function(method=True)
def argmin(
    a: Any,
    axis: int | None = None,
    out: Any = None,
    *,
    keepdims: Any = False,
    dtype: DTypeLike = None,
) -> Any:
    """Position (int64) of the first smallest element along an axis, or in the flattened array.

    ``dtype``, of the result, is an option that only CuPy has.

    Raises:
        ValueError: there are no elements.
    """
    position = _position(argmin_p, a, axis, out, keepdims)
    return position if dtype is None else convert(position, canonical_dtype(dtype))


@numpy_function(method=True)
def ptp(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False) -> Any:
    """Largest minus smallest element over axes."""
    refuse_out(out)
    return subtract(max(a, axis, None, keepdims), min(a, axis, None, keepdims))


@numpy_function()
def count_nonzero(a: Any, axis: Axis = None, *, keepdims: Any = False) -> Any:
    """Number (int64) of elements that are not zero along axes."""
    return sum(convert(as_operand(a), BOOL), axis, keepdims=keepdims)


def _running(primitive: Primitive, a: Any, axis: int | None, dtype: DTypeLike, out: Any) -> Any:
    refuse_out(out)
    a = as_operand(a)
    if axis is None or not abstractify(a).ndim:
        a, axis = reshape(a, (-1,)), 0 if axis is None else axis
    aval = abstractify(a)
    wanted = _wide(aval.dtype) if dtype is None else canonical_dtype(dtype)
    return bind(primitive, convert(a, wanted), axis=normalize_axis(axis, aval.ndim))


@numpy_function(method=True)
def cumsum(a: Any, axis: int | None = None, dtype: DTypeLike = None, out: Any = None) -> Any:
    """Running sum along an axis, or over the flattened array."""
    return _running(cumsum_p, a, axis, dtype, out)


@numpy_function(method=True)
def cumprod(a: Any, axis: int | None = None, dtype: DTypeLike = None, out: Any = None) -> Any:
    """Running product along an axis, or over the flattened array."""
    return _running(cumprod_p, a, axis, dtype, out)


def _ufunc_reduce(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``reduce`` with the default of ``ufunc.reduce``, whose axis is the first one."""

    def by_ufunc(array: Any, axis: Axis = 0, dtype: Any = None, **options: Any) -> Any:
        result = reduce(array, axis=axis, **options)
        return result if dtype is None else convert(result, canonical_dtype(dtype))

    return by_ufunc


def _typed_reduce(reduce: Callable[..., Any]) -> Callable[..., Any]:
    def by_ufunc(array: Any, axis: Axis = 0, dtype: Any = None, **options: Any) -> Any:
        return reduce(array, axis=axis, dtype=dtype, **options)

    return by_ufunc


functions["amax"], functions["amin"] = functions["max"], functions["min"]
functions["add.reduce"], functions["multiply.reduce"] = _typed_reduce(_sum), _typed_reduce(_prod)
for _name, _reduce in (
    ("maximum", functions["max"]),
    ("minimum", functions["min"]),
    ("logical_or", functions["any"]),
    ("logical_and", functions["all"]),
):
    functions[f"{_name}.reduce"] = _ufunc_reduce(_reduce)
