"""Running sums and products along one axis, by the array library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.ops.library import library

__all__ = ["cumprod_p", "cumsum_p"]


def _same_shape(operand: ShapedArray, *, axis: int) -> ShapedArray:
    return ShapedArray(operand.shape, operand.dtype)


def _running(name: str) -> Callable[..., Any]:
    def eager(xp: Any, operand: Any, *, axis: int) -> Any:
        operand = xp.asarray(operand)
        with np.errstate(all="ignore"):
            return getattr(xp, name)(operand, axis=axis, dtype=operand.dtype)

    return eager


cumsum_p = library(
    "cumsum", _running("cumsum"), _same_shape, "Running sum along ``axis``, in the operand's dtype."
)
cumprod_p = library(
    "cumprod",
    _running("cumprod"),
    _same_shape,
    "Running product along ``axis``, in the operand's dtype.",
)
