"""Shapes and axes: every function here is a view, free inside a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.numpy.declare import numpy_function
from minijit.ops import promote
from minijit.ops import shape as views
from minijit.ops.axes import normalize_axes, normalize_axis, shape_of
from minijit.ops.diagonal import diagonal as diagonal_of
from minijit.ops.promote import as_operand

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_to",
    "diagonal",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "matrix_transpose",
    "moveaxis",
    "ravel",
    "reshape",
    "rollaxis",
    "rot90",
    "squeeze",
    "swapaxes",
    "transpose",
]

Axes = int | Sequence[int]


@numpy_function()
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """Return ``a`` with another shape; one extent may be -1.

    Raises:
        ValueError: the shape holds another number of elements, or ``order`` is not "C" or "F".
        TracerIntegerConversionError: an extent is traced.
    """
    a = as_operand(a)
    if order == "C":
        return views.reshape(a, shape)
    if order == "F":
        extents = abstractify(views.reshape(a, shape)).shape  # resolves -1
        return views.transpose(views.reshape(views.transpose(a), extents[::-1]))
    raise ValueError(
        f"order={order!r} depends on the memory layout (at {user_line()}), and a traced array has "
        "none: write order='C' or order='F'"
    )


@numpy_function(method=True)
def ravel(a: Any, order: str = "C") -> Any:
    """Return the elements of ``a`` as one axis, in C order or in Fortran order ("F")."""
    a = as_operand(a)
    return reshape(a, (abstractify(a).size,), order)


@numpy_function("permute_dims")
def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    """Return ``a`` with axis ``axes[i]`` as axis i; by default the axes are reversed."""
    return views.transpose(as_operand(a), axes)


@numpy_function("linalg.matrix_transpose")
def matrix_transpose(x: Any, /) -> Any:
    """Swap the last two axes; ``ValueError`` for fewer than two."""
    x = as_operand(x)
    if abstractify(x).ndim < 2:
        raise ValueError(f"a matrix has at least two axes (at {user_line()})")
    return swapaxes(x, -1, -2)


@numpy_function(method=True)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Exchange two axes."""
    a = as_operand(a)
    axes = list(range(abstractify(a).ndim))
    first, second = normalize_axis(axis1, len(axes)), normalize_axis(axis2, len(axes))
    axes[first], axes[second] = axes[second], axes[first]
    return views.transpose(a, axes)


@numpy_function()
def moveaxis(a: Any, source: Axes, destination: Axes) -> Any:
    """Move the axes ``source`` to the positions ``destination``; the others keep their order."""
    a = as_operand(a)
    ndim = abstractify(a).ndim
    origins, targets = normalize_axes(source, ndim), normalize_axes(destination, ndim)
    if len(origins) != len(targets):
        raise ValueError(f"moveaxis: {source} and {destination} name different numbers of axes")
    order = [axis for axis in range(ndim) if axis not in origins]
    for target, origin in sorted(zip(targets, origins, strict=True)):
        order.insert(target, origin)
    return views.transpose(a, order)


@numpy_function()
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """Move ``axis`` back until it lies before the position ``start``."""
    a = as_operand(a)
    ndim = abstractify(a).ndim
    origin = normalize_axis(axis, ndim)
    target = ndim if start == ndim else normalize_axis(start, ndim)
    return moveaxis(a, origin, target - (origin < target))


@numpy_function()
def expand_dims(a: Any, axis: Axes) -> Any:
    """Insert unit axes at the positions ``axis`` of the result."""
    return views.expand_dims(as_operand(a), shape_of(axis))


@numpy_function(method=True)
def squeeze(a: Any, axis: Axes | None = None) -> Any:
    """Drop the unit axes ``axis``, by default all; ``ValueError`` when an extent is not one."""
    return views.squeeze(as_operand(a), axis)


@numpy_function()
def flip(m: Any, axis: Axes | None = None) -> Any:
    """Reverse the order of the elements along ``axis``, by default along all axes."""
    m = as_operand(m)
    return views.rev(m, tuple(range(abstractify(m).ndim)) if axis is None else axis)


@numpy_function()
def fliplr(m: Any) -> Any:
    """Reverse the second axis."""
    return flip(m, 1)


@numpy_function()
def flipud(m: Any) -> Any:
    """Reverse the first axis."""
    return flip(m, 0)


@numpy_function()
def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    """Turn by ``k`` quarters in the plane of two axes, from the first towards the second."""
    m = as_operand(m)
    first, second = normalize_axes(tuple(axes), abstractify(m).ndim)
    quarter = shape_of(k)[0] % 4
    if quarter == 1:
        return swapaxes(flip(m, second), first, second)
    if quarter == 3:
        return flip(swapaxes(m, first, second), second)
    return flip(m, (first, second)) if quarter else m


def _strong(array: Any) -> Any:
    """Return an operand that is not weak: NumPy broadcasts a Python scalar to a float64 array."""
    array = as_operand(array)
    return promote.convert(array, abstractify(array).dtype)


@numpy_function()
def broadcast_to(array: Any, shape: Any) -> Any:
    """Repeat along new leading axes and unit axes; ``ValueError`` when the shapes do not fit."""
    return promote.broadcast_to(_strong(array), shape_of(shape))


@numpy_function()
def broadcast_arrays(*args: Any) -> tuple[Any, ...]:
    """Broadcast arrays to one shape."""
    arrays = [_strong(array) for array in args]
    common = promote.broadcast_shapes(*(abstractify(array).shape for array in arrays))
    return tuple(promote.broadcast_to(array, common) for array in arrays)


@numpy_function()
def atleast_1d(*arys: Any) -> Any:
    """Turn scalars into arrays of one axis; a tuple for several arguments."""
    return _each(arys, lambda a, ndim: views.expand_dims(a, (0,)) if ndim == 0 else a)


@numpy_function()
def atleast_2d(*arys: Any) -> Any:
    """Add leading unit axes up to two axes; a tuple for several arguments."""
    return _each(arys, lambda a, ndim: views.expand_dims(a, tuple(range(2 - ndim))))


@numpy_function()
def atleast_3d(*arys: Any) -> Any:
    """Add unit axes up to three axes, a matrix's at its end; a tuple for several arguments."""
    places = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
    return _each(arys, lambda a, ndim: views.expand_dims(a, places.get(ndim, ())))


def _each(arrays: Sequence[Any], change: Any) -> Any:
    operands = [as_operand(array) for array in arrays]
    results = tuple(change(operand, abstractify(operand).ndim) for operand in operands)
    return results[0] if len(results) == 1 else results


@numpy_function(method=True)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the elements ``[i, i + offset]`` of two axes as a new last axis."""
    return diagonal_of(as_operand(a), offset, axis1, axis2)
