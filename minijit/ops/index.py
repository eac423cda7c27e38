"""What ``x[...]`` means for a traced array: basic indexing, and positions in integer arrays."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any, NoReturn

import numpy as np

from minijit.graph.errors import NonConcreteBooleanIndexError
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.graph.tracer import Tracer, methods
from minijit.ops.gather import gather
from minijit.ops.join import static_take
from minijit.ops.places import in_range
from minijit.ops.shape import expand_dims, reshape, squeeze, static_slice

__all__ = ["Selection", "getitem", "refuse_mask", "selected"]


def getitem(x: Any, index: Any) -> Any:
    """Return ``x[index]``, by NumPy's rules, while tracing.

    A traced position outside of its axis takes the first or the last element; NumPy would raise.

    Args:
        x: A traced array.
        index: Integers and integer arrays, traced or not; slices, Ellipsis, None; or a tuple of
            these.

    Raises:
        IndexError: out of range, as far as that is known; more indices than axes; no integers.
        NonConcreteBooleanIndexError: a mask, traced or not: its result has no static shape.
        TracerIntegerConversionError: a slice bound is traced.
    """
    selection = selected(index, abstractify(x).shape)
    taken = selection.taken(selection.box(x))
    return expand_dims(taken, selection.added(abstractify(taken).ndim))


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """What an index means for an array of known shape.

    First there is a box: slices, out of which integers take axes. Arrays of positions then take
    elements of the box, and new axes come last.

    Attributes:
        ranges: Along each axis of the array; an integer is a range of one.
        dropped: Axes that an integer takes out.
        positions: Arrays of positions, by axis of the box.
        first: How many of the other entries, slices and new axes, stand before theirs.
        new: Which of the other entries are new axes.
    """

    ranges: tuple[range, ...]
    dropped: tuple[int, ...]
    positions: dict[int, Any]
    first: int
    new: tuple[int, ...]

    @property
    def axes(self) -> list[int]:
        """The axes of the box that have positions."""
        return list(self.positions)

    @property
    def at(self) -> int:
        """Where the positions' axes stand among the other axes of the box."""
        return self.first - sum(entry < self.first for entry in self.new)

    def box(self, x: Any) -> Any:
        """Return the box of an array."""
        return squeeze(static_slice(x, self.ranges), self.dropped)

    def taken(self, box: Any) -> Any:
        """Return the elements of the box at the positions."""
        if not self.positions:
            return box
        (axis, *more), (places, *_) = self.axes, self.positions.values()
        if more or axis != self.at or not isinstance(places, np.ndarray):
            return gather(box, list(self.positions.values()), self.axes, self.at)
        shape = abstractify(box).shape
        known = in_range(places, axis, shape[axis])
        result = static_take(box, known.ravel(), axis)
        return reshape(result, (*shape[:axis], *known.shape, *shape[axis + 1 :]))

    def added(self, ndim: int) -> tuple[int, ...]:
        """Return where new axes are in the result, given how many axes it has without them."""
        rest = len(self.ranges) - len(self.dropped) - len(self.positions)
        return tuple(entry + (entry >= self.first) * (ndim - rest) for entry in self.new)


def selected(index: Any, shape: tuple[int, ...]) -> Selection:
    """Return what ``index`` means for an array of ``shape``; see :func:`getitem`."""
    entries = _complete(index if isinstance(index, tuple) else (index,), len(shape))
    ranges: list[range] = []
    dropped: list[int] = []
    positions: dict[int, Any] = {}
    for entry in entries:
        axis = len(ranges)
        if isinstance(entry, slice):
            ranges.append(range(*entry.indices(shape[axis])))
        elif isinstance(entry, int):
            position = int(in_range(entry, axis, shape[axis]))
            ranges.append(range(position, position + 1))
            dropped.append(axis)
        elif entry is not None:
            positions[axis - len(dropped)] = entry
            ranges.append(range(shape[axis]))
    # NumPy counts integers among the arrays of positions, and puts their axes first when they are
    # not neighbours.
    chosen = [n for n, entry in enumerate(entries) if not _is_slice(entry)]
    together = bool(chosen) and chosen[-1] - chosen[0] == len(chosen) - 1
    others = [entry for entry in entries if _is_slice(entry)]
    new = tuple(n for n, entry in enumerate(others) if entry is None)
    return Selection(tuple(ranges), tuple(dropped), positions, chosen[0] if together else 0, new)


def _is_slice(entry: Any) -> bool:
    return entry is None or isinstance(entry, slice)


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
    return entries


def _entry(entry: Any) -> Any:
    """Return an index in one of few forms, or refuse it."""
    if entry is Ellipsis or _is_slice(entry) or hasattr(entry, "__cuda_array_interface__"):
        return entry
    if isinstance(entry, Tracer):
        if entry.dtype.kind == "b":
            refuse_mask("indexing by a traced boolean mask")
        return entry
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


def refuse_mask(what: str) -> NoReturn:
    """Raise for an operation whose number of results depends on data."""
    raise NonConcreteBooleanIndexError(
        f"{what} gives a shape that depends on data (at {user_line()}), which cannot be traced. "
        "Keep the shape and mask the values: minijit.numpy.where(mask, x, fill); to reduce, "
        "minijit.numpy.sum(where(mask, x, 0)) and count with minijit.numpy.sum(mask)"
    )


methods["__getitem__"] = getitem
