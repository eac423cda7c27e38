"""Arrays put together, cut apart and repeated, all with static counts."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.graph.tracer import Tracer
from minijit.numpy.declare import numpy_function
from minijit.numpy.manipulation import atleast_1d, atleast_2d, atleast_3d
from minijit.ops import join
from minijit.ops.axes import normalize_axis, shape_of
from minijit.ops.index import getitem
from minijit.ops.promote import as_operand, broadcast_to
from minijit.ops.shape import expand_dims, reshape, static_slice, transpose

__all__ = [
    "append",
    "array_split",
    "column_stack",
    "concatenate",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "repeat",
    "roll",
    "split",
    "stack",
    "tile",
    "unstack",
    "vsplit",
    "vstack",
]


@numpy_function()
def concatenate(
    arrays: Sequence[Any], /, axis: int | None = 0, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Join arrays along an axis that they have; ``axis=None`` flattens them first.

    Raises:
        ValueError: no array is given, or extents differ outside of ``axis``.
    """
    operands = [as_operand(array) for array in arrays]
    if axis is None:
        operands = [reshape(a, (abstractify(a).size,)) for a in operands]
    return join.concatenate(operands, axis or 0, dtype)


@numpy_function()
def stack(
    arrays: Sequence[Any], axis: int = 0, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Join arrays of one shape along a new axis; ``ValueError`` when the shapes differ."""
    operands = [as_operand(array) for array in arrays]
    shapes = [abstractify(a).shape for a in operands]
    if len(set(shapes)) != 1:
        raise ValueError(f"stack needs arrays of one shape, not {shapes} (at {user_line()})")
    position = normalize_axis(axis, len(shapes[0]) + 1)
    return join.concatenate([expand_dims(a, (position,)) for a in operands], position, dtype)


@numpy_function()
def hstack(tup: Sequence[Any], *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Join along the second axis; arrays of one axis along it."""
    arrays = [atleast_1d(a) for a in tup]
    return concatenate(arrays, 0 if arrays and abstractify(arrays[0]).ndim == 1 else 1, dtype=dtype)


@numpy_function()
def vstack(tup: Sequence[Any], *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Join along the first axis; arrays of one axis become rows."""
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype)


@numpy_function()
def dstack(tup: Sequence[Any]) -> Any:
    """Join along the third axis."""
    return concatenate([atleast_3d(a) for a in tup], 2)


@numpy_function()
def column_stack(tup: Sequence[Any]) -> Any:
    """Join along the second axis; arrays of one axis become columns."""
    operands = [as_operand(array) for array in tup]
    columns = [transpose(atleast_2d(a)) if abstractify(a).ndim < 2 else a for a in operands]
    return concatenate(columns, 1)


@numpy_function()
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """Join two arrays along ``axis``, flattened by default."""
    return concatenate([arr, values], axis)


# cutting


@numpy_function()
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Cut into so many parts that differ by at most one element, or at the given indices."""
    ary = as_operand(ary)
    extents = abstractify(ary).shape
    axis = normalize_axis(axis, len(extents))
    extent = extents[axis]
    if isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        ends = [slice(end).indices(extent)[1] for end in shape_of(indices_or_sections)]
    else:
        sections = operator.index(indices_or_sections)
        if sections <= 0:
            raise ValueError(f"the number of sections must be positive (at {user_line()})")
        longer = extent % sections
        ends = [n * (extent // sections) + min(n, longer) for n in range(1, sections)]
    parts = []
    for start, stop in zip((0, *ends), (*ends, extent), strict=True):
        ranges = [range(n) for n in extents]
        ranges[axis] = range(start, max(start, stop))
        parts.append(static_slice(ary, ranges))
    return parts


@numpy_function()
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Cut into equal parts, or at the given indices; ``ValueError`` when parts would differ."""
    ary = as_operand(ary)
    if not isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        extents = abstractify(ary).shape
        extent = extents[normalize_axis(axis, len(extents))]
        if extent % operator.index(indices_or_sections):
            raise ValueError(
                f"{extent} elements cannot be split into {indices_or_sections} equal parts "
                f"(at {user_line()}); array_split allows parts that differ"
            )
    return array_split(ary, indices_or_sections, axis)


@numpy_function()
def vsplit(ary: Any, indices_or_sections: Any) -> Any:
    """Cut along the first axis."""
    return split(ary, indices_or_sections, 0)


@numpy_function()
def hsplit(ary: Any, indices_or_sections: Any) -> Any:
    """Cut along the second axis; an array of one axis along it."""
    ary = as_operand(ary)
    return split(ary, indices_or_sections, 0 if abstractify(ary).ndim == 1 else 1)


@numpy_function()
def dsplit(ary: Any, indices_or_sections: Any) -> Any:
    """Cut along the third axis."""
    return split(ary, indices_or_sections, 2)


@numpy_function()
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the slices along ``axis``, without it."""
    x = as_operand(x)
    shape = abstractify(x).shape
    axis = normalize_axis(axis, len(shape))
    before = (slice(None),) * axis
    return tuple(getitem(x, (*before, position)) for position in range(shape[axis]))


# repetition


@numpy_function(method=True)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Repeat each element ``repeats`` times along ``axis`` (of the flattened array by default).

    Args:
        a: An array.
        repeats: A static count, or one for each element along ``axis``.
        axis: Where.

    Raises:
        TracerIntegerConversionError: ``repeats`` is traced: it decides the shape.
        ValueError: a count is negative, or their number does not fit.
    """
    a = as_operand(a)
    if axis is None:
        a, axis = reshape(a, (abstractify(a).size,)), 0
    shape = abstractify(a).shape
    axis = normalize_axis(axis, len(shape))
    if isinstance(repeats, Tracer):
        operator.index(repeats)  # raises, and says why
    counts = np.asarray(repeats)
    if counts.size == 1:
        return _repeat_evenly(a, shape, operator.index(counts.reshape(())[()]), axis)
    return join.static_take(a, np.repeat(np.arange(shape[axis]), counts), axis)


def _repeat_evenly(a: Any, shape: tuple[int, ...], count: int, axis: int) -> Any:
    if count < 0:
        raise ValueError(f"repeats may not be negative (at {user_line()})")
    before, extent, after = shape[:axis], shape[axis], shape[axis + 1 :]
    wide = broadcast_to(expand_dims(a, (axis + 1,)), (*before, extent, count, *after))
    return reshape(wide, (*before, extent * count, *after))


@numpy_function()
def tile(A: Any, reps: Any) -> Any:
    """Repeat the whole array ``reps[axis]`` times along each axis; new axes come first."""
    a = as_operand(A)
    counts = shape_of(reps)
    shape = abstractify(a).shape
    ndim = max(len(shape), len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    shape = (1,) * (ndim - len(shape)) + shape
    wide = reshape(a, [extent for n in shape for extent in (1, n)])
    wide = broadcast_to(wide, tuple(m for pair in zip(counts, shape, strict=True) for m in pair))
    return reshape(wide, tuple(count * n for count, n in zip(counts, shape, strict=True)))


@numpy_function()
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Shift elements along ``axis``, those that leave at the end coming back at the start.

    Without ``axis`` the array is flattened, shifted and given its shape again.
    """
    a = as_operand(a)
    shape = abstractify(a).shape
    if axis is None:
        flat = roll(reshape(a, (abstractify(a).size,)), sum(shape_of(shift)), 0)
        return reshape(flat, shape)
    axes = [normalize_axis(n, len(shape)) for n in shape_of(axis)]
    shifts = shape_of(shift)
    if len(shifts) != len(axes):
        axes, shifts = axes * len(shifts), shifts * len(axes)
    for number, along in zip(shifts, axes, strict=True):
        a = join.static_take(a, np.roll(np.arange(shape[along]), number), along)
    return a
