"""Which function computes an operation on the CPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from minijit.graph.primitive import Primitive
from minijit.kernels.math import CPU_FUNCTIONS
from minijit.lowering.kernel_ir import Kernel, Map, Value, walk
from minijit.lowering.signs import signs_of
from minijit.lowering.symbols import Symbol

__all__ = ["Function", "functions_of"]

_SAME = {"pow": "power", "float_power": "power"}
_OF_NONPOSITIVE = {"exp": "exp_nonpositive"}
"""Functions that take less where the argument is nowhere above zero."""


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A primitive's function, under the name of the form in which it is computed."""

    name: str
    op: Primitive

    def vectorised(self, dtype: np.dtype[Any]) -> Symbol | None:
        """Return the code for vectors, if there is any and the primitive has none of its own."""
        if self.op.scalar is None or self.op.scalar.cpu is not None:
            return None
        known = CPU_FUNCTIONS.get((_SAME.get(self.name, self.name), dtype.name))
        return None if known is None else Symbol(*known)


def functions_of(kernel: Kernel) -> dict[Value, Function]:
    """Return what computes each operation of a kernel, by its result."""
    signs = signs_of(kernel)
    found: dict[Value, Function] = {}
    for node in walk(kernel.body):
        if isinstance(node, Map):
            name = node.op.name
            if name in _OF_NONPOSITIVE and -1 in signs.get(node.args[0], ()):
                name = _OF_NONPOSITIVE[name]
            found[node.out] = Function(name, node.op)
    return found
