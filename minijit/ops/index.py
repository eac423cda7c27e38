"""What ``x[...]`` means for a traced array: basic indexing, and integer arrays that are known."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from minijit.graph.errors import NonConcreteBooleanIndexError
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.graph.tracer import Tracer, methods
from minijit.ops.join import static_take
from minijit.ops.shape import expand_dims, reshape, squeeze, static_slice

__all__ = ["getitem", "refuse_mask"]


def getitem(x: Any, index: Any) -> Any:
    """Return ``x[index]``, by NumPy's rules, while tracing.

    Args:
        x: A traced array.
        index: Static integers, slices, Ellipsis, None, at most one concrete integer array, or a
            tuple of these.

    Raises:
        IndexError: out of range, or more indices than axes.
        NonConcreteBooleanIndexError: a mask, traced or not: its result has no static shape.
        TracerIntegerConversionError: a slice bound is traced.
        TypeError: an index is traced, or is an array that cannot be split into slices.
    """
    shape = abstractify(x).shape
    entries = _complete(index if isinstance(index, tuple) else (index,), len(shape))
    ranges: list[range] = []  # of each axis of x
    dropped: list[int] = []  # axes that an integer removes
    added: list[int] = []  # positions of new axes in the result
    taken: tuple[int, np.ndarray[Any, Any]] | None = None  # an axis of the result, and positions
    rank = 0  # of the result so far
    for entry in entries:
        if entry is None:
            added.append(rank)
            rank += 1
            continue
        axis, extent = len(ranges), shape[len(ranges)]
        if isinstance(entry, slice):
            ranges.append(range(*entry.indices(extent)))
            rank += 1
        elif isinstance(entry, np.ndarray):
            taken = (rank, _in_range(entry, axis, extent))
            ranges.append(range(extent))
            rank += 1
        else:
            position = int(_in_range(np.asarray(entry), axis, extent))
            ranges.append(range(position, position + 1))
            dropped.append(axis)
    result = expand_dims(squeeze(static_slice(x, ranges), dropped), tuple(added))
    if taken is None:
        return result
    axis, positions = taken
    result = static_take(result, positions.ravel(), axis)
    extents = abstractify(result).shape
    return reshape(result, (*extents[:axis], *positions.shape, *extents[axis + 1 :]))


def _complete(index: tuple[Any, ...], ndim: int) -> list[Any]:
    """Return one entry for each axis (new ones included): None, a slice, an int or an int array."""
    entries = [_entry(entry) for entry in index]
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if used > ndim:
        raise IndexError(
            f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed "
            f"(at {user_line()})"
        )
    dots = [position for position, entry in enumerate(entries) if entry is Ellipsis]
    if len(dots) > 1:
        raise IndexError(f"an index can only have a single ellipsis ('...') (at {user_line()})")
    at = dots[0] if dots else len(entries)
    entries[at : at + 1] = [slice(None)] * (ndim - used)
    _check_arrays(entries)
    return entries


def _entry(entry: Any) -> Any:
    """Return a static index in one of few forms, or refuse it."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if isinstance(entry, Tracer):
        if entry.dtype.kind == "b":
            refuse_mask("indexing by a traced boolean mask")
        raise TypeError(
            f"an index of type {entry.aval} is traced (at {user_line()}), and gathering by traced "
            "positions is not part of this release; select with a comparison instead, "
            "sum(where(arange(n) == i, x, 0)), or mark the index static with static_argnames"
        )
    if isinstance(entry, (bool, np.bool_)):
        refuse_mask("indexing by a boolean")
    if isinstance(entry, (list, np.ndarray)):
        array = np.asarray(entry)
        if array.dtype.kind == "b":
            refuse_mask("indexing by a boolean mask")
        if not array.size:
            array = array.astype(np.int64)
        if array.dtype.kind in "iu":
            return array if array.ndim else int(array)
    try:
        return operator.index(entry)
    except TypeError:
        raise IndexError(
            f"{entry!r} is not a valid index (at {user_line()}): only integers, slices (':'), "
            "ellipsis ('...'), None and integer arrays are"
        ) from None


def _check_arrays(entries: Sequence[Any]) -> None:
    arrays = [position for position, entry in enumerate(entries) if isinstance(entry, np.ndarray)]
    if not arrays:
        return
    # NumPy counts integers among the index arrays, and moves their axis to the front when they
    # are not neighbours.
    fancy = [p for p, e in enumerate(entries) if e is not None and not isinstance(e, slice)]
    if len(arrays) > 1 or fancy[-1] - fancy[0] != len(fancy) - 1:
        raise TypeError(
            f"indexing by several arrays is not part of this release (at {user_line()}): index one "
            "axis at a time, x[rows][:, columns]"
        )


def _in_range(positions: np.ndarray[Any, Any], axis: int, extent: int) -> np.ndarray[Any, Any]:
    wrong = positions[(positions < -extent) | (positions >= extent)]
    if wrong.size:
        raise IndexError(
            f"index {wrong.flat[0]} is out of bounds for axis {axis} with size {extent} "
            f"(at {user_line()})"
        )
    return np.where(positions < 0, positions + extent, positions)


def refuse_mask(what: str) -> NoReturn:
    """Raise for an operation whose number of results depends on data."""
    raise NonConcreteBooleanIndexError(
        f"{what} gives a shape that depends on data (at {user_line()}), which cannot be traced. "
        "Keep the shape and mask the values: minijit.numpy.where(mask, x, fill); to reduce, "
        "minijit.numpy.sum(where(mask, x, 0)) and count with minijit.numpy.sum(mask)"
    )


methods["__getitem__"] = getitem
