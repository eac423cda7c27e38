"""Comparisons, exact for every pair of dtypes and for Python integers of any size."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.graph.tracer import ufuncs
from minijit.ops.define import Elementwise, elementwise, plain, typed
from minijit.ops.promote import (
    broadcast_to,
    convert,
    loop_dtypes,
    operand_aval,
)

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
]

Code = Callable[..., Any]


class Comparison(Elementwise):
    """A comparison.

    A Python integer beyond the other operand's dtype decides it for all elements.
    """

    def __init__(self, operation: Elementwise) -> None:
        """Extend ``operation``."""
        super().__init__(operation.primitive, operation.ufunc)

    def record(self, *args: Any, dtype: np.dtype[Any] | None) -> Any:
        """Record the comparison; see :class:`Elementwise`."""
        for position, value in enumerate(args):
            if type(value) is int:
                decided = self._decided(args[1 - position], value, position)
                if decided is not None:
                    return decided
        x, y = _own_dtypes(*args)
        loops = loop_dtypes(self.ufunc, (operand_aval(x), operand_aval(y)))
        if loops[0].kind == "i" and loops[1].kind == "u":
            return self._mixed(x, y)
        if loops[0].kind == "u" and loops[1].kind == "i":
            return _comparisons[_MIRRORED[self.ufunc.__name__]]._mixed(y, x)
        return super().record(x, y, dtype=dtype)

    def _mixed(self, signed: Any, unsigned: Any) -> Any:
        """Compare int64 with uint64, which no type holds both: negative numbers are below all."""
        name = self.ufunc.__name__
        wide = convert(convert(signed, np.dtype(np.int64)), np.dtype(np.uint64))
        same = super().record(wide, unsigned, dtype=None)
        negative = less(signed, 0)
        if name in ("not_equal", "less", "less_equal"):
            return logical_or(negative, same)
        return logical_and(logical_not(negative), same)

    def _decided(self, other: Any, value: int, position: int) -> Any:
        aval = operand_aval(other)
        if aval.dtype.kind not in "iu":
            return None
        limits = np.iinfo(aval.dtype)
        if limits.min <= value <= limits.max:
            return None
        pair = (value, 0) if position == 0 else (0, value)
        answer = getattr(operator, _OPERATORS[self.ufunc.__name__])(*pair)
        return broadcast_to(np.bool_(answer), aval.shape)


def _own_dtypes(x: Any, y: Any) -> tuple[Any, Any]:
    """Return two operands of which a traced Python integer is an int64 among integers.

    Its value is not known: the other one's dtype may not hold it.
    """
    avals = (operand_aval(x), operand_aval(y))
    if not all(aval.dtype.kind in "iu" for aval in avals):
        return x, y
    first, second = (
        convert(value, aval.dtype) if aval.weak_type and type(value) is not int else value
        for value, aval in zip((x, y), avals, strict=True)
    )
    return first, second


_OPERATORS = {
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
}


_MIRRORED = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
_comparisons: dict[str, Comparison] = {}


def _comparison(name: str, ufunc: np.ufunc, code: Code, infix: str, doc: str) -> Comparison:
    operation = Comparison(elementwise(name, ufunc=ufunc, scalar=plain(code, infix), doc=doc))
    ufuncs[ufunc.__name__] = _comparisons[ufunc.__name__] = operation
    return operation


equal = _comparison("eq", np.equal, lambda x, y: x == y, "==", "Whether x equals y.")
not_equal = _comparison("ne", np.not_equal, lambda x, y: x != y, "!=", "Whether x differs from y.")
less = _comparison("lt", np.less, lambda x, y: x < y, "<", "Whether x is below y.")
less_equal = _comparison("le", np.less_equal, lambda x, y: x <= y, "<=", "Whether x <= y.")
greater = _comparison("gt", np.greater, lambda x, y: x > y, ">", "Whether x is above y.")
greater_equal = _comparison(
    "ge", np.greater_equal, lambda x, y: x >= y, ">=", "Whether x is not below y."
)


def _truths(combine: Callable[[Any], Code]) -> Callable[[np.dtype[Any]], Code]:
    """Return scalar code on truth values; ``combine`` gets the zero that is false."""
    return lambda dtype: combine(dtype.type(0))


logical_and = elementwise(
    "logical_and",
    ufunc=np.logical_and,
    scalar=typed(_truths(lambda zero: lambda x, y: (x != zero) & (y != zero))),
    doc="Whether both operands are not zero.",
)
logical_or = elementwise(
    "logical_or",
    ufunc=np.logical_or,
    scalar=typed(_truths(lambda zero: lambda x, y: (x != zero) | (y != zero))),
    doc="Whether an operand is not zero.",
)
logical_xor = elementwise(
    "logical_xor",
    ufunc=np.logical_xor,
    scalar=typed(_truths(lambda zero: lambda x, y: (x != zero) != (y != zero))),
    doc="Whether exactly one operand is not zero.",
)
logical_not = elementwise(
    "logical_not",
    ufunc=np.logical_not,
    scalar=typed(_truths(lambda zero: lambda x: x == zero)),
    doc="Whether the operand is zero.",
)
