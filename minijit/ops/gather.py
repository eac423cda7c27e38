"""Elements at positions that are computed, and arrays with others there.

A gather is fused into what needs it; a scatter is done by the array library, to a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.primitive import Kind, Primitive, register
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify, bind
from minijit.ops.axes import place_without
from minijit.ops.batching import Dim, batch_size, with_batch
from minijit.ops.binary import add, maximum, minimum
from minijit.ops.combining import combined
from minijit.ops.compare import equal
from minijit.ops.create import iota, zeros
from minijit.ops.library import library
from minijit.ops.places import (
    Axes,
    in_batch,
    places_of,
    taken_shape,
    with_axes_first,
)
from minijit.ops.promote import broadcast_in_dim_p
from minijit.ops.select import where
from minijit.ops.shape import reshape, squeeze

__all__ = ["SCATTERED", "gather", "gather_p", "scatter_p", "taken"]


def _gather_aval(operand: ShapedArray, *positions: ShapedArray, axes: Axes, at: int) -> ShapedArray:
    if any(operand.shape[axis] == 1 for axis in axes):
        raise TypeError(f"gather: {operand} has but one element along one of the axes {axes}")
    shape = taken_shape(operand.shape, positions[0].shape, axes, at)
    return ShapedArray(shape, operand.dtype)


def _gather_eager(xp: Any, operand: Any, *positions: Any, axes: Axes, at: int) -> Any:
    moved = with_axes_first(xp, xp.asarray(operand), axes)
    elements = xp.asarray(moved[tuple(map(xp.asarray, positions))])
    rank = np.ndim(positions[0])
    return xp.moveaxis(elements, range(rank), range(at, at + rank))


def _gather_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    operand, *positions = primals
    pushed = bind(gather_p, tangents[0], *positions, **params)
    return bind(gather_p, operand, *positions, **params), pushed


def _gather_transpose(
    cotangent: Any, operand: ShapedArray, *positions: Any, **params: Any
) -> tuple[Any, ...]:
    start = zeros(operand.shape, operand.dtype)
    total = bind(scatter_p, start, cotangent, *positions, how="add", **params)
    return (total, *(None for _ in positions))


def _gather_batch(
    dims: Sequence[Dim], operand: Any, *positions: Any, axes: Axes, at: int
) -> tuple[Any, int]:
    size = batch_size(dims, (operand, *positions))
    if dims[0] is None:
        own = [with_batch(x, dim, 0, size) for x, dim in zip(positions, dims[1:], strict=True)]
        return bind(gather_p, operand, *own, axes=axes, at=at), at
    operand = with_batch(operand, dims[0], 0, size)
    places, params, dim = in_batch(dims[1:], positions, size, axes, at)
    return taken(operand, places, **params), dim


gather_p = register(
    Primitive(
        name="gather",
        kind=Kind.GATHER,
        doc="Elements at positions along ``axes``; the positions' axes stand at place ``at``.",
        abstract_eval=_gather_aval,
        eager=_gather_eager,
        flops=5,
        batch=_gather_batch,
        jvp=_gather_jvp,
        transpose=_gather_transpose,
    )
)


def gather(x: Any, positions: Sequence[Any], axes: Sequence[int], at: int) -> Any:
    """Return the elements of ``x`` at ``positions`` along ``axes``.

    Args:
        x: An array.
        positions: An integer array for each of ``axes``, of shapes that go together; what they mean
            and what lies outside is said by :func:`minijit.ops.places.places_of`.
        axes: Axes of ``x``, ascending.
        at: Where among the other axes those of the positions stand.

    Raises:
        IndexError: positions are no integers, known ones lie outside, or an axis has no elements.
    """
    return taken(x, places_of(positions, abstractify(x).shape, axes), tuple(axes), at)


def taken(x: Any, places: Sequence[Any], axes: Axes, at: int) -> Any:
    """Return the same of positions that are inside of their axes and have one shape."""
    shape = abstractify(x).shape
    single = [axis for axis in axes if shape[axis] == 1]
    if not single:
        return bind(gather_p, x, *places, axes=axes, at=at)
    # From an axis of one element there is nothing to choose.
    own = abstractify(places[0]).shape
    x = squeeze(x, single)
    chosen = {axis: each for axis, each in zip(axes, places, strict=True) if shape[axis] != 1}
    if chosen:
        left = tuple(place_without(axis, single) for axis in chosen)
        return bind(gather_p, x, *chosen.values(), axes=left, at=at)
    result = taken_shape(shape, own, axes, at)
    dims = tuple(n for n in range(len(result)) if not at <= n < at + len(own))
    return bind(broadcast_in_dim_p, x, shape=result, dims=dims)


SCATTERED: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda old, new: new,
    "add": add,
    "minimum": minimum,
    "maximum": maximum,
}
"""What a scatter makes of an element and an update, by NumPy's and CuPy's names."""


def _scatter_aval(
    operand: ShapedArray,
    updates: ShapedArray,
    *positions: ShapedArray,
    axes: Axes,
    at: int,
    how: str,
) -> ShapedArray:
    shape = taken_shape(operand.shape, positions[0].shape, axes, at)
    if (updates.shape, updates.dtype) != (shape, operand.dtype):
        raise TypeError(f"scatter: {updates} put into {operand} at places of shape {shape}")
    return ShapedArray(operand.shape, operand.dtype)


def _scatter_eager(
    xp: Any, operand: Any, updates: Any, *positions: Any, axes: Axes, at: int, how: str
) -> Any:
    rank = np.ndim(positions[0])
    values = xp.moveaxis(xp.asarray(updates), range(at, at + rank), range(rank))
    places = tuple(map(xp.asarray, positions))
    first = with_axes_first(xp, xp.asarray(operand), axes)
    if how == "set":
        first = xp.array(first)
        first[places] = values
    else:
        first = combined(xp, first, places, values, how)
    return xp.moveaxis(first, range(len(axes)), axes)


def _scatter_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, axes: Axes, at: int, how: str
) -> tuple[Any, Any]:
    operand, _, *positions = primals
    moved, changed = (
        zeros(aval.shape, aval.dtype) if tangent is None else tangent
        for aval, tangent in zip(map(abstractify, primals[:2]), tangents[:2], strict=True)
    )
    if how == "set":
        kept, lasting = _fates(abstractify(operand).shape, positions, axes)
        own = [at + n for n in range(abstractify(lasting).ndim)]
        moved = where(_along(kept, moved, axes), moved, moved.dtype.type(0))
        changed = where(_along(lasting, changed, own), changed, changed.dtype.type(0))
    elif how != "add":
        raise TypeError(
            f"the {how} of elements and others at positions cannot be differentiated (at "
            f"{user_line()}); where no position stands twice, write x.at[i].set(...) of it"
        )
    params = {"axes": axes, "at": at}
    pushed = bind(scatter_p, moved, changed, *positions, how="add", **params)
    return bind(scatter_p, *primals, how=how, **params), pushed


def _fates(shape: Axes, positions: Sequence[Any], axes: Axes) -> tuple[Any, Any]:
    """Return which places keep what was there, and which positions are the last of their place."""
    extents = tuple(shape[axis] for axis in axes)
    own = abstractify(positions[0]).shape
    numbers = reshape(add(iota((math.prod(own),), 0, np.int64), 1), own)
    params: dict[str, Any] = {"axes": tuple(range(len(axes))), "at": 0}
    start = zeros(extents, np.int64)
    stamped = bind(scatter_p, start, numbers, *positions, how="set", **params)
    return equal(stamped, 0), equal(taken(stamped, positions, **params), numbers)


def _along(mask: Any, x: Any, axes: Sequence[int]) -> Any:
    """Return a mask over some axes of ``x`` for all of them."""
    return bind(broadcast_in_dim_p, mask, shape=abstractify(x).shape, dims=tuple(axes))


def _scatter_transpose(
    cotangent: Any, operand: Any, updates: Any, *positions: Any, how: str, **params: Any
) -> tuple[Any, ...]:
    back = None
    if isinstance(updates, ShapedArray):
        back = taken(cotangent, positions, **params)
    own = cotangent if isinstance(operand, ShapedArray) else None
    return (own, back, *(None for _ in positions))


def _scatter_batch(
    dims: Sequence[Dim], operand: Any, updates: Any, *positions: Any, axes: Axes, at: int, how: str
) -> tuple[Any, int]:
    size = batch_size(dims, (operand, updates, *positions))
    operand = with_batch(operand, dims[0], 0, size)
    places, params, dim = in_batch(dims[2:], positions, size, axes, at)
    updates = with_batch(updates, dims[1], dim, size)
    return bind(scatter_p, operand, updates, *places, how=how, **params), 0


scatter_p = library(
    "scatter",
    _scatter_eager,
    _scatter_aval,
    "A copy with updates at positions along ``axes``: set, added, or the extremum of both.",
    jvp=_scatter_jvp,
    transpose=_scatter_transpose,
    batch=_scatter_batch,
)
