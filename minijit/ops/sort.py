"""Sorting along one axis, by the array library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.primitive import Primitive
from minijit.graph.trace import abstractify, bind
from minijit.ops.batching import batch_along
from minijit.ops.create import iota
from minijit.ops.gather import taken
from minijit.ops.library import library

__all__ = ["along_axis", "argsort_p", "sort_p"]


def along_axis(x: Any, places: Any, axis: int) -> Any:
    """Return the elements at ``places`` in the row along ``axis`` that each of them belongs to.

    Args:
        x: An array.
        places: Integers inside of the axis; all other extents are those of ``x``.
        axis: Where rows lie.
    """
    shape = abstractify(places).shape
    own = [places if n == axis else iota(shape, n, np.int32) for n in range(len(shape))]
    return taken(x, own, tuple(range(len(shape))), 0)


def _sort_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axis: int) -> tuple[Any, Any]:
    (x,), (moved,) = primals, tangents
    order = bind(argsort_p, x, axis=axis)
    return along_axis(x, order, axis), along_axis(moved, order, axis)


sort_p: Primitive = library(
    "sort",
    lambda xp, operand, axis: xp.sort(xp.asarray(operand), axis),
    lambda operand, axis: ShapedArray(operand.shape, operand.dtype),
    "The elements along ``axis`` in ascending order, NaN last.",
    jvp=_sort_jvp,
    batch=lambda dims, x, axis: batch_along(sort_p, dims, x, axis),
)
argsort_p: Primitive = library(
    "argsort",
    lambda xp, operand, axis: xp.argsort(xp.asarray(operand), axis, kind="stable"),
    lambda operand, axis: ShapedArray(operand.shape, np.dtype(np.int64)),
    "Positions (int64) that sort the elements along ``axis``; equal ones keep their order.",
    batch=lambda dims, x, axis: batch_along(argsort_p, dims, x, axis),
)
