"""Reading what users pass as shapes and axes: static integers, negative ones from the end."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.exceptions import AxisError

from minijit.graph.source_info import user_line

__all__ = [
    "complete_shape",
    "extents_of",
    "inserted",
    "normalize_axes",
    "normalize_axis",
    "place_without",
    "shape_of",
    "shifted",
]

_T = TypeVar("_T")


def shifted(axes: Sequence[int], new: int) -> tuple[int, ...]:
    """Return the places of ``axes`` once there is a new axis at place ``new``."""
    return tuple(axis + (axis >= new) for axis in axes)


def place_without(axis: int, gone: Iterable[int]) -> int:
    """Return the place of ``axis`` once the axes ``gone`` are, which it is none of."""
    return axis - sum(other < axis for other in gone)


def inserted(items: Sequence[_T], place: int, item: _T) -> tuple[_T, ...]:
    """Return ``items``, one for each axis, with another one for a new axis."""
    return (*items[:place], item, *items[place:])


def shape_of(shape: Any) -> tuple[int, ...]:
    """Return ``shape`` (an integer, a sequence of integers or a concrete array of them) as a tuple.

    Raises:
        TracerIntegerConversionError: an extent is traced; the message names ``static_argnames``.
        TypeError: an extent is not an integer.
    """
    is_sequence = isinstance(shape, (tuple, list)) or (isinstance(shape, np.ndarray) and shape.ndim)
    entries = tuple(shape) if is_sequence else (shape,)
    try:
        return tuple(map(operator.index, entries))
    except TypeError as error:
        if type(error) is not TypeError:  # a refusal of the tracer says more than we could
            raise
        raise TypeError(f"{shape!r} is not a shape of integers (at {user_line()})") from None


def extents_of(shape: Any) -> tuple[int, ...]:
    """Return the extents of an array that is made.

    Raises:
        TracerIntegerConversionError: an extent is traced; the message names ``static_argnames``.
        TypeError: an extent is not an integer.
        ValueError: an extent is negative.
    """
    extents = shape_of(shape)
    if min(extents, default=0) < 0:
        raise ValueError(f"negative dimensions are not allowed: {extents} (at {user_line()})")
    return extents


def complete_shape(shape: Any, size: int) -> tuple[int, ...]:
    """Return ``shape`` with an extent -1 replaced by what makes it hold ``size`` elements.

    Raises:
        ValueError: it cannot hold them, or has more than one unknown extent.
    """
    extents = shape_of(shape)
    known = math.prod(n for n in extents if n != -1)
    unknown = extents.count(-1)
    if unknown == 1 and known and size % known == 0:
        extents = tuple(size // known if n == -1 else n for n in extents)
    elif unknown or known != size or min(extents, default=0) < 0:
        raise ValueError(
            f"cannot reshape array of size {size} into shape {extents} (at {user_line()})"
        )
    return extents


def normalize_axis(axis: Any, ndim: int) -> int:
    """Return ``axis`` counted from the front.

    Raises:
        numpy.exceptions.AxisError: out of range (a ValueError and an IndexError).
        TracerIntegerConversionError: it is traced.
    """
    position = operator.index(axis)
    if not -ndim <= position < ndim:
        raise AxisError(
            f"axis {position} is out of bounds for array of dimension {ndim} (at {user_line()})"
        )
    return position % ndim


def normalize_axes(axes: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return ``axes`` counted from the front, in the order given.

    Raises:
        numpy.exceptions.AxisError: one is out of range.
        ValueError: one is given twice.
    """
    entries = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    result = tuple(normalize_axis(axis, ndim) for axis in entries)
    if len(set(result)) != len(result):
        raise ValueError(f"axes {entries} name one axis twice (at {user_line()})")
    return result
