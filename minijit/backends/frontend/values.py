"""What names stand for while a kernel is compiled: objects that are known, and values at run time.

Types are Numba's, values are llvmlite's.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

import numpy as np

__all__ = ["FrontendError", "Known", "Operand", "Returned", "Typed", "Unsupported"]


class FrontendError(RuntimeError):
    """Code that cannot be compiled; the message quotes its statement."""


class Unsupported(RuntimeError):
    """Code that is outside the language of kernels.

    Numba compiles a device function that has some; in a kernel it is a fault of a schedule.
    """

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


@dataclasses.dataclass(frozen=True, slots=True)
class Returned:
    """The conversion of what a declared function returns; another kind of number is refused.

    Attributes:
        dtype: Name of the dtype that was declared.
    """

    dtype: str

    def __call__(self, value: Any) -> Any:
        """Convert, where the text of a kernel runs as Python."""
        return np.dtype(self.dtype).type(value)


Operand = Known | Typed | tuple[Any, ...]
"""A tuple stands for several values: kernels take it apart at once."""
