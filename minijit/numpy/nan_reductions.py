"""Reductions that skip NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.graph.dtypes import DTypeLike
from minijit.graph.trace import abstractify
from minijit.numpy.declare import numpy_function, refuse_out
from minijit.numpy.reductions import Axis, all, max, min, prod, sum
from minijit.numpy.statistics import mean, std, var
from minijit.ops.compare import logical_not
from minijit.ops.promote import as_operand
from minijit.ops.select import where as select
from minijit.ops.unary import isnan

__all__ = ["nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar"]


def _without_nan(a: Any, substitute: float) -> Any:
    a = as_operand(a)
    dtype = abstractify(a).dtype
    return select(isnan(a), dtype.type(substitute), a) if dtype.kind == "f" else a


@numpy_function("nansum_with_dtype")
def nansum(
    a: Any, axis: Axis = None, dtype: DTypeLike = None, out: Any = None, keepdims: Any = False
) -> Any:
    """Sum over axes with NaN counted as zero."""
    refuse_out(out)
    return sum(_without_nan(a, 0.0), axis, dtype, keepdims=keepdims)


@numpy_function("nanprod_with_dtype")
def nanprod(
    a: Any, axis: Axis = None, dtype: DTypeLike = None, out: Any = None, keepdims: Any = False
) -> Any:
    """Product over axes with NaN counted as one."""
    refuse_out(out)
    return prod(_without_nan(a, 1.0), axis, dtype, keepdims=keepdims)


def _nan_extremum(
    reduce: Callable[..., Any], worst: float, a: Any, axis: Axis, out: Any, keepdims: Any
) -> Any:
    refuse_out(out)
    a = as_operand(a)
    dtype = abstractify(a).dtype
    result = reduce(_without_nan(a, worst), axis, keepdims=keepdims)
    if dtype.kind != "f":
        return result
    return select(all(isnan(a), axis, keepdims=keepdims), dtype.type(np.nan), result)


@numpy_function()
def nanmax(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False) -> Any:
    """Largest element that is not NaN; NaN where all are."""
    return _nan_extremum(max, -np.inf, a, axis, out, keepdims)


@numpy_function()
def nanmin(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False) -> Any:
    """Smallest element that is not NaN; NaN where all are."""
    return _nan_extremum(min, np.inf, a, axis, out, keepdims)


@numpy_function()
def nanmean(
    a: Any, axis: Axis = None, dtype: DTypeLike = None, out: Any = None, keepdims: Any = False
) -> Any:
    """Mean of the elements that are not NaN; NaN where all are."""
    a = as_operand(a)
    return mean(a, axis, dtype, out, keepdims, where=logical_not(isnan(a)))


@numpy_function()
def nanvar(
    a: Any,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
) -> Any:
    """Variance of the elements that are not NaN."""
    a = as_operand(a)
    return var(a, axis, dtype, out, ddof, keepdims, where=logical_not(isnan(a)))


@numpy_function()
def nanstd(
    a: Any,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
) -> Any:
    """Standard deviation of the elements that are not NaN."""
    a = as_operand(a)
    return std(a, axis, dtype, out, ddof, keepdims, where=logical_not(isnan(a)))
