"""Arrays from lists, scalars and shapes; minijit's own default dtypes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minijit.graph.dtypes import canonical_dtype, default_dtype
from minijit.graph.trace import abstractify, array_namespace
from minijit.graph.tracer import Tracer
from minijit.numpy.declare import numpy_function
from minijit.numpy.joining import stack
from minijit.ops.create import arange, full, ones, zeros
from minijit.ops.promote import as_operand, convert, is_traced, result_dtype

__all__ = [
    "arange",
    "array",
    "asarray",
    "copy",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]

empty = zeros
"""``empty(shape, dtype=None)``: an array of zeros, since traced arrays have no old content."""


def array(object: Any, dtype: Any = None, *, copy: bool | None = True) -> Any:
    """Return an array of what is in ``object``.

    Args:
        object: An array (which keeps its dtype), a tracer, a scalar, or nested lists of scalars
            and traced scalars or arrays of one shape.
        dtype: By default minijit's default float or int for Python numbers.
        copy: Whether a NumPy or CuPy array is copied; None means if needed.

    Raises:
        TypeError: a dtype that minijit does not compute with.
        OverflowError: a Python integer that the dtype cannot hold.
    """
    kind = None if dtype is None else canonical_dtype(dtype)
    if isinstance(object, Tracer):
        return convert(object, object.dtype if kind is None else kind)
    if hasattr(object, "__array_namespace__") or hasattr(object, "__cuda_array_interface__"):
        result = array_namespace((object,)).array(object, dtype=kind, copy=copy)
        canonical_dtype(result.dtype)  # refuses what minijit does not compute with
        return result[()] if isinstance(object, np.generic) and is_traced() else result
    leaves = list(_leaves(object))
    if any(isinstance(leaf, Tracer) for leaf in leaves):
        return _stacked(object, _common_dtype(leaves) if kind is None else kind)
    if kind is None:
        plain = np.array(object)
        if any(isinstance(leaf, (np.ndarray, np.generic)) for leaf in leaves):
            kind = canonical_dtype(plain.dtype)
        else:
            kind = _default_of(plain.dtype)
    result = np.array(object, dtype=kind)
    # Scalars are written into a program, arrays become hidden inputs of it.
    return result[()] if is_traced() else result


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _default_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return minijit's dtype for Python data that NumPy would give ``dtype``."""
    kinds = {"f": float, "i": int}
    return default_dtype(kinds[dtype.kind]) if dtype.kind in kinds else canonical_dtype(dtype)


def _common_dtype(leaves: Sequence[Any]) -> np.dtype[Any]:
    avals = [abstractify(leaf) for leaf in leaves]
    common = result_dtype(avals)
    return _default_of(common) if all(aval.weak_type for aval in avals) else common


def _stacked(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return stack([_stacked(item, dtype) for item in value])
    return convert(value, dtype)


def asarray(a: Any, dtype: Any = None, *, copy: bool | None = None) -> Any:
    """Return ``a`` as an array, itself when it is one of that dtype; otherwise as :func:`array`."""
    return array(a, dtype, copy=copy)


@numpy_function()
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """Return the same values; traced arrays never change, so that they can be shared."""
    return as_operand(a)


@numpy_function()
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: None = None,
) -> Any:
    """Return an array of ``fill_value`` with the shape and dtype of ``a``."""
    aval = abstractify(as_operand(a))
    extents = aval.shape if shape is None else shape
    return full(extents, fill_value, aval.dtype if dtype is None else dtype)


@numpy_function()
def zeros_like(
    a: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: None = None,
) -> Any:
    """Return zeros with the shape and dtype of ``a``."""
    return full_like(a, 0, dtype, shape=shape)


@numpy_function()
def ones_like(
    a: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: None = None,
) -> Any:
    """Return ones with the shape and dtype of ``a``."""
    return full_like(a, 1, dtype, shape=shape)


@numpy_function()
def empty_like(
    prototype: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: None = None,
) -> Any:
    """Return zeros with the shape and dtype of ``prototype``: there is no old content to see."""
    return full_like(prototype, 0, dtype, shape=shape)
