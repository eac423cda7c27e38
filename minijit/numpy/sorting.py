"""Sorting."""

from __future__ import annotations

from typing import Any

from minijit.graph.primitive import Primitive
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify, bind
from minijit.numpy.declare import numpy_function
from minijit.ops.axes import normalize_axis
from minijit.ops.promote import as_operand
from minijit.ops.shape import reshape
from minijit.ops.sort import argsort_p, sort_p

__all__ = ["argsort", "sort"]


def _sorted(primitive: Primitive, a: Any, axis: int | None, order: Any) -> Any:
    if order is not None:
        raise TypeError(f"order= names fields, which no array has here (at {user_line()})")
    a = as_operand(a)
    if axis is None:
        a, axis = reshape(a, (-1,)), 0
    return bind(primitive, a, axis=normalize_axis(axis, abstractify(a).ndim))


@numpy_function()
def sort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
) -> Any:
    """Return the elements along ``axis``, or of the flattened array, in ascending order.

    NaN comes last. ``kind`` and ``stable`` make no difference to the result.
    """
    return _sorted(sort_p, a, axis, order)


@numpy_function(method=True)
def argsort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
) -> Any:
    """Return positions (int64) that sort along ``axis``; equal elements keep their order.

    That is what NumPy does with ``stable=True``, and one of the results it may give without.
    """
    return _sorted(argsort_p, a, axis, order)
