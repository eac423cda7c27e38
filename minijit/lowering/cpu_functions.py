"""Which function computes an operation on the CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from minijit.graph.primitive import Primitive
from minijit.kernels.math import (
    BRANCHING,
    CPU_FUNCTIONS,
    EXACT_FUNCTIONS,
    HALF_FUNCTIONS,
    LARGEST_WHOLE_POWER,
    WHOLE_POWER,
)
from minijit.lowering.kernel_ir import Constant, Kernel, Map, Operand, Value, walk
from minijit.lowering.signs import signs_of
from minijit.lowering.source import scalar_dtype
from minijit.lowering.symbols import Symbol

__all__ = ["Function", "functions_of"]

_SAME = {"pow": "power", "float_power": "power"}
_OF_NONPOSITIVE = {"exp": "exp_nonpositive"}
"""Functions that take less where the argument is nowhere above zero."""


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A primitive's function, in the form in which it is computed.

    Attributes:
        name: That of the form.
        op: The primitive.
        dtype: For whose precision it is made; float16 is held as float32.
        exponent: The whole number for which alone a power is made, 0 where it is for any.
    """

    name: str
    op: Primitive
    dtype: np.dtype[Any]
    exponent: int = 0

    @property
    def vectorised(self) -> Symbol | None:
        """The code for vectors, if there is any and the primitive has none of its own."""
        if self.op.scalar is None or self.op.scalar.cpu is not None:
            return None
        if self.exponent:
            module, name = WHOLE_POWER
            return Symbol(module, name, (self.exponent,))
        if self.dtype == np.float16:
            return Symbol(*HALF_FUNCTIONS[self.name])
        key = _SAME.get(self.name, self.name), self.dtype.name
        known = CPU_FUNCTIONS.get(key) or EXACT_FUNCTIONS.get(key)
        return None if known is None else Symbol(*known)

    @property
    def branches(self) -> bool:
        """Whether the code holds a loop or a branch, so that it has to be called."""
        return (self.name, self.dtype.name) in BRANCHING


def functions_of(kernel: Kernel) -> dict[Value, Function]:
    """Return what computes each operation of a kernel, by its result."""
    signs = signs_of(kernel)
    return {node.out: _function(node, signs) for node in walk(kernel.body) if isinstance(node, Map)}


def _function(node: Map, signs: Mapping[Operand, frozenset[int]]) -> Function:
    name = node.op.name
    if node.out.dtype == np.float16 and name in HALF_FUNCTIONS:
        return Function(name, node.op, node.out.dtype)
    dtype = scalar_dtype(node.args)
    if name == "pow" and dtype == np.float32 and (exponent := _whole(node.args[1])):
        suffix = f"{'minus_' * (exponent < 0)}{abs(exponent)}"
        return Function(f"{name}_{suffix}", node.op, dtype, exponent)
    if name in _OF_NONPOSITIVE and -1 in signs.get(node.args[0], ()):
        name = _OF_NONPOSITIVE[name]
    return Function(name, node.op, dtype)


def _whole(operand: Operand) -> int:
    """Return a constant that is a whole number of moderate size, 0 for every other operand."""
    if not isinstance(operand, Constant) or not abs(operand.value) <= LARGEST_WHOLE_POWER:
        return 0
    return int(operand.value) if operand.value == int(operand.value) else 0
