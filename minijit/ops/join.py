"""Arrays put together: concatenation, constant padding, and elements taken at static positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import canonical_dtype
from minijit.graph.index import Affine
from minijit.graph.primitive import LINEAR, Kind, Part, Primitive, register
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify, bind
from minijit.ops.axes import inserted, normalize_axis
from minijit.ops.batching import Dim, batch_size, with_batch
from minijit.ops.binary import subtract
from minijit.ops.gather import gather
from minijit.ops.promote import broadcast_in_dim_p, broadcast_to, convert
from minijit.ops.reduce import reduce_sum_p
from minijit.ops.select import where
from minijit.ops.shape import expand_dims, reshape, static_slice

__all__ = ["concatenate", "concatenate_p", "pad", "pad_p", "spread", "static_take"]

MAX_RUNS = 64


def _concatenate_aval(*operands: ShapedArray, axis: int) -> ShapedArray:
    first = operands[0]
    for operand in operands:
        if _without(operand.shape, axis) != _without(first.shape, axis):
            raise TypeError(f"concatenate: {first} and {operand} differ outside of axis {axis}")
        if operand.dtype != first.dtype:
            raise TypeError(f"concatenate: operands of dtypes {first.dtype} and {operand.dtype}")
    shape = list(first.shape)
    shape[axis] = sum(operand.shape[axis] for operand in operands)
    return ShapedArray(tuple(shape), first.dtype)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _concatenate_eager(xp: Any, *operands: Any, axis: int) -> Any:
    return xp.concatenate([xp.asarray(operand) for operand in operands], axis)


def _concatenate_parts(
    index: tuple[Affine, ...], operands: Sequence[ShapedArray], params: Mapping[str, Any]
) -> tuple[Part, ...]:
    axis = params["axis"]
    parts, start = [], 0
    for number, operand in enumerate(operands):
        extent = operand.shape[axis]
        local = index[axis].scaled(1, -start) if extent != 1 else Affine()
        own = (*index[:axis], local, *index[axis + 1 :])
        within = ((index[axis], start, start + extent),)
        parts.append(Part(number, own, within))
        start += extent
    return tuple(parts)


def _concatenate_batch(dims: Sequence[Dim], *operands: Any, axis: int) -> tuple[Any, int]:
    at, size = next(dim for dim in dims if dim is not None), batch_size(dims, operands)
    aligned = [with_batch(x, dim, at, size) for x, dim in zip(operands, dims, strict=True)]
    return bind(concatenate_p, *aligned, axis=axis + (axis >= at)), at


def _concatenate_transpose(cotangent: Any, *operands: Any, axis: int) -> tuple[Any, ...]:
    shape, start = abstractify(cotangent).shape, 0
    results = []
    for operand in operands:
        extent = operand.shape[axis]
        ranges = [range(n) for n in shape]
        ranges[axis] = range(start, start + extent)
        start += extent
        linear = isinstance(operand, ShapedArray)
        results.append(static_slice(cotangent, ranges) if linear else None)
    return tuple(results)


concatenate_p = register(
    Primitive(
        name="concatenate",
        kind=Kind.PIECEWISE,
        doc="Operands of one dtype, one after the other along ``axis``.",
        abstract_eval=_concatenate_aval,
        eager=_concatenate_eager,
        parts=_concatenate_parts,
        flops=0,
        batch=_concatenate_batch,
        jvp=LINEAR,
        transpose=_concatenate_transpose,
    )
)


def concatenate(operands: Sequence[Any], axis: int = 0, dtype: Any = None) -> Any:
    """Join arrays along an axis that they have; their dtypes promote as in NumPy.

    Args:
        operands: Arrays equal in all other extents.
        axis: Where they are joined.
        dtype: Of the result; by default that which the operands promote to.

    Raises:
        ValueError: no operand, or extents that differ.
    """
    if not operands:
        raise ValueError(f"need at least one array to concatenate (at {user_line()})")
    avals = [abstractify(operand) for operand in operands]
    shapes = [aval.shape for aval in avals]
    if not all(shapes):
        raise ValueError(f"zero-dimensional arrays cannot be concatenated (at {user_line()})")
    if len(set(map(len, shapes))) > 1:
        raise ValueError(
            f"arrays of shapes {shapes} cannot be concatenated: their numbers of axes differ "
            f"(at {user_line()})"
        )
    axis = normalize_axis(axis, avals[0].ndim)
    if len({_without(shape, axis) for shape in shapes}) > 1:
        raise ValueError(
            f"arrays of shapes {shapes} cannot be concatenated along axis {axis}: the other "
            f"extents differ (at {user_line()})"
        )
    kind = np.result_type(*(aval.dtype for aval in avals)) if dtype is None else dtype
    kind = canonical_dtype(kind)
    # An empty operand has no elements that a part could describe.
    filled = [x for x, shape in zip(operands, shapes, strict=True) if shape[axis]] or operands[:1]
    joined = [convert(operand, kind) for operand in filled]
    return bind(concatenate_p, *joined, axis=axis) if len(joined) > 1 else joined[0]


def _pad_aval(
    operand: ShapedArray, value: ShapedArray, *, low: tuple[int, ...], high: tuple[int, ...]
) -> ShapedArray:
    if value.shape or value.dtype != operand.dtype:
        raise TypeError(f"pad: {operand} filled with {value}")
    widths = zip(operand.shape, low, high, strict=True)
    return ShapedArray(tuple(n + before + after for n, before, after in widths), operand.dtype)


def _pad_eager(
    xp: Any, operand: Any, value: Any, *, low: tuple[int, ...], high: tuple[int, ...]
) -> Any:
    operand = xp.asarray(operand)
    shape = tuple(n + b + a for n, b, a in zip(operand.shape, low, high, strict=True))
    result = xp.empty(shape, operand.dtype)
    result[...] = value
    inside = (slice(b, b + n) for n, b in zip(operand.shape, low, strict=True))
    result[tuple(inside)] = operand
    return result


def _pad_parts(
    index: tuple[Affine, ...], operands: Sequence[ShapedArray], params: Mapping[str, Any]
) -> tuple[Part, ...]:
    shape, low, high = operands[0].shape, params["low"], params["high"]
    own, within = [], []
    for position, n, before, after in zip(index, shape, low, high, strict=True):
        own.append(position.scaled(1, -before) if n != 1 else Affine())
        if before or after:
            within.append((position, before, before + n))
    return (Part(0, tuple(own), tuple(within)), Part(1, (), ()))


def _pad_batch(
    dims: Sequence[Dim], operand: Any, value: Any, *, low: tuple[int, ...], high: tuple[int, ...]
) -> tuple[Any, int]:
    size = batch_size(dims, (operand, value))
    at = 0 if dims[0] is None else dims[0]
    widths = {"low": inserted(low, at, 0), "high": inserted(high, at, 0)}
    x = with_batch(operand, dims[0], at, size)
    if dims[1] is None:
        return bind(pad_p, x, value, **widths), at
    # Every element of the batch has another value around it.
    aval = abstractify(x)
    inside = bind(broadcast_in_dim_p, np.True_, shape=aval.shape, dims=())
    mask = bind(pad_p, inside, np.False_, **widths)
    around = bind(broadcast_in_dim_p, value, shape=abstractify(mask).shape, dims=(at,))
    return where(mask, bind(pad_p, x, aval.dtype.type(0), **widths), around), at


def _pad_transpose(
    cotangent: Any, operand: Any, value: Any, *, low: tuple[int, ...], high: tuple[int, ...]
) -> tuple[Any, Any]:
    bounds = zip(abstractify(cotangent).shape, low, high, strict=True)
    inner = static_slice(cotangent, [range(b, n - a) for n, b, a in bounds])
    of_operand = inner if isinstance(operand, ShapedArray) else None
    if not isinstance(value, ShapedArray):
        return of_operand, None
    around = (bind(reduce_sum_p, x, axes=tuple(range(len(low)))) for x in (cotangent, inner))
    return of_operand, subtract(*around)


pad_p = register(
    Primitive(
        name="pad",
        kind=Kind.PIECEWISE,
        doc="Surround with a scalar: ``low[axis]`` elements before, ``high[axis]`` after.",
        abstract_eval=_pad_aval,
        eager=_pad_eager,
        parts=_pad_parts,
        flops=0,
        batch=_pad_batch,
        jvp=LINEAR,
        transpose=_pad_transpose,
    )
)


def pad(x: Any, value: Any, low: Sequence[int], high: Sequence[int]) -> Any:
    """Return ``x`` surrounded by ``value``.

    Args:
        x: An array.
        value: A scalar, cast to the dtype of ``x``.
        low: Elements added before the first of each axis, not negative.
        high: Elements added after the last of each axis, not negative.

    Raises:
        ValueError: a width is negative.
    """
    aval = abstractify(x)
    if min((*low, *high), default=0) < 0:
        raise ValueError(f"pad widths cannot be negative: {low}, {high} (at {user_line()})")
    fill = convert(value, aval.dtype)
    if not aval.size:
        shape = tuple(n + b + a for n, b, a in zip(aval.shape, low, high, strict=True))
        return broadcast_to(fill, shape)
    return bind(pad_p, x, fill, low=tuple(low), high=tuple(high)) if any((*low, *high)) else x


def spread(x: Any, value: Any, axis: int, between: int) -> Any:
    """Return ``x`` with ``between`` values between neighbours along ``axis``."""
    shape = abstractify(x).shape
    if not between or not shape[axis]:
        return x
    widths = [0] * (len(shape) + 1)
    widths[axis + 1] = between
    wide = pad(expand_dims(x, (axis + 1,)), value, [0] * len(widths), widths)
    extents = [*shape[:axis], shape[axis] * (between + 1), *shape[axis + 1 :]]
    ranges = [range(extent) for extent in extents]
    ranges[axis] = ranges[axis][:-between]
    return static_slice(reshape(wide, tuple(extents)), ranges)


def static_take(x: Any, positions: Sequence[int] | np.ndarray[Any, Any], axis: int) -> Any:
    """Return the elements of ``x`` at ``positions`` (static, in range) along ``axis``.

    Positions that follow each other at one distance are one slice, so that a reversal, a shift
    or a mirrored border is a few slices put together.
    More of them than ``MAX_RUNS`` are gathered.
    """
    shape = abstractify(x).shape
    positions = np.asarray(positions, np.int64)
    runs = _runs(positions)
    if len(runs) > MAX_RUNS:
        return gather(x, [positions], [axis], axis)
    pieces = [_piece(x, shape, start, step, length, axis) for start, step, length in runs]
    return concatenate(pieces, axis)


def _runs(positions: np.ndarray[Any, Any]) -> list[tuple[int, int, int]]:
    """Return ``(start, step, length)`` of the arithmetic progressions that make up positions."""
    if not positions.size:
        return [(0, 1, 0)]
    steps = np.diff(positions)
    changes = np.flatnonzero(np.diff(steps)) + 1
    runs: list[tuple[int, int, int]] = []
    first = 0
    while first < steps.size:
        later = np.searchsorted(changes, first, side="right")
        last = int(changes[later]) if later < changes.size else steps.size
        runs.append((int(positions[first]), int(steps[first]), last - first + 1))
        first = last + 1
    if first < positions.size:
        runs.append((int(positions[first]), 1, 1))
    return runs


def _piece(x: Any, shape: tuple[int, ...], start: int, step: int, length: int, axis: int) -> Any:
    ranges = [range(n) for n in shape]
    if step == 0:
        ranges[axis] = range(start, start + 1)
        repeated = (*shape[:axis], length, *shape[axis + 1 :])
        return broadcast_to(static_slice(x, ranges), repeated)
    ranges[axis] = range(start, start + length * step, step)
    return static_slice(x, ranges)
