"""Views: the same elements under other indices, which costs nothing inside a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.index import Affine
from minijit.graph.trace import abstractify, bind
from minijit.ops.axes import (
    complete_shape,
    inserted,
    normalize_axes,
    place_without,
    shape_of,
    shifted,
)
from minijit.ops.promote import broadcast_in_dim_p, convert
from minijit.ops.unview import (
    reshape_back,
    rev_back,
    slice_back,
    transpose_back,
)
from minijit.ops.view import Index, Params, declare_view

__all__ = [
    "expand_dims",
    "move_axis",
    "reshape",
    "reshape_p",
    "rev",
    "rev_p",
    "slice_p",
    "squeeze",
    "squeeze_p",
    "static_slice",
    "transpose",
    "transpose_p",
]

# reshape


def _reshape_groups(
    old: tuple[int, ...], new: tuple[int, ...]
) -> Iterator[tuple[list[int], list[int]]]:
    """Iterate over the smallest runs of axes (of ``old``, of ``new``) that hold the same elements.

    Unit axes belong to no run. Neither shape has an extent of zero.
    """
    old_axes = [axis for axis, n in enumerate(old) if n != 1]
    new_axes = [axis for axis, n in enumerate(new) if n != 1]
    while old_axes:
        left, right = [old_axes.pop(0)], [new_axes.pop(0)]
        old_size, new_size = old[left[0]], new[right[0]]
        while old_size != new_size:
            if old_size < new_size:
                left.append(old_axes.pop(0))
                old_size *= old[left[-1]]
            else:
                right.append(new_axes.pop(0))
                new_size *= new[right[-1]]
        yield left, right


def _reshape_view(
    index: Index, operand: ShapedArray, params: Params, extents: Sequence[int]
) -> Index:
    old, new = operand.shape, params["shape"]
    result = [Affine()] * len(old)
    if not operand.size:
        return tuple(result)
    for old_axes, new_axes in _reshape_groups(old, new):
        parts, inner = [], 1
        for axis in reversed(new_axes):
            parts.append((inner, index[axis]))
            inner *= new[axis]
        position = Affine.total(parts)
        for axis in old_axes[:-1]:
            inner //= old[axis]
            result[axis], position = position.divided(inner, extents)
        result[old_axes[-1]] = position
    return tuple(result)


def _reshape_batch(dims: tuple[int], x: Any, *, shape: tuple[int, ...]) -> tuple[Any, int]:
    (dim,), extents = dims, abstractify(x).shape
    size = extents[dim]
    # In C order the axes before and behind the others leave these among themselves.
    if dim and dim == len(extents) - 1:
        return bind(reshape_p, x, shape=(*shape, size)), len(shape)
    return bind(reshape_p, move_axis(x, dim, 0), shape=(size, *shape)), 0


reshape_p = declare_view(
    "reshape",
    "Read the elements, in C order, as an array of another shape.",
    shape=lambda operand, shape: shape,
    eager=lambda xp, x, shape: x.reshape(shape),
    view=_reshape_view,
    batch=_reshape_batch,
    transpose=reshape_back,
)


def reshape(x: Any, shape: Any) -> Any:
    """Return ``x`` with another shape, elements in C order; one extent may be -1.

    Raises:
        ValueError: the shape holds another number of elements.
        TracerIntegerConversionError: an extent is traced.
    """
    aval = abstractify(x)
    target = complete_shape(shape, aval.size)
    return x if target == aval.shape else bind(reshape_p, x, shape=target)


# transpose


def _transpose_view(
    index: Index, operand: ShapedArray, params: Params, extents: Sequence[int]
) -> Index:
    permutation = params["permutation"]
    return tuple(index[permutation.index(axis)] for axis in range(operand.ndim))


def _transpose_batch(dims: tuple[int], x: Any, *, permutation: tuple[int, ...]) -> tuple[Any, int]:
    (dim,) = dims
    return bind(transpose_p, x, permutation=inserted(shifted(permutation, dim), dim, dim)), dim


transpose_p = declare_view(
    "transpose",
    "Permute axes: axis i of the result is axis ``permutation[i]`` of the operand.",
    shape=lambda operand, permutation: tuple(operand[axis] for axis in permutation),
    eager=lambda xp, x, permutation: x.transpose(permutation),
    view=_transpose_view,
    batch=_transpose_batch,
    transpose=transpose_back,
)


def transpose(x: Any, permutation: Sequence[int] | None = None) -> Any:
    """Return ``x`` with axis ``permutation[i]`` as axis i; None reverses the axes.

    Raises:
        ValueError: ``permutation`` does not name each axis once.
    """
    ndim = abstractify(x).ndim
    if permutation is None:
        axes = tuple(reversed(range(ndim)))
    else:
        axes = normalize_axes(shape_of(permutation), ndim)
        if len(axes) != ndim:
            raise ValueError(f"axes {axes} do not match an array of {ndim} axes")
    return x if axes == tuple(range(ndim)) else bind(transpose_p, x, permutation=axes)


def move_axis(x: Any, source: int, target: int) -> Any:
    """Return ``x`` with its axis ``source`` at place ``target``, the others in their order."""
    if source == target:
        return x
    others = [axis for axis in range(abstractify(x).ndim) if axis != source]
    return bind(transpose_p, x, permutation=inserted(others, target, source))


# squeeze, expand_dims


def _squeeze_view(
    index: Index, operand: ShapedArray, params: Params, extents: Sequence[int]
) -> Index:
    kept = iter(index)
    return tuple(Affine() if axis in params["axes"] else next(kept) for axis in range(operand.ndim))


def _squeeze_batch(dims: tuple[int], x: Any, *, axes: tuple[int, ...]) -> tuple[Any, int]:
    (dim,), axes = dims, shifted(axes, dims[0])
    return bind(squeeze_p, x, axes=axes), place_without(dim, axes)


squeeze_p = declare_view(
    "squeeze",
    "Drop the unit axes ``axes``.",
    shape=lambda operand, axes: tuple(n for axis, n in enumerate(operand) if axis not in axes),
    eager=lambda xp, x, axes: x.squeeze(axes),
    view=_squeeze_view,
    batch=_squeeze_batch,
    transpose=reshape_back,
)


def squeeze(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """Return ``x`` without the unit axes ``axes`` (all unit axes for None).

    Raises:
        ValueError: an axis has another extent than one.
    """
    shape = abstractify(x).shape
    if axes is None:
        dropped = tuple(axis for axis, n in enumerate(shape) if n == 1)
    else:
        dropped = tuple(sorted(normalize_axes(axes, len(shape))))
    if any(shape[axis] != 1 for axis in dropped):
        raise ValueError(f"cannot squeeze axes {dropped} of shape {shape}: not all have extent one")
    return bind(squeeze_p, x, axes=dropped) if dropped else x


def expand_dims(x: Any, axes: tuple[int, ...]) -> Any:
    """Return ``x`` with unit axes at the positions ``axes`` of the result.

    Raises:
        numpy.exceptions.AxisError: a position is out of range.
        ValueError: a position is given twice.
    """
    aval = abstractify(x)
    shape, ndim = aval.shape, aval.ndim + len(axes)
    added = normalize_axes(axes, ndim)
    if not added:
        return x
    dims = tuple(axis for axis in range(ndim) if axis not in added)
    extents = [1] * ndim
    for axis, n in zip(dims, shape, strict=True):
        extents[axis] = n
    # An array with axes is never weak, in NumPy.
    strong = convert(x, aval.dtype)
    return bind(broadcast_in_dim_p, strong, shape=tuple(extents), dims=dims)


# reversal, slices


def _rev_view(index: Index, operand: ShapedArray, params: Params, extents: Sequence[int]) -> Index:
    return tuple(
        index[axis].scaled(-1, n - 1) if axis in params["axes"] and n != 1 else index[axis]
        for axis, n in enumerate(operand.shape)
    )


def _rev_batch(dims: tuple[int], x: Any, *, axes: tuple[int, ...]) -> tuple[Any, int]:
    return bind(rev_p, x, axes=shifted(axes, dims[0])), dims[0]


rev_p = declare_view(
    "rev",
    "Reverse the order along ``axes``.",
    shape=lambda operand, axes: operand,
    eager=lambda xp, x, axes: xp.flip(x, axes),
    view=_rev_view,
    batch=_rev_batch,
    transpose=rev_back,
)


def rev(x: Any, axes: int | Sequence[int]) -> Any:
    """Return ``x`` with its elements in the opposite order along ``axes``."""
    axes = tuple(sorted(normalize_axes(axes, abstractify(x).ndim)))
    return bind(rev_p, x, axes=axes) if axes else x


def _slice_shape(
    operand: tuple[int, ...], start: Sequence[int], stop: Sequence[int], step: Sequence[int]
) -> tuple[int, ...]:
    return tuple(len(range(*bounds)) for bounds in zip(start, stop, step, strict=True))


def _slice_view(
    index: Index, operand: ShapedArray, params: Params, extents: Sequence[int]
) -> Index:
    bounds = zip(index, params["start"], params["step"], strict=True)
    return tuple(position.scaled(step, start) for position, start, step in bounds)


def _slice_batch(
    dims: tuple[int], x: Any, *, start: Sequence[int], stop: Sequence[int], step: Sequence[int]
) -> tuple[Any, int]:
    (dim,) = dims
    whole = {"start": 0, "stop": abstractify(x).shape[dim], "step": 1}
    given = {"start": start, "stop": stop, "step": step}
    params = {name: inserted(given[name], dim, bound) for name, bound in whole.items()}
    return bind(slice_p, x, **params), dim


slice_p = declare_view(
    "slice",
    "Elements ``start, start + step, ...`` below ``stop`` along each axis; steps are positive.",
    shape=_slice_shape,
    eager=lambda xp, x, start, stop, step: x[tuple(map(slice, start, stop, step))],
    view=_slice_view,
    batch=_slice_batch,
    transpose=slice_back,
)


def static_slice(x: Any, ranges: Sequence[range]) -> Any:
    """Return the elements of ``x`` at ``ranges[axis]`` along each axis.

    Args:
        x: An array of ``len(ranges)`` axes.
        ranges: Positions inside the axes; a negative step reverses.
    """
    shape = abstractify(x).shape
    ascending = [r if r.step > 0 else r[::-1] for r in ranges]
    if any(len(r) != n or r.step != 1 for r, n in zip(ascending, shape, strict=True)):
        # An empty range may start beyond the end of its axis.
        bounds = [(r.start, r[-1] + 1, r.step) if r else (0, 0, 1) for r in ascending]
        start, stop, step = zip(*bounds, strict=True)
        x = bind(slice_p, x, start=start, stop=stop, step=step)
    return rev(x, [axis for axis, r in enumerate(ranges) if r.step < 0 and len(r) > 1])
