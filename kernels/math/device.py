"""device: turns a formula over Values into a function that Numba CPU code calls, inlined."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from minijit.kernels.math.outlined import call_formula
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value

__all__ = ["called", "device"]

Formula = Callable[..., Value]
_formulas: dict[Any, tuple[Any, Formula]] = {}
_NUMBA_TYPES = {FLOAT32: types.float32, FLOAT64: types.float64}


def device(kind: Any) -> Callable[[Formula], Any]:
    """Decorator: `formula(x)` or `formula(x, y)` becomes a function of scalars of type `kind`.

    `kind` is FLOAT32 or FLOAT64: the type of every argument and of the result. Numba code for the
    CPU calls the result like any function (Python itself cannot); another argument type is a
    TypingError there, never a conversion.

    The formula runs once for each call in the source, while Numba generates code, and emits its
    instructions in that very place. Numba's front end would cost about 3 ms for each operation of
    it, and a device function 40 ms more before its first use; and it would promote float32 and
    int32 on the way.
    """

    def decorate(formula: Formula) -> Any:
        function = _intrinsic(kind, formula, _inline)
        _formulas[function] = (kind, formula)
        return function

    return decorate


@functools.cache
def called(function: Any) -> Any:
    """Return a function of :func:`device` that is compiled once, and called: for frequent use."""
    return _intrinsic(*_formulas[function], call_formula)


def _inline(builder: Any, formula: Formula, arguments: Sequence[Any]) -> Any:
    return formula(*(Value(builder, argument) for argument in arguments)).ir


def _intrinsic(kind: Any, formula: Formula, write: Callable[[Any, Formula, Any], Any]) -> Any:
    scalar = _NUMBA_TYPES[kind]

    def typed(*given: Any) -> tuple[Any, Any]:
        for argument in given:
            if argument != scalar:
                raise TypingError(f"{formula.__name__} takes {scalar}, not {argument}")
        return scalar(*given), generate

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return write(builder, formula, arguments)

    # Numba reads the number of arguments off the signature.
    def unary(typing_context: Any, x: Any) -> tuple[Any, Any]:
        return typed(x)

    def binary(typing_context: Any, x: Any, y: Any) -> tuple[Any, Any]:
        return typed(x, y)

    typing = {1: unary, 2: binary}[formula.__code__.co_argcount]
    typing.__name__ = formula.__name__
    typing.__qualname__ = formula.__qualname__
    typing.__doc__ = formula.__doc__
    typing.__module__ = formula.__module__
    return intrinsic(typing)
