"""What is known of an array without its values, and whether two arrays agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.graph.dtypes import canonical_dtype
from minijit.graph.trace import abstractify
from minijit.graph.tracer import Tracer
from minijit.numpy.declare import numpy_function
from minijit.numpy.elementwise import isclose
from minijit.numpy.reductions import all as reduce_all
from minijit.ops.axes import normalize_axis
from minijit.ops.compare import equal, logical_and, logical_or, not_equal
from minijit.ops.promote import as_operand

__all__ = [
    "allclose",
    "array_equal",
    "array_equiv",
    "can_cast",
    "iscomplexobj",
    "isrealobj",
    "isscalar",
    "ndim",
    "promote_types",
    "result_type",
    "shape",
    "size",
]

promote_types = np.promote_types


@numpy_function()
def shape(a: Any) -> tuple[int, ...]:
    """Return the extents."""
    return abstractify(as_operand(a)).shape


@numpy_function()
def ndim(a: Any) -> int:
    """Return the number of axes."""
    return abstractify(as_operand(a)).ndim


@numpy_function()
def size(a: Any, axis: int | None = None) -> int:
    """Return the number of elements, along ``axis`` if it is given."""
    aval = abstractify(as_operand(a))
    return aval.size if axis is None else aval.shape[normalize_axis(axis, aval.ndim)]


@numpy_function()
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype that arrays, scalars and dtypes promote to, by NumPy's rules."""
    kinds = {"i": 0, "f": 0.0}
    given = []
    for value in arrays_and_dtypes:
        if isinstance(value, Tracer):
            given.append(kinds[value.dtype.kind] if value.aval.weak_type else value.dtype)
        else:
            given.append(value)
    return canonical_dtype(np.result_type(*given))


@numpy_function()
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether a cast between dtypes is allowed by the rule ``casting``."""
    return np.can_cast(from_.dtype if isinstance(from_, Tracer) else from_, to, casting)


@numpy_function()
def iscomplexobj(x: Any) -> bool:
    """Return False: minijit computes with real numbers."""
    return False


@numpy_function()
def isrealobj(x: Any) -> bool:
    """Return True: minijit computes with real numbers."""
    return True


def isscalar(element: Any) -> bool:
    """Whether ``element`` is a Python or NumPy scalar; a tracer is an array."""
    return not isinstance(element, Tracer) and np.isscalar(element)


@numpy_function()
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and equal elements, as a traced bool."""
    a1, a2 = as_operand(a1), as_operand(a2)
    if abstractify(a1).shape != abstractify(a2).shape:
        return np.bool_(False)
    same = equal(a1, a2)
    if equal_nan:
        same = logical_or(same, logical_and(not_equal(a1, a1), not_equal(a2, a2)))
    return reduce_all(same)


@numpy_function()
def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays broadcast together and have equal elements, as a traced bool."""
    a1, a2 = as_operand(a1), as_operand(a2)
    try:
        np.broadcast_shapes(abstractify(a1).shape, abstractify(a2).shape)
    except ValueError:
        return np.bool_(False)
    return reduce_all(equal(a1, a2))


@numpy_function()
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements are close (see ``isclose``), as a traced bool."""
    return reduce_all(isclose(a, b, rtol, atol, equal_nan))
