"""The diagonal of two axes, a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.trace import abstractify, bind
from minijit.ops.axes import normalize_axes, place_without, shape_of, shifted
from minijit.ops.unview import diagonal_back
from minijit.ops.view import Index, Params, declare_view

__all__ = ["diagonal", "diagonal_p"]


def _diagonal_shape(
    operand: tuple[int, ...], offset: int, axis1: int, axis2: int
) -> tuple[int, ...]:
    length = min(operand[axis1] + min(offset, 0), operand[axis2] - max(offset, 0))
    kept = (n for axis, n in enumerate(operand) if axis not in (axis1, axis2))
    return (*kept, max(length, 0))


def _diagonal_view(
    index: Index, operand: ShapedArray, params: Params, extents: Sequence[int]
) -> Index:
    offset = params["offset"]
    along = {
        params["axis1"]: index[-1].scaled(1, max(-offset, 0)),
        params["axis2"]: index[-1].scaled(1, max(offset, 0)),
    }
    kept = iter(index[:-1])
    return tuple(along[axis] if axis in along else next(kept) for axis in range(operand.ndim))


def _diagonal_batch(
    dims: tuple[int], x: Any, *, offset: int, axis1: int, axis2: int
) -> tuple[Any, int]:
    (dim,), (first, second) = dims, shifted((axis1, axis2), dims[0])
    result = bind(diagonal_p, x, offset=offset, axis1=first, axis2=second)
    return result, place_without(dim, (first, second))


diagonal_p = declare_view(
    "diagonal",
    "Elements ``[i, i + offset]`` of ``axis1, axis2`` as a new last axis.",
    shape=_diagonal_shape,
    eager=lambda xp, x, offset, axis1, axis2: xp.diagonal(x, offset, axis1, axis2),
    view=_diagonal_view,
    batch=_diagonal_batch,
    transpose=diagonal_back,
)


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the elements ``[i, i + offset]`` of two axes as a new last axis.

    Raises:
        ValueError: ``x`` has fewer than two axes, or the two are one.
    """
    ndim = abstractify(x).ndim
    if ndim < 2:
        raise ValueError(f"diagonal needs an array of at least two axes, not of {ndim}")
    first, second = normalize_axes((axis1, axis2), ndim)
    (offset,) = shape_of(offset)
    return bind(diagonal_p, x, offset=offset, axis1=first, axis2=second)
