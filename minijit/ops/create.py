"""Arrays from nothing: indices, constants, ranges, and what a user's lists and scalars become."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import canonical_dtype, default_dtype
from minijit.graph.primitive import Kind, Primitive, register
from minijit.graph.trace import abstractify, bind
from minijit.ops.axes import extents_of, normalize_axis
from minijit.ops.binary import add, multiply
from minijit.ops.compare import equal
from minijit.ops.promote import broadcast_to, convert, is_traced
from minijit.ops.select import where

__all__ = ["arange", "full", "iota", "iota_p", "ones", "zeros"]


def _iota_aval(*, shape: tuple[int, ...], axis: int, dtype: np.dtype[Any]) -> ShapedArray:
    return ShapedArray(shape, dtype)


def _iota_eager(xp: Any, *, shape: tuple[int, ...], axis: int, dtype: np.dtype[Any]) -> Any:
    aligned = [1] * len(shape)
    aligned[axis] = shape[axis]
    return xp.broadcast_to(xp.arange(shape[axis]).astype(dtype).reshape(aligned), shape)


iota_p = register(
    Primitive(
        name="iota",
        kind=Kind.INDEX,
        doc="The element's own index along ``axis``.",
        abstract_eval=_iota_aval,
        eager=_iota_eager,
        flops=0,
    )
)


def iota(shape: Any, axis: int = 0, dtype: Any = None) -> Any:
    """Return an array whose elements are their own index along ``axis``.

    Args:
        shape: Static extents.
        axis: Which index.
        dtype: ``config.default_int`` by default.

    Raises:
        TracerIntegerConversionError: an extent is traced.
        ValueError: a negative extent.
    """
    extents = extents_of(shape)
    kind = default_dtype(int) if dtype is None else canonical_dtype(dtype)
    return bind(iota_p, shape=extents, axis=normalize_axis(axis, len(extents)), dtype=kind)


def full(shape: Any, value: Any, dtype: Any = None) -> Any:
    """Return an array of ``shape`` that holds ``value`` (broadcast) everywhere.

    Args:
        shape: Static extents.
        value: A scalar, an array or a tracer that broadcasts to ``shape``.
        dtype: By default minijit's default for a Python scalar, else the dtype of ``value``.

    Raises:
        TracerIntegerConversionError: an extent is traced.
        ValueError: a negative extent, or ``value`` does not broadcast.
    """
    extents = extents_of(shape)
    if dtype is not None:
        kind = canonical_dtype(dtype)
    elif type(value) in (bool, int, float):
        kind = default_dtype(type(value))
    else:
        kind = abstractify(value).dtype
    if not is_traced(value):
        return (
            np.full(extents, value, kind) if np.ndim(value) == 0 else _filled(extents, value, kind)
        )
    return broadcast_to(convert(value, kind), extents)


def _filled(shape: tuple[int, ...], value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a new array, of the library that ``value`` belongs to."""
    return broadcast_to(value, shape).astype(dtype)


def zeros(shape: Any, dtype: Any = None) -> Any:
    """Return an array of zeros; ``dtype`` is ``config.default_float`` by default."""
    return full(shape, 0, default_dtype(float) if dtype is None else dtype)


def ones(shape: Any, dtype: Any = None) -> Any:
    """Return an array of ones; ``dtype`` is ``config.default_float`` by default."""
    return full(shape, 1, default_dtype(float) if dtype is None else dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """Return ``start, start + step, ...`` below ``stop``, with NumPy's values bit for bit.

    ``arange(n)`` counts from zero. NumPy rounds the first two elements to the dtype and gets the
    others as ``first + i * (second - first)`` in that dtype.

    Args:
        start: First element, static.
        stop: End, not included, static.
        step: Distance, static.
        dtype: By default minijit's default of the kind (int or float) of the three.

    Raises:
        ConcretizationTypeError: an argument is traced.
        ZeroDivisionError: ``step`` is zero.
    """
    if stop is None:
        start, stop = 0, start
    bounds = [_static_number(value) for value in (start, stop, step)]
    kind = _range_dtype((start, stop, step)) if dtype is None else canonical_dtype(dtype)
    length = max(0, math.ceil((bounds[1] - bounds[0]) / bounds[2]))
    if not is_traced():
        return np.arange(*bounds, dtype=kind)
    with np.errstate(all="ignore"):
        first, second = np.array([bounds[0], bounds[0] + bounds[2]]).astype(kind)
        return _progression(first, second, length)


def _static_number(value: Any) -> Any:
    """Return a concrete Python number; tracers explain why they cannot be one."""
    kind = getattr(value, "dtype", None)
    if kind is None:
        return value
    return operator.index(value) if kind.kind in "iub" else float(value)


def _range_dtype(values: tuple[Any, ...]) -> np.dtype[Any]:
    given = [value.dtype for value in values if isinstance(value, (np.ndarray, np.generic))]
    if given:
        return canonical_dtype(
            np.result_type(*given, *(v for v in values if type(v) in (int, float)))
        )
    return default_dtype(float if any(isinstance(value, float) for value in values) else int)


def _progression(first: Any, second: Any, length: int) -> Any:
    """Return ``first + i * (second - first)``; float16 is computed in float32, as NumPy does."""
    dtype = first.dtype
    work = np.dtype(np.float32) if dtype == np.float16 else dtype
    start, delta = work.type(first), work.type(second) - work.type(first)
    numbers = iota((length,), 0, work)
    result = multiply(numbers, delta) if delta != 1 else numbers
    if start != 0 or delta < 0:
        result = add(result, start)
    result = convert(result, dtype)
    # The two that the distance comes from are kept, also where rounding loses them.
    for position, exact in enumerate((first, second)):
        computed = (work.type(position) * delta + start).astype(dtype)
        if computed.tobytes() != exact.tobytes():
            result = where(equal(numbers, position), exact, result)
    return result
