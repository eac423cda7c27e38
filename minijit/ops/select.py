"""Choosing between values: ``where`` and ``clip``."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import BOOL
from minijit.graph.primitive import Kind, Primitive, register
from minijit.graph.trace import abstractify, bind
from minijit.ops.binary import maximum, minimum
from minijit.ops.define import choice
from minijit.ops.promote import as_operand, broadcast_operands, convert, operand_aval, result_dtype

__all__ = ["clip", "select_p", "where"]


def _select_aval(
    predicate: ShapedArray, on_true: ShapedArray, on_false: ShapedArray
) -> ShapedArray:
    shapes = {aval.shape for aval in (predicate, on_true, on_false) if aval.shape}
    if len(shapes) > 1:
        raise TypeError(f"select: operands of shapes {sorted(shapes)}")
    if predicate.dtype != BOOL or on_true.dtype != on_false.dtype:
        raise TypeError(f"select: operands {predicate}, {on_true} and {on_false}")
    weak = on_true.weak_type and on_false.weak_type
    return ShapedArray(shapes.pop() if shapes else (), on_true.dtype, weak)


def _select_eager(xp: Any, predicate: Any, on_true: Any, on_false: Any) -> Any:
    return xp.where(predicate, on_true, on_false)[()]


def _select_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    predicate, *values = primals
    moved = [
        value.dtype.type(0) if tangent is None else tangent
        for value, tangent in zip(values, tangents[1:], strict=True)
    ]
    return bind(select_p, *primals), bind(select_p, predicate, *moved)


def _select_transpose(
    cotangent: Any, predicate: Any, on_true: Any, on_false: Any
) -> tuple[Any, Any, Any]:
    zero = abstractify(cotangent).dtype.type(0)
    return (
        None,
        bind(select_p, predicate, cotangent, zero),
        bind(select_p, predicate, zero, cotangent),
    )


select_p = register(
    Primitive(
        name="select",
        kind=Kind.ELEMENTWISE,
        doc="The second operand where the first (a bool) holds, else the third.",
        abstract_eval=_select_aval,
        eager=_select_eager,
        scalar=choice(lambda predicate, x, y: x if predicate else y),
        jvp=_select_jvp,
        transpose=_select_transpose,
    )
)


def where(condition: Any, x: Any, y: Any) -> Any:
    """Return ``x`` where ``condition`` holds and ``y`` elsewhere, all three broadcast."""
    condition, x, y = as_operand(condition), as_operand(x), as_operand(y)
    avals = [operand_aval(x), operand_aval(y)]
    dtype = result_dtype(avals)
    weak = all(aval.weak_type for aval in avals)
    operands = [convert(condition, BOOL), convert(x, dtype, weak), convert(y, dtype, weak)]
    return bind(select_p, *broadcast_operands(operands))


def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    """Limit ``x`` to ``[low, high]`` as NumPy does: ``minimum(maximum(x, low), high)``.

    A bound that is None is none, like a Python integer at or beyond the limit of an integer dtype;
    NaN in any operand gives NaN.
    """
    x = as_operand(x)
    aval = abstractify(x)
    if aval.dtype.kind in "iu":
        limits = np.iinfo(aval.dtype)
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    low, high = as_operand(low), as_operand(high)
    given = [value for value in (x, low, high) if value is not None]
    avals = list(map(operand_aval, given))
    dtype, weak = result_dtype(avals), all(aval.weak_type for aval in avals)
    x = convert(x, dtype, weak)
    if low is not None and high is not None:
        # NumPy's three-operand loop keeps x's zero where it equals a bound; max alone does not.
        low, high = convert(low, dtype, weak), convert(high, dtype, weak)
        return minimum(high, maximum(low, x))
    if low is not None:
        return maximum(x, convert(low, dtype, weak))
    return x if high is None else minimum(x, convert(high, dtype, weak))
