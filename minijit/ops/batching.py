"""What batch rules share: operands with the batch where a rule wants it, rules by kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijit.graph.primitive import Primitive
from minijit.graph.trace import abstractify, bind
from minijit.ops.axes import inserted, place_without, shifted
from minijit.ops.promote import broadcast_in_dim_p, convert
from minijit.ops.shape import move_axis

__all__ = [
    "Dim",
    "batch_along",
    "batch_elementwise",
    "batch_reduction",
    "batch_size",
    "own_shape",
    "with_batch",
]

Dim = int | None
"""Which axis of an array is the batch; None where it has none, being the same for all."""


def batch_size(dims: Sequence[Dim], operands: Sequence[Any]) -> int:
    """Return the extent of the batch axis, which at least one operand has."""
    return next(
        abstractify(x).shape[dim] for x, dim in zip(operands, dims, strict=True) if dim is not None
    )


def own_shape(x: Any, dim: Dim) -> tuple[int, ...]:
    """Return the shape of one element of the batch."""
    shape = abstractify(x).shape
    return shape if dim is None else (*shape[:dim], *shape[dim + 1 :])


def with_batch(x: Any, dim: Dim, at: int, size: int) -> Any:
    """Return ``x`` with its batch at axis ``at``; one that has none is repeated, as a view."""
    if dim is not None:
        return move_axis(x, dim, at)
    aval = abstractify(x)
    dims = shifted(range(aval.ndim), at)
    # An array with axes is never weak, in NumPy.
    strong = convert(x, aval.dtype)
    return bind(broadcast_in_dim_p, strong, shape=inserted(aval.shape, at, size), dims=dims)


def batch_elementwise(
    primitive: Primitive, dims: Sequence[Dim], *operands: Any, **params: Any
) -> tuple[Any, int]:
    """Apply a primitive of operands of one shape, or of shape ``()``, to a batch of them.

    The batch lies where the first of those that have all axes has it: nothing moves if they agree.
    """
    size = batch_size(dims, operands)
    shapes = [own_shape(x, dim) for x, dim in zip(operands, dims, strict=True)]
    shape = max(shapes, key=len)
    given = zip(dims, shapes, strict=True)
    at = next((dim for dim, own in given if dim is not None and own == shape), 0)

    def aligned(x: Any, dim: Dim, own: tuple[int, ...]) -> Any:
        if own == shape and (dim is not None or own):
            return with_batch(x, dim, at, size)
        if dim is None:
            return x  # a scalar goes with every shape
        return bind(broadcast_in_dim_p, x, shape=inserted(shape, at, size), dims=(at,))

    return bind(primitive, *map(aligned, operands, dims, shapes), **params), at


def batch_reduction(
    primitive: Primitive, dims: Sequence[Dim], operand: Any, *, axes: tuple[int, ...], **params: Any
) -> tuple[Any, int]:
    """Reduce each element of a batch along its own axes."""
    (dim,) = dims
    assert dim is not None
    axes = shifted(axes, dim)
    result = bind(primitive, operand, axes=axes, **params)
    return result, place_without(dim, axes)


def batch_along(
    primitive: Primitive, dims: Sequence[Dim], operand: Any, axis: int
) -> tuple[Any, int]:
    """Apply a primitive that goes along an axis, and keeps it, to each element of a batch."""
    (dim,) = dims
    assert dim is not None
    return bind(primitive, operand, axis=axis + (axis >= dim)), dim
