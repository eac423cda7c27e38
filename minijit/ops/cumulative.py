"""Running sums and products along one axis, by the array library."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.primitive import Primitive
from minijit.graph.trace import bind
from minijit.ops.library import library

__all__ = ["cumprod_p", "cumsum_p"]


def _same_shape(operand: ShapedArray, *, axis: int) -> ShapedArray:
    return ShapedArray(operand.shape, operand.dtype)


def _running(name: str, doc: str) -> Primitive:
    """Declare a primitive for a function that NumPy and CuPy call by that name."""

    def eager(xp: Any, operand: Any, *, axis: int) -> Any:
        operand = xp.asarray(operand)
        with np.errstate(all="ignore"):
            return getattr(xp, name)(operand, axis=axis, dtype=operand.dtype)

    def batch(dims: tuple[int], operand: Any, *, axis: int) -> tuple[Any, int]:
        (dim,) = dims
        return bind(primitive, operand, axis=axis + (axis >= dim)), dim

    primitive = library(name, eager, _same_shape, doc, batch=batch)
    return primitive


cumsum_p = _running("cumsum", "Running sum along ``axis``, in the operand's dtype.")
cumprod_p = _running("cumprod", "Running product along ``axis``, in the operand's dtype.")
