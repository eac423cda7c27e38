"""Branches in formulas: what few numbers need is computed only where a vector has one of them.

LLVM makes no vectors of a loop around a branch: a function that holds one has to be called, for
whole vectors, and is named in ``kernels.math.BRANCHING``.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from minijit.kernels.math.intrinsics import select
from minijit.kernels.math.outlined import call_in_parts
from minijit.kernels.math.value import BOOL, Value


def any_lane(condition: Value) -> ir.Value:
    """Whether a bool holds in any lane."""
    builder, kind = condition.builder, condition.ir.type
    if kind == BOOL:
        return condition.ir
    number = builder.bitcast(condition.ir, ir.IntType(kind.count))
    return builder.icmp_unsigned("!=", number, ir.Constant(number.type, 0))


def unless_rare(usual: Value, x: Value, rarely: Value, rare: Callable[[Value], Value]) -> Value:
    """`usual`, or where `rarely` holds `rare(x)`, in a branch for all the lanes."""
    builder, before = usual.builder, usual.builder.block
    with builder.if_then(any_lane(rarely), likely=False):
        chosen = select(rarely, Value(builder, call_in_parts(builder, rare, x.ir)), usual)
        inside = builder.block
    result = builder.phi(usual.ir.type)
    result.add_incoming(usual.ir, before)
    result.add_incoming(chosen.ir, inside)
    return Value(builder, result)
