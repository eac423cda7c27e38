"""What names stand for while a kernel is compiled: objects that are known, and values at run time.

Types are Numba's, values are llvmlite's.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

__all__ = ["FrontendError", "Known", "Operand", "Retyped", "Typed", "Unsupported"]


class FrontendError(RuntimeError):
    """Code that cannot be compiled; the message quotes its statement."""


class Retyped(Exception):
    """A variable of a device function turned out to need a wider type: it has to begin again."""

    def __init__(self, name: str, kind: Any) -> None:
        """Say which, and the type that holds all of its values."""
        super().__init__(name, kind)
        self.name, self.kind = name, kind


class Unsupported(RuntimeError):
    """Generated code that is outside the language of kernels: a fault of a schedule."""

    def __init__(self, node: ast.AST) -> None:
        """Say what was met."""
        super().__init__(f"{type(node).__name__} is not in the language of kernels")


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """An object that is known while compiling: a number, a type, a function, a module.

    ``type`` is Numba's, where the object alone does not tell it: that of a member of a module.
    """

    value: Any
    type: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Typed:
    """A value at run time, of a Numba type."""

    type: Any
    value: Any


Operand = Known | Typed | tuple[Any, ...]
"""A tuple stands for several values: kernels take it apart at once."""
