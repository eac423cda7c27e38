"""The dtypes that an elementwise operation computes with, where no ufunc of NumPy's says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.ops.promote import loop_dtypes, result_dtype

__all__ = ["Loops", "dtypes_for"]


@dataclasses.dataclass(frozen=True, slots=True)
class Loops:
    """All operands are promoted to one dtype (NEP 50).

    Attributes:
        nin: Number of operands.
        floating: Whether that dtype is a float in any case: integers and bools become the float
            that NumPy's ``exp`` makes of them.
        result: Dtype of the result, where it is another one.
    """

    nin: int
    floating: bool
    result: np.dtype[Any] | None = None

    def resolve(
        self, avals: Sequence[ShapedArray], dtype: np.dtype[Any] | None
    ) -> tuple[np.dtype[Any], ...]:
        """Return the dtypes of operands and result, ``dtype`` being asked for as that of both."""
        found = result_dtype(avals) if dtype is None else dtype
        if self.floating and found.kind != "f":
            found, _ = loop_dtypes(np.exp, [ShapedArray((), found)])
        return (*(found,) * self.nin, self.result or found)


def dtypes_for(
    rule: np.ufunc | Loops, avals: Sequence[ShapedArray], dtype: np.dtype[Any] | None = None
) -> tuple[np.dtype[Any], ...]:
    """Return the operand and result dtypes with which an operation of ``rule`` computes.

    Args:
        rule: A ufunc that it shares them with, or a rule of its own.
        avals: The operands.
        dtype: What the caller asked for.

    Raises:
        TypeError: NumPy has no such loop.
    """
    if isinstance(rule, Loops):
        return rule.resolve(avals, dtype)
    return loop_dtypes(rule, avals, dtype)
