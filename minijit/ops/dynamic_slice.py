"""Slices that start at traced positions, and arrays with one replaced; their sizes are static.

As in JAX, a start below zero counts from the end, and a slice that would leave the array is moved
inside.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.ops.axes import normalize_axis, shape_of
from minijit.ops.binary import add, subtract
from minijit.ops.bitwise import bitwise_and
from minijit.ops.compare import greater_equal, less
from minijit.ops.create import iota
from minijit.ops.gather import taken
from minijit.ops.promote import as_operand, convert
from minijit.ops.select import clip, where
from minijit.ops.shape import expand_dims, squeeze

__all__ = [
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
]

_POSITION = np.dtype(np.int64)


def dynamic_slice(operand: Any, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> Any:
    """Return the slice of static ``slice_sizes`` that begins at ``start_indices``.

    Args:
        operand: An array.
        start_indices: An integer for each axis, traced or not; or a vector of them.
        slice_sizes: Static extents of the result.

    Raises:
        ValueError: there is not one of them for each axis, or a size is negative or exceeds its
            axis.
    """
    operand = as_operand(operand)
    shape, sizes = abstractify(operand).shape, shape_of(tuple(slice_sizes))
    starts = _starts(start_indices, shape, sizes)
    cut = [axis for axis, (n, size) in enumerate(zip(shape, sizes, strict=True)) if size != n]
    if not cut:
        return operand
    between = range(cut[0], cut[-1] + 1)
    box = tuple(sizes[axis] for axis in between)
    places = []
    for number, axis in enumerate(between):
        steps = iota(box, number, _POSITION)
        places.append(add(steps, starts[axis]) if axis in cut else steps)
    return taken(operand, places, tuple(between), cut[0])


def dynamic_update_slice(operand: Any, update: Any, start_indices: Sequence[Any]) -> Any:
    """Return ``operand`` with ``update`` in the place of the slice at ``start_indices``.

    Args:
        operand: An array.
        update: An array of as many axes, none longer; converted to the dtype of ``operand``.
        start_indices: As in :func:`dynamic_slice`.

    Raises:
        ValueError: as in :func:`dynamic_slice`.
    """
    operand, update = as_operand(operand), as_operand(update)
    aval = abstractify(operand)
    shape, sizes = aval.shape, abstractify(update).shape
    starts = _starts(start_indices, shape, sizes)
    update = convert(update, aval.dtype)
    cut = [axis for axis, (n, size) in enumerate(zip(shape, sizes, strict=True)) if size != n]
    if not cut:
        return update
    if 0 in sizes:
        return operand
    between = range(cut[0], cut[-1] + 1)
    box = tuple(shape[axis] for axis in between)
    places, masks = [], []
    for number, axis in enumerate(between):
        steps = iota(box, number, _POSITION)
        if axis in cut:
            steps = subtract(steps, starts[axis])
            own = subtract(iota(shape, axis, _POSITION), starts[axis])
            masks += [greater_equal(own, 0), less(own, sizes[axis])]
            steps = clip(steps, 0, sizes[axis] - 1)
        places.append(steps)
    spread = taken(update, places, tuple(between), cut[0])
    return where(functools.reduce(bitwise_and, masks), spread, operand)


def _starts(given: Any, shape: tuple[int, ...], sizes: tuple[int, ...]) -> list[Any]:
    """Return where a slice starts along each axis, so that it lies inside."""
    if isinstance(given, (list, tuple)):
        starts = list(given)
    else:
        count = abstractify(given).shape
        if len(count) != 1:
            raise ValueError(
                f"the starts of a slice are a vector or a tuple, not {abstractify(given)} (at "
                f"{user_line()}); along one axis there is lax.dynamic_slice_in_dim"
            )
        starts = [given[n] for n in range(*count)]
    if not len(starts) == len(shape) == len(sizes):
        raise ValueError(
            f"a slice of an array of shape {shape} has a start and a size for each axis, not "
            f"{len(starts)} and {len(sizes)} (at {user_line()})"
        )
    if any(not 0 <= size <= n for size, n in zip(sizes, shape, strict=True)):
        raise ValueError(f"no slice of shape {shape} has shape {sizes} (at {user_line()})")
    inside = []
    for start, extent, size in zip(starts, shape, sizes, strict=True):
        if abstractify(start).shape or abstractify(start).dtype.kind not in "iu":
            raise ValueError(f"a start is one integer, not {abstractify(start)} (at {user_line()})")
        start = convert(start, _POSITION)
        from_start = where(less(start, 0), add(start, extent), start)
        inside.append(clip(from_start, 0, extent - size))
    return inside


def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Any:
    """Return a slice along one axis; see :func:`dynamic_slice`."""
    shape = list(abstractify(operand).shape)
    axis = normalize_axis(axis, len(shape))
    (shape[axis],) = shape_of(slice_size)
    return dynamic_slice(operand, _along(start_index, axis, len(shape)), shape)


def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Any:
    """Return what lies at ``index`` along an axis, which stays with extent one by default."""
    result = dynamic_slice_in_dim(operand, index, 1, axis)
    return result if keepdims else squeeze(result, axis)


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Any:
    """Return an array with a slice along one axis replaced; see :func:`dynamic_update_slice`."""
    ndim = abstractify(operand).ndim
    return dynamic_update_slice(
        operand, update, _along(start_index, normalize_axis(axis, ndim), ndim)
    )


def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Any:
    """Return an array with what lies at ``index`` along an axis replaced by ``update``.

    That has the axis with extent one, or not at all.
    """
    ndim = abstractify(operand).ndim
    if abstractify(update).ndim < ndim:
        update = expand_dims(update, (normalize_axis(axis, ndim),))
    return dynamic_update_slice_in_dim(operand, update, index, axis)


def _along(start: Any, axis: int, ndim: int) -> list[Any]:
    return [start if other == axis else 0 for other in range(ndim)]
