"""What a declared function means, run as Python: the reference where there is no other code."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.primitive import Kind, Primitive
from minijit.ops.literals import Formula

__all__ = ["DECLARED", "UNKNOWN", "Reference", "reference_for"]

UNKNOWN = object()
"""The result of an element for which Python raises: compiled code has NaN or infinity."""


DECLARED = "the function as Python"
"""What the reference of an operation is that has no eager code of its own."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """What results are compared with.

    Attributes:
        compute: ``(*arrays, **params)``.
        what: What that is, for reports.
    """

    compute: Callable[..., Any]
    what: str


def reference_for(primitive: Primitive) -> Reference:
    """Return what computes a primitive by other code than its kernels.

    Eager code of its own, or its functions as Python on numbers in double precision; elements for
    which Python raises are masked.
    """
    if primitive.kind is Kind.ELEMENTWISE and primitive.derived:
        return Reference(lambda *arrays: _elementwise(primitive, *arrays), DECLARED)
    monoid = primitive.monoid
    if monoid is not None and isinstance(monoid.combine, Formula):
        return Reference(lambda array, axes: _reduced(primitive, array, axes), DECLARED)
    eager = primitive.eager
    return Reference(lambda *arrays, **params: eager(np, *arrays, **params), "eager code")


def _elementwise(primitive: Primitive, *arrays: Any) -> Any:
    assert primitive.scalar is not None
    assert isinstance(primitive.scalar.make, Formula)
    function = primitive.scalar.make.function
    shaped = np.broadcast_arrays(*map(np.asarray, arrays))
    dtype = primitive.abstract_eval(*_avals(shaped)).dtype
    columns = [list(map(_number, array.ravel())) for array in shaped]
    results = [_called(function, *element) for element in zip(*columns, strict=True)]
    return _masked(results, dtype, shaped[0].shape)


def _reduced(primitive: Primitive, array: Any, axes: tuple[int, ...]) -> Any:
    monoid = primitive.monoid
    assert monoid is not None
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    rows = array.transpose(*kept, *axes)
    shape = rows.shape[: len(kept)]
    rows = rows.reshape(math.prod(shape), -1)
    dtype = primitive.abstract_eval(*_avals([array]), axes=axes).dtype
    results = [_called(_folded, primitive, row) for row in rows]
    return _masked(results, dtype, shape)


def _folded(primitive: Primitive, row: Any) -> Any:
    monoid = primitive.monoid
    assert monoid is not None
    wide = np.dtype(np.float64) if row.dtype.kind == "f" else row.dtype
    total = tuple(_number(part) for part in monoid.identity(wide))
    for place, element in enumerate(map(_number, row)):
        given: Any = (element, place) if monoid.position else (element,)
        if monoid.element is not None:
            given = _tuple(_python(monoid.element)(*given))
        total = _tuple(_python(monoid.combine)(*total, *given))
    return total[monoid.result] if monoid.finish is None else _python(monoid.finish)(*total)


def _python(make: Any) -> Callable[..., Any]:
    assert isinstance(make, Formula)
    return make.function


def _tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _number(value: Any) -> Any:
    return value.item()


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (ArithmeticError, ValueError):
        return UNKNOWN


def _masked(results: list[Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    known = [result is not UNKNOWN for result in results]
    with np.errstate(all="ignore"):
        values = [
            np.asarray(r if k else 0).astype(dtype) for r, k in zip(results, known, strict=True)
        ]
    data = np.array(values, dtype).reshape(shape)
    return np.ma.masked_array(data, ~np.array(known, bool).reshape(shape))


def _avals(arrays: Iterable[Any]) -> list[ShapedArray]:
    return [ShapedArray(array.shape, array.dtype) for array in arrays]
