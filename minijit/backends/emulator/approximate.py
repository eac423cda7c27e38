"""Instructions that the hardware approximates: computed in float64 and rounded once.

That is within the error that the PTX ISA manual documents for each of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minijit.backends.emulator.bfloat import packed_operation
from minijit.backends.emulator.floating import finish
from minijit.backends.emulator.operation import (
    NUMPY,
    Array,
    Operation,
    factory,
    flags_and_types,
    unknown,
)
from minijit.backends.emulator.ptx import Instruction

__all__: list[str] = []

_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}


@factory(*_FUNCTIONS)
def _approximation(instruction: Instruction) -> Operation:
    flags, types = flags_and_types(instruction, ("approx", "ftz"))
    if types and types[-1] in ("f16x2", "bf16", "bf16x2") and instruction.name in ("ex2", "tanh"):
        return packed_operation(instruction)
    kinds = ("f32", "f64") if instruction.name == "rsqrt" else ("f32", "f16")
    if len(types) != 1 or types[0] not in kinds or "approx" not in flags:
        raise unknown(instruction)
    function, kind = _FUNCTIONS[instruction.name], NUMPY[types[0]]

    def compute(a: Array) -> Array:
        return function(a.astype(np.float64)).astype(kind)

    return Operation(finish(compute, flags), types, types)
