"""Positions along some axes of an array, at which others gather and scatter.

An operation at positions has an integer array for each of its ``axes``, all of one shape and inside
of the axes. The axes of the positions stand among the other ones of the array at place ``at``: for
``axes=(1,)``, ``at=1`` and an array of shape ``[3, 4, 5]`` with positions of shape ``[6, 7]``, the
elements are ``[3, 6, 7, 5]``, as in NumPy's ``x[:, positions]``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.graph.tracer import Tracer
from minijit.ops.batching import Dim, with_batch
from minijit.ops.binary import add, maximum, minimum, multiply
from minijit.ops.bitwise import bitwise_and
from minijit.ops.compare import greater_equal, less
from minijit.ops.create import iota
from minijit.ops.promote import broadcast_shapes, broadcast_to, convert
from minijit.ops.select import where

__all__ = [
    "Axes",
    "existence",
    "in_batch",
    "in_range",
    "is_unknown",
    "places_of",
    "taken_shape",
    "with_axes_first",
]

Axes = tuple[int, ...]


def taken_shape(shape: Axes, positions: Axes, axes: Axes, at: int) -> Axes:
    """Return the shape of the elements of an array at positions of a shape."""
    rest = [extent for axis, extent in enumerate(shape) if axis not in axes]
    return (*rest[:at], *positions, *rest[at:])


def places_of(positions: Sequence[Any], shape: Axes, axes: Sequence[int]) -> list[Any]:
    """Return positions inside the axes of an array of ``shape``, all of one shape.

    Those below zero count from the end. What is traced and lies outside becomes the first or the
    last position.

    Raises:
        IndexError: positions are no integers, known ones lie outside, or an axis has no elements.
    """
    inside: list[Any] = []
    for each, axis in zip(positions, axes, strict=True):
        if is_unknown(each):
            counted = _from_the_start(each, shape[axis])
            dtype = abstractify(counted).dtype
            inside.append(minimum(maximum(counted, dtype.type(0)), dtype.type(shape[axis] - 1)))
        else:
            inside.append(_counted(in_range(each, axis, shape[axis])))
    common = broadcast_shapes(*(abstractify(each).shape for each in inside))
    return [broadcast_to(each, common) for each in inside]


def existence(positions: Sequence[Any], shape: Axes, axes: Sequence[int]) -> Any:
    """Return where positions lie inside of the axes; None if that is known to be everywhere.

    Raises:
        IndexError: traced positions are no integers, or an axis has no elements.
    """
    tests: list[Any] = []
    for each, axis in zip(positions, axes, strict=True):
        if is_unknown(each):
            counted = _from_the_start(each, shape[axis])
            tests.append(bitwise_and(greater_equal(counted, 0), less(counted, shape[axis])))
    return functools.reduce(bitwise_and, tests) if tests else None


def in_range(positions: Any, axis: int, extent: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return known positions counted from the beginning of their axis.

    Raises:
        IndexError: one lies outside.
    """
    known = np.asarray(positions)
    wrong = known[(known < -extent) | (known >= extent)]
    if wrong.size:
        raise IndexError(
            f"index {wrong.flat[0]} is out of bounds for axis {axis} with size {extent} "
            f"(at {user_line()})"
        )
    return np.where(known < 0, known + extent, known).astype(np.int64)


def _counted(known: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
    """Return known positions, computed where they are equally far apart: they need no memory then.

    So ``x[np.arange(n), labels]`` is seen to take one element of each row.
    """
    long = [axis for axis, extent in enumerate(known.shape) if extent != 1]
    if len(long) != 1 or not known.size:
        return known
    steps = np.diff(known, axis=long[0])
    if (steps != steps.flat[0]).any():
        return known
    numbers = iota(known.shape, long[0], np.int64)
    if steps.flat[0] != 1:
        numbers = multiply(numbers, steps.flat[0])
    return add(numbers, known.flat[0]) if known.flat[0] else numbers


def is_unknown(positions: Any) -> bool:
    """Whether no one can look at them now: they are traced, or on a device."""
    return isinstance(positions, Tracer) or hasattr(positions, "__cuda_array_interface__")


def _from_the_start(positions: Any, extent: int) -> Any:
    """Return traced positions counted from the beginning of their axis, as int32 or int64."""
    aval = abstractify(positions)
    if aval.dtype.kind not in "iu":
        raise IndexError(
            f"arrays used as indices must be of integer type, not {aval} (at {user_line()})"
        )
    if not extent and aval.size:
        raise IndexError(f"an axis of size 0 has no element to take (at {user_line()})")
    if aval.dtype.kind == "u" and extent < np.iinfo(aval.dtype).max:
        positions = minimum(positions, aval.dtype.type(extent))
    small = extent < 2**31 and aval.dtype.itemsize <= 4
    work = np.dtype(np.int32 if small else np.int64)
    counted = convert(positions, work)
    if aval.dtype.kind == "u":
        return counted
    return where(less(counted, work.type(0)), add(counted, work.type(extent)), counted)


def in_batch(
    dims: Sequence[Dim], positions: Sequence[Any], size: int, axes: Axes, at: int
) -> tuple[list[Any], dict[str, Any], int]:
    """Return what becomes of positions where each of ``size`` elements has an array of its own.

    Args:
        dims: Which axis of each of the positions is the batch.
        positions: Positions into one element.
        size: Of the batch.
        axes: Of one element.
        at: Place of the positions' axes.

    Returns:
        Positions into an array with the batch as its first axis, the parameters ``axes`` and ``at``
        of an operation with them, and which axis of the elements at them is the batch.
    """
    later = tuple(axis + 1 for axis in axes)
    if all(dim is None for dim in dims):
        return list(positions), {"axes": later, "at": at + 1}, 0
    own = [with_batch(x, dim, 0, size) for x, dim in zip(positions, dims, strict=True)]
    numbers = iota(abstractify(own[0]).shape, 0, np.int32)
    return [numbers, *own], {"axes": (0, *later), "at": at}, at


def with_axes_first(xp: Any, x: Any, axes: Axes) -> Any:
    """Return a view of ``x``, an array of NumPy or CuPy (``xp``), that positions index first."""
    return xp.moveaxis(x, axes, range(len(axes)))
