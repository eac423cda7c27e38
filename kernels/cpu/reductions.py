"""Combinations of reductions in forms that LLVM's loop vectoriser accepts.

Only these carry licences to reorder: what a user wrote never does. Results stay the same from run
to run, since the loops are fixed.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

__all__ = ["COMBINE", "add_exactly", "total_of"]


def _operator(name: str, flags: tuple[str, ...], whole: str) -> Any:
    """Return ``(accumulator, value) -> accumulator`` by one instruction of LLVM's builder."""

    @intrinsic
    def combine(typing_context, accumulator, value):
        if accumulator != value:
            raise TypingError(f"{whole} combines equal types, not {accumulator} and {value}")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if isinstance(accumulator, types.Float):
                return getattr(builder, name)(*arguments, flags=flags)
            return getattr(builder, whole)(*arguments)

        return accumulator(accumulator, value), generate

    return combine


def _extremum(name: str, word: str) -> Any:
    """Return ``maximum`` or ``minimum`` by LLVM's intrinsic: NaN wins; of two zeros, either.

    To tell zeros apart would take two more instructions for each vector and, where the lanes of a
    vector are joined, branches that no processor foresees.
    """

    @intrinsic
    def combine(typing_context, accumulator, value):
        if accumulator != value:
            raise TypingError(f"{name} combines equal types, not {accumulator} and {value}")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = arguments[0].type
            if isinstance(accumulator, types.Float):
                full = f"llvm.{name}.f{accumulator.bitwidth}"
            else:
                signed = isinstance(accumulator, types.Integer) and accumulator.signed
                full = f"llvm.{'s' if signed else 'u'}{word}.i{kind.width}"
            function = builder.module.globals.get(full) or ir.Function(
                builder.module, ir.FunctionType(kind, [kind, kind]), full
            )
            flags = ("nsz",) if isinstance(accumulator, types.Float) else ()
            return builder.call(function, arguments, fastmath=flags)

        return accumulator(accumulator, value), generate

    return combine


COMBINE = {
    "sum": _operator("fadd", ("reassoc", "nsz"), "add"),
    "prod": _operator("fmul", ("reassoc", "nsz"), "mul"),
    "max": _extremum("maximum", "max"),
    "min": _extremum("minimum", "min"),
    "any": _operator("", (), "or_"),
    "all": _operator("", (), "and_"),
}
"""By the name of the monoid."""


@njit(forceinline=True, error_model="numpy")
def add_exactly(total, lost, value):
    """Return the sum ``total + value`` and ``lost`` plus what its rounding lost.

    Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen" (1974).
    """
    result = total + value
    if abs(total) >= abs(value):
        return result, lost + ((total - result) + value)
    return result, lost + ((value - result) + total)


@njit(forceinline=True, error_model="numpy")
def total_of(total, lost):
    """Return the corrected sum; an infinite or undefined one has no correction."""
    if math.isfinite(lost):
        return total + lost
    return total
