"""Running sums and products along one axis, by the array library."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.primitive import LINEAR, UNDECLARED, JvpRule, Primitive, Rule
from minijit.graph.trace import bind
from minijit.ops.batching import batch_along
from minijit.ops.create import full
from minijit.ops.library import library
from minijit.ops.scan import scan
from minijit.ops.shape import rev, transpose

__all__ = ["cumprod_p", "cumsum_p"]


def _same_shape(operand: ShapedArray, *, axis: int) -> ShapedArray:
    return ShapedArray(operand.shape, operand.dtype)


def _cumsum_transpose(cotangent: Any, operand: ShapedArray, *, axis: int) -> tuple[Any]:
    return (rev(bind(cumsum_p, rev(cotangent, axis), axis=axis), axis),)


def _cumprod_jvp(primals: Any, tangents: Any, *, axis: int) -> tuple[Any, Any]:
    """Carry the product and its derivative along, which is right next to zeros as well."""
    (x,), (moved,) = primals, tangents
    order = (axis, *(other for other in range(x.ndim) if other != axis))
    rows = [transpose(each, order) for each in (x, moved)]

    def step(state: tuple[Any, Any], row: list[Any]) -> tuple[tuple[Any, Any], Any]:
        (product, change), (factor, moved) = state, row
        change = change * factor + product * moved
        return (product * factor, change), change

    shape = rows[0].shape[1:]
    start = full(shape, 1, x.dtype), full(shape, 0, x.dtype)
    changes = scan(step, start, rows)[1]
    back = tuple(order.index(own) for own in range(x.ndim))
    return bind(cumprod_p, x, axis=axis), transpose(changes, back)


def _running(name: str, doc: str, jvp: JvpRule, transpose: Rule = UNDECLARED) -> Primitive:
    """Declare a primitive for a function that NumPy and CuPy call by that name."""

    def eager(xp: Any, operand: Any, *, axis: int) -> Any:
        operand = xp.asarray(operand)
        with np.errstate(all="ignore"):
            return getattr(xp, name)(operand, axis=axis, dtype=operand.dtype)

    def batch(dims: tuple[int], operand: Any, *, axis: int) -> tuple[Any, int]:
        return batch_along(primitive, dims, operand, axis)

    rules: dict[str, Any] = {"jvp": jvp, "transpose": transpose, "batch": batch}
    primitive = library(name, eager, _same_shape, doc, **rules)
    return primitive


cumsum_p = _running(
    "cumsum", "Running sum along ``axis``, in the operand's dtype.", LINEAR, _cumsum_transpose
)
cumprod_p = _running(
    "cumprod", "Running product along ``axis``, in the operand's dtype.", _cumprod_jvp
)
