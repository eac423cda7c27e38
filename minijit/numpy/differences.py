"""Differences between neighbours."""

from __future__ import annotations

import operator
from typing import Any

from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.numpy.declare import numpy_function
from minijit.numpy.joining import concatenate
from minijit.ops.axes import normalize_axis
from minijit.ops.binary import subtract
from minijit.ops.compare import not_equal
from minijit.ops.promote import as_operand, broadcast_to
from minijit.ops.shape import static_slice

__all__ = ["diff"]

_NONE: Any = object()


@numpy_function()
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _NONE, append: Any = _NONE) -> Any:
    """Return ``a[i + 1] - a[i]`` along ``axis``, ``n`` times over; ``!=`` for bools.

    Args:
        a: An array.
        n: Static count.
        axis: Where.
        prepend: Values put before ``a`` first.
        append: Values put after ``a`` first.

    Raises:
        ValueError: ``n`` is negative or ``a`` is a scalar.
    """
    a, count = as_operand(a), operator.index(n)
    aval = abstractify(a)
    if count < 0 or not aval.ndim:
        raise ValueError(f"diff needs n >= 0 and at least one axis (at {user_line()})")
    if not count:
        return a
    axis = normalize_axis(axis, aval.ndim)
    ends = [_border(value, aval.shape, axis) for value in (prepend, append)]
    a = concatenate([*ends[0], a, *ends[1]], axis)
    subtraction = not_equal if aval.dtype.kind == "b" else subtract
    for _ in range(count):
        shape = abstractify(a).shape
        upper, lower = ([range(m) for m in shape] for _ in range(2))
        upper[axis], lower[axis] = range(1, max(shape[axis], 1)), range(max(shape[axis] - 1, 0))
        a = subtraction(static_slice(a, upper), static_slice(a, lower))
    return a


def _border(value: Any, shape: tuple[int, ...], axis: int) -> list[Any]:
    """Return the array to put at an end, or nothing; a scalar is one slice."""
    if value is _NONE or _is_no_value(value):
        return []
    value = as_operand(value)
    if abstractify(value).ndim:
        return [value]
    return [broadcast_to(value, (*shape[:axis], 1, *shape[axis + 1 :]))]


def _is_no_value(value: Any) -> bool:
    """Whether ``value`` is what NumPy's own functions hand on for an argument not given."""
    return type(value).__name__ == "_NoValueType"
