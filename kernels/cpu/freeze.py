"""Hiding from LLVM that a value was just loaded, where knowing it makes code slow.

``p[i] = x if mask else p[i]`` becomes a store under a mask where the target has one. Many machines
take some twenty cycles for that where a blend and a plain store take one.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

__all__ = ["freeze"]


@intrinsic
def freeze(typing_context, value):
    """Return ``value``; nothing is known of it but its type."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (given,) = arguments
        frozen = ir.Instruction(builder.block, given.type, "freeze", [given])
        builder._insert(frozen)
        return frozen

    return value(value), generate
