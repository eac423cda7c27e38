"""Means, variances and what is built from several reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import BOOL, DTypeLike, canonical_dtype
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.numpy.declare import numpy_function, refuse_out
from minijit.numpy.reductions import NO_VALUE, Axis, max, reduced_axes, reduced_size, sum
from minijit.ops.binary import add, divide, maximum, multiply, subtract
from minijit.ops.promote import as_operand, broadcast_to, convert, result_dtype
from minijit.ops.select import where as select
from minijit.ops.shape import expand_dims, squeeze
from minijit.ops.transcendental import exp, log
from minijit.ops.unary import isfinite, sqrt

__all__ = ["average", "logsumexp", "mean", "std", "var"]


def moment_dtypes(
    dtype: np.dtype[Any], wanted: DTypeLike = None
) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the dtypes in which NumPy accumulates and returns a mean.

    Integers go to float64; float16 is accumulated in float32.
    """
    if wanted is not None:
        result = canonical_dtype(wanted)
        return result, result
    result = dtype if dtype.kind == "f" else np.dtype(np.float64)
    return (np.dtype(np.float32) if result == np.float16 else result), result


def _count(aval: Any, axis: Axis, keepdims: Any, where: Any, dtype: np.dtype[Any]) -> Any:
    """Return how many elements count: a number, or an array when ``where`` is one."""
    if where is NO_VALUE or where is True:
        return dtype.type(reduced_size(aval, reduced_axes(aval, axis)))
    mask = broadcast_to(convert(as_operand(where), BOOL), aval.shape)
    return convert(sum(mask, axis, keepdims=keepdims), dtype)


@numpy_function(method=True)
def mean(
    a: Any,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = NO_VALUE,
) -> Any:
    """Arithmetic mean over axes; of integers, as float64."""
    refuse_out(out)
    a = as_operand(a)
    aval = abstractify(a)
    inner, result = moment_dtypes(aval.dtype, dtype)
    total = sum(a, axis, inner, keepdims=keepdims, where=where)
    count = _count(aval, axis, keepdims, where, inner)
    return convert(divide(total, count), result)


@numpy_function(method=True)
def var(
    a: Any,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
    *,
    where: Any = NO_VALUE,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """Variance over axes in two passes: the mean of squared distances from the mean.

    Args:
        a: Operand.
        axis: Axes by NumPy's rule.
        dtype: Dtype of the computation and the result.
        out: Refused.
        ddof: The divisor is the number of elements minus this.
        keepdims: Keep reduced axes with extent one.
        where: Mask of the elements that count.
        mean: The mean with ``keepdims=True``, when it is known already.
        correction: The array API's name of ``ddof``.
    """
    refuse_out(out)
    a = as_operand(a)
    aval = abstractify(a)
    inner, result = moment_dtypes(aval.dtype, dtype)
    a = convert(a, inner)
    if correction is not NO_VALUE:
        ddof = correction
    if mean is NO_VALUE:
        counted = _count(aval, axis, True, where, inner)
        mean = divide(sum(a, axis, inner, keepdims=True, where=where), counted)
    distance = subtract(a, mean)
    total = sum(multiply(distance, distance), axis, inner, keepdims=keepdims, where=where)
    count = _count(aval, axis, keepdims, where, inner)
    if isinstance(count, np.generic):
        freedom = np.maximum(count - inner.type(ddof), inner.type(0))
    else:
        freedom = maximum(subtract(count, inner.type(ddof)), inner.type(0))
    return convert(divide(total, freedom), result)


@numpy_function(method=True)
def std(
    a: Any,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
    *,
    where: Any = NO_VALUE,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """Standard deviation over axes: the square root of :func:`var`."""
    a = as_operand(a)
    inner, result = moment_dtypes(abstractify(a).dtype, dtype)
    variance = var(
        a, axis, inner, out, ddof, keepdims, where=where, mean=mean, correction=correction
    )
    return convert(sqrt(variance), result)


@numpy_function()
def average(
    a: Any,
    axis: Axis = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: Any = False,
) -> Any:
    """Weighted mean over axes; ``returned`` asks for the sum of the weights as well.

    Raises:
        ValueError: ``weights`` do not broadcast against ``a``.
    """
    a = as_operand(a)
    aval = abstractify(a)
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        total = _count(aval, axis, keepdims, NO_VALUE, abstractify(result).dtype)
    else:
        weights = _aligned(as_operand(weights), aval, axis)
        dtype = result_dtype((aval, abstractify(weights)))
        dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
        total = sum(weights, axis, dtype, keepdims=keepdims)
        products = multiply(convert(a, dtype), convert(weights, dtype))
        result = divide(sum(products, axis, keepdims=keepdims), total)
    if not returned:
        return result
    return result, broadcast_to(total, abstractify(result).shape)


def _aligned(weights: Any, aval: ShapedArray, axis: Axis) -> Any:
    """Return weights of one axis as an array that broadcasts against the operand."""
    shape = abstractify(weights).shape
    if shape == aval.shape:
        return weights
    if not isinstance(axis, int) or shape != (aval.shape[axis],):
        raise ValueError(
            f"weights of shape {shape} fit neither {aval} nor its axis {axis} (at {user_line()})"
        )
    after = aval.ndim - 1 - axis % aval.ndim
    return broadcast_to(expand_dims(weights, tuple(range(1, 1 + after))), aval.shape)


def logsumexp(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return ``log(sum(exp(a)))`` over axes, without overflow: the largest element is taken out.

    All elements -inf give -inf, an element +inf gives +inf, NaN gives NaN.
    """
    a = as_operand(a)
    aval = abstractify(a)
    a = convert(a, moment_dtypes(aval.dtype)[1])
    largest = max(a, axis, keepdims=True)
    shift = select(isfinite(largest), largest, 0.0)
    result = add(log(sum(exp(subtract(a, shift)), axis, keepdims=True)), shift)
    axes = reduced_axes(aval, axis)
    return result if keepdims or not axes else squeeze(result, axes)
