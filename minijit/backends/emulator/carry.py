"""Arithmetic of several words: instructions that set the carry or use it.

The carry is one more register, ``%cc``: last of the sources that use it, second of the results.
"""

from __future__ import annotations

import numpy as np

from minijit.backends.emulator.integer import high_product
from minijit.backends.emulator.operation import (
    Array,
    Operation,
    factory,
    flags_and_types,
    unknown,
)
from minijit.backends.emulator.ptx import Instruction

__all__ = ["carry_operation"]


@factory("addc", "subc", "madc")
def carry_operation(instruction: Instruction) -> Operation:
    """Return the operation of an instruction with ``.cc``, or one that takes the carry in."""
    flags, (kind, *more) = flags_and_types(instruction, ("cc", "lo", "hi"))
    name = instruction.name
    takes, base = name.endswith("c"), name.removesuffix("c")
    if more or kind not in ("u32", "s32", "u64", "s64") or base not in ("add", "sub", "mad"):
        raise unknown(instruction)
    unsigned, signed = f"b{kind[1:]}", kind[0] == "s"

    def compute(*args: Array) -> tuple[Array, Array]:
        carry = args[-1] if takes else np.zeros(1, np.bool_)
        a, b = args[0], args[1]
        if base == "mad":
            if "hi" in flags:
                pair = (x.view(f"i{x.itemsize}") if signed else x for x in (a, b))
                a = high_product(*pair).view(a.dtype)
            else:
                a = a * b
            b = args[2]
        extra = carry.astype(a.dtype)
        if base == "sub":
            result = a - b - extra
            return result, (a < b) | ((a == b) & carry)
        result = a + b + extra
        # The sum of three wrapped around where it came out below a, or came back to a.
        return result, (result < a) | ((result == a) & carry & (b != 0))

    count = (3 if base == "mad" else 2) * (unsigned,)
    sources = (*count, "pred") if takes else count
    return Operation(compute, sources, (unsigned, "pred"))
