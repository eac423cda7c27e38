"""Padding of one axis to one of a few sizes, on the device on which the array lives."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from minijit.api.bucket_sizes import Sizes, SizesLike
from minijit.backends.registry import adopt, get_backend
from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import BOOL
from minijit.graph.tracer import Tracer

__all__ = ["checked_axis", "checked_fill", "mask_of", "pad_axis", "pad_to_bucket", "stand_in"]


def pad_to_bucket(x: Any, sizes: SizesLike, axis: int = 0, fill: float = 0) -> tuple[Any, Any]:
    """Pad ``x`` at the end of ``axis`` to the smallest size that holds it.

    Args:
        x: An array of NumPy or CuPy, of another library that offers DLPack, or a nested list.
        sizes: One size, several, or ``"pow2"`` for the powers of two.
        axis: The axis to pad.
        fill: Value of the padding; the array's dtype must have it.

    Returns:
        The padded array, which is ``x`` itself where its length is a size, and a mask of shape
        ``(size,)`` and dtype bool, true for what was not padded. Both are where ``x`` is.

    Raises:
        ValueError: ``x`` is longer than the largest size, it has no such axis, there are no sizes,
            or its dtype has no ``fill``.
        TypeError: ``x`` is traced, a size is no integer, or ``fill`` is no number.
    """
    if isinstance(x, Tracer):
        raise TypeError(
            "pad_to_bucket was called on a traced array, whose length has become part of the "
            "signature already: pad before the jitted function is called"
        )
    checked_fill(fill)
    x = adopt(x)
    if not hasattr(x, "ndim"):
        x = np.asarray(x)
    axis = checked_axis(axis, type(x), x.ndim)
    length, bounds = x.shape[axis], Sizes.of(sizes)
    size = bounds.fit(length)
    if size is None:
        raise ValueError(
            f"x has length {length} along axis {axis}, more than the largest size "
            f"{bounds.values[-1]}: add a larger size, or cut the array"
        )
    return pad_axis(x, axis, size, fill), mask_of(x, length, size)


def checked_axis(axis: int, kind: type, ndim: int) -> int:
    """Return ``axis`` of a value of type ``kind`` that has ``ndim`` axes, counted from the front.

    Raises:
        ValueError: it has no such axis.
    """
    if not -ndim <= axis < ndim:
        found = f"an array with {ndim} axes" if ndim else f"a number ({kind.__name__})"
        raise ValueError(f"{found} has no axis {axis} to be padded")
    return axis % ndim


def pad_axis(x: Any, axis: int, size: int, fill: float) -> Any:
    """Return ``x`` with ``fill`` behind its end, in C order; itself where nothing is missing.

    Raises:
        ValueError: its dtype has no ``fill``.
    """
    length = x.shape[axis]
    if length == size:
        return x
    if not _has(x.dtype, fill):
        raise ValueError(f"fill={fill} is no value of {x.dtype}")
    shape = _with_extent(x.shape, axis, size)
    if isinstance(x, ShapedArray):
        return dataclasses.replace(x, shape=shape)
    padded = _library(x).empty_like(x, shape=shape, order="C")
    before = (slice(None),) * axis
    padded[(*before, slice(length))] = x
    padded[(*before, slice(length, None))] = fill
    return padded


def stand_in(x: Any, axis: int, size: int, fill: float) -> Any:
    """Return an array of the type that ``pad_axis`` returns, with no values, to trace with."""
    shape = _with_extent(x.shape, axis, size)
    if isinstance(x, ShapedArray):
        return dataclasses.replace(x, shape=shape)
    library = _library(x)
    return library.broadcast_to(library.empty_like(x, shape=(1,) * len(shape)), shape)


def mask_of(x: Any, length: int, size: int) -> Any:
    """Return the mask of shape ``(size,)`` that is true up to ``length``, where ``x`` is."""
    if isinstance(x, ShapedArray):
        return ShapedArray((size,), BOOL)
    mask = _library(x).empty_like(x, shape=(size,), dtype=BOOL)
    mask[:length] = True
    mask[length:] = False
    return mask


def checked_fill(fill: float) -> float:
    """Return ``fill``.

    Raises:
        TypeError: it is no number.
    """
    if not isinstance(fill, (bool, int, float, np.bool_, np.number)):
        raise TypeError(f"fill={fill!r} is no number")
    return fill


@functools.lru_cache(maxsize=256)
def _has(dtype: np.dtype[Any], fill: float) -> bool:
    """Whether an array of ``dtype`` can hold ``fill``; floats may round it."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            value = np.full((), fill, dtype).item()
        except (OverflowError, ValueError):
            return False
        rounded = dtype.kind == "f" and (math.isfinite(value) or fill != fill)
        return bool(value == fill or rounded)


def _with_extent(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _library(x: Any) -> Any:
    return np if isinstance(x, np.ndarray) else get_backend("cuda").xp
