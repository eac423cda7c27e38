"""Transposes of views: an element of a cotangent goes back to where the view read it.

Elements that a view repeats are summed, those that it leaves out are zero. All functions are
``transpose`` rules: ``(cotangent, operand, **params)``, where ``operand`` is an aval.
"""

from __future__ import annotations

from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.primitive import find_primitive
from minijit.graph.trace import abstractify, bind
from minijit.ops.binary import add
from minijit.ops.compare import equal
from minijit.ops.create import iota
from minijit.ops.promote import broadcast_in_dim_p
from minijit.ops.select import where

__all__ = [
    "diagonal_back",
    "reshape_back",
    "rev_back",
    "slice_back",
    "transpose_back",
]


def reshape_back(cotangent: Any, operand: ShapedArray, **params: Any) -> tuple[Any]:
    """Return the cotangent in the operand's shape: what ``reshape`` and ``squeeze`` need."""
    return (_reshaped(cotangent, operand.shape),)


def transpose_back(
    cotangent: Any, operand: ShapedArray, *, permutation: tuple[int, ...]
) -> tuple[Any]:
    """Return the cotangent with its axes as they were."""
    inverse = tuple(permutation.index(axis) for axis in range(operand.ndim))
    return (_apply("transpose", cotangent, permutation=inverse),)


def rev_back(cotangent: Any, operand: ShapedArray, *, axes: tuple[int, ...]) -> tuple[Any]:
    """Return the cotangent reversed again."""
    return (_apply("rev", cotangent, axes=axes),)


def slice_back(
    cotangent: Any,
    operand: ShapedArray,
    *,
    start: tuple[int, ...],
    stop: tuple[int, ...],
    step: tuple[int, ...],
) -> tuple[Any]:
    """Return the cotangent among zeros."""
    zero = operand.dtype.type(0)
    if not abstractify(cotangent).size:
        return (_filled(zero, operand.shape),)
    for axis, each in enumerate(step):
        if each > 1:
            cotangent = _spread(cotangent, axis, each, operand.shape[axis] - start[axis])
    inner = abstractify(cotangent).shape
    high = tuple(n - s - i for n, s, i in zip(operand.shape, start, inner, strict=True))
    return (_apply("pad", cotangent, zero, low=start, high=high),)


def _spread(x: Any, axis: int, step: int, most: int) -> Any:
    """Return ``x`` with ``step - 1`` zeros after each element along ``axis``, cut to ``most``."""
    aval = abstractify(x)
    before, extent, after = aval.shape[:axis], aval.shape[axis], aval.shape[axis + 1 :]
    x = _reshaped(x, (*before, extent, 1, *after))
    low = (0,) * (aval.ndim + 1)
    high = (*low[: axis + 1], step - 1, *low[axis + 2 :])
    x = _apply("pad", x, aval.dtype.type(0), low=low, high=high)
    x = _reshaped(x, (*before, extent * step, *after))
    if extent * step <= most:
        return x
    return _apply(
        "slice", x, start=(0,) * aval.ndim, stop=(*before, most, *after), step=(1,) * aval.ndim
    )


def diagonal_back(
    cotangent: Any, operand: ShapedArray, *, offset: int, axis1: int, axis2: int
) -> tuple[Any]:
    """Return the cotangent on the diagonal of zeros."""
    zero, shape = operand.dtype.type(0), operand.shape
    if not abstractify(cotangent).size:
        return (_filled(zero, shape),)
    rows, columns, length = shape[axis1], shape[axis2], abstractify(cotangent).shape[-1]
    low = (*(0,) * (operand.ndim - 2), max(-offset, 0))
    high = (*low[:-1], rows - low[-1] - length)
    along = _apply("pad", cotangent, zero, low=low, high=high)  # an element for each row
    order = [axis for axis in range(operand.ndim) if axis not in (axis1, axis2)] + [axis1]
    sorting = tuple(order.index(axis) for axis in sorted(order))
    along = _apply("transpose", along, permutation=sorting)
    wide = bind(broadcast_in_dim_p, along, shape=shape, dims=tuple(sorted(order)))
    row, column = iota((rows, columns), 0), iota((rows, columns), 1)
    here = equal(add(row, offset), column)
    if axis1 > axis2:
        here, axis1, axis2 = _apply("transpose", here, permutation=(1, 0)), axis2, axis1
    here = bind(broadcast_in_dim_p, here, shape=shape, dims=(axis1, axis2))
    return (where(here, wide, zero),)


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x if abstractify(x).shape == shape else _apply("reshape", x, shape=shape)


def _filled(zero: Any, shape: tuple[int, ...]) -> Any:
    return bind(broadcast_in_dim_p, zero, shape=shape, dims=())


def _apply(name: str, *operands: Any, **params: Any) -> Any:
    """Bind a primitive whose declaration refers to these rules."""
    return bind(find_primitive(name), *operands, **params)
