"""``x.at[index].set(y)`` and its like: new arrays in which some elements are others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify, bind
from minijit.ops.binary import divide, multiply, subtract
from minijit.ops.bitwise import bitwise_and
from minijit.ops.compare import equal, greater_equal, less
from minijit.ops.create import iota
from minijit.ops.division import remainder
from minijit.ops.gather import SCATTERED, scatter_p
from minijit.ops.index import Selection, getitem, selected
from minijit.ops.join import pad, spread
from minijit.ops.places import existence, is_unknown, places_of, taken_shape
from minijit.ops.power import power
from minijit.ops.promote import as_operand, broadcast_in_dim_p, broadcast_to, convert
from minijit.ops.select import where
from minijit.ops.shape import expand_dims, rev, squeeze, static_slice
from minijit.ops.unary import negative

__all__ = ["At", "Elements"]

_COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    **SCATTERED,
    "multiply": multiply,
    "divide": divide,
    "power": power,
}
"""What becomes of an element and a value."""


class At:
    """``x.at``: its elements, by index."""

    def __init__(self, x: Any) -> None:
        """Remember the array."""
        self._x = x

    def __getitem__(self, index: Any) -> Elements:
        """Return the elements ``x[index]``, of which new arrays can be made."""
        return Elements(self._x, index)


class Elements:
    """``x.at[index]``: each method returns a new array, like ``x`` but for these elements.

    An index means what it does in ``x[index]``, but what is put at traced positions outside of the
    array is dropped, and values are converted to the dtype of ``x``. Where there are arrays of
    positions, the array library changes a copy; else the new array is fused into what needs it.
    """

    def __init__(self, x: Any, index: Any) -> None:
        """Remember what is to be changed."""
        self._x = x
        self._index = index

    def get(self) -> Any:
        """Return the elements themselves, ``x[index]``."""
        return getitem(self._x, self._index)

    def set(self, values: Any) -> Any:
        """Return ``x`` with ``values`` there.

        Of several for one place the last one counts, on a GPU any one of them.
        """
        return self._updated(values, "set")

    def add(self, values: Any) -> Any:
        """Return ``x`` with ``values`` added there, as often as a position is given."""
        return self._updated(values, "add")

    def subtract(self, values: Any) -> Any:
        """Return ``x`` with ``values`` subtracted there, as often as a position is given."""
        return self._updated(negative(as_operand(values)), "add")

    def multiply(self, values: Any) -> Any:
        """Return ``x`` with these elements multiplied by ``values``."""
        return self._updated(values, "multiply")

    def divide(self, values: Any) -> Any:
        """Return ``x`` with these elements divided by ``values``, in the dtype of ``x``."""
        return self._updated(values, "divide")

    def power(self, values: Any) -> Any:
        """Return ``x`` with these elements to the power of ``values``."""
        return self._updated(values, "power")

    mul = multiply

    def min(self, values: Any) -> Any:
        """Return ``x`` with the smaller of both there."""
        return self._updated(values, "minimum")

    def max(self, values: Any) -> Any:
        """Return ``x`` with the larger of both there."""
        return self._updated(values, "maximum")

    def _updated(self, values: Any, how: str) -> Any:
        x, values = self._x, as_operand(values)
        aval = abstractify(x)
        selection = selected(self._index, aval.shape)
        box = selection.box(x)
        axes, shape = tuple(selection.axes), abstractify(box).shape
        positions = list(selection.positions.values())
        places, exist = places_of(positions, shape, axes), existence(positions, shape, axes)
        own = abstractify(places[0]).shape if places else ()
        shape = taken_shape(shape, own, axes, selection.at)
        values = _fitted(convert(values, aval.dtype), shape, selection)
        if own:
            box = _scattered(box, values, places, exist, selection, how)
        else:
            at_once = dict(zip(axes, places, strict=True))
            box = _at_one_place(box, values, at_once, exist, how)
        return _put_back(x, expand_dims(box, selection.dropped), selection.ranges)


def _fitted(values: Any, shape: tuple[int, ...], selection: Selection) -> Any:
    """Return values in the ``shape`` of what is taken from the box, without new axes."""
    added = selection.added(len(shape))
    left = iter(shape)
    full = tuple(1 if n in added else next(left) for n in range(len(shape) + len(added)))
    return squeeze(broadcast_to(values, full), added)


def _scattered(
    box: Any, values: Any, places: list[Any], exist: Any, selection: Selection, how: str
) -> Any:
    """Return the box as the array library changes it; what does not exist is dropped."""
    if how not in SCATTERED:
        raise TypeError(
            f"x.at[positions].{how}() is not part of this release (at {user_line()}): where no "
            "position stands twice, write x.at[i].set(...) of x[i]"
        )
    axes, shape = selection.axes, abstractify(box).shape
    params = {"axes": tuple(axes), "at": selection.at, "how": how}
    if exist is None:
        return bind(scatter_p, box, values, *places, **params)
    # One more place along an axis takes what is dropped.
    last = max(n for n, each in enumerate(selection.positions.values()) if is_unknown(each))
    longer = axes[last]
    places[last] = where(exist, places[last], shape[longer])
    more = [int(axis == longer) for axis in range(len(shape))]
    padded = pad(box, abstractify(box).dtype.type(0), [0] * len(shape), more)
    changed = bind(scatter_p, padded, values, *places, **params)
    return static_slice(changed, [range(n) for n in shape])


def _at_one_place(box: Any, values: Any, places: dict[int, Any], exists: Any, how: str) -> Any:
    """Return the box with a value for each place along the axes that have one position."""
    shape = abstractify(box).shape
    rest = tuple(axis for axis in range(len(shape)) if axis not in places)
    repeated = bind(broadcast_in_dim_p, values, shape=shape, dims=rest)
    masks = [equal(iota(shape, axis, abstractify(p).dtype), p) for axis, p in places.items()]
    masks += [] if exists is None else [exists]
    # A quotient of integers is a float.
    combined = convert(_COMBINED[how](box, repeated), abstractify(box).dtype)
    return _where_all(masks, combined, box)


def _where_all(masks: list[Any], new: Any, old: Any) -> Any:
    return where(functools.reduce(bitwise_and, masks), new, old) if masks else new


def _put_back(x: Any, box: Any, ranges: tuple[range, ...]) -> Any:
    """Return ``x`` with what it has along ``ranges`` replaced."""
    shape = abstractify(x).shape
    masks = []
    for axis, (extent, own) in enumerate(zip(shape, ranges, strict=True)):
        if not len(own):
            return x
        if own.step < 0:
            own, box = own[::-1], rev(box, axis)
        if len(own) == extent:
            continue
        box = spread(box, abstractify(x).dtype.type(0), axis, own.step - 1)
        low, high = own.start, own[-1] + 1
        widths = [[0] * len(shape), [0] * len(shape)]
        widths[0][axis], widths[1][axis] = low, extent - high
        box = pad(box, abstractify(x).dtype.type(0), *widths)
        number = iota(shape, axis, np.int64)
        masks += [greater_equal(number, low)] if low else []
        masks += [less(number, high)] if high < extent else []
        if own.step > 1:
            masks.append(equal(remainder(subtract(number, low), own.step), 0))
    return _where_all(masks, broadcast_to(box, shape), x)
