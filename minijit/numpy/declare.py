"""The decorator that makes a function of traced arrays answer for NumPy's function of that name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

from minijit.graph.source_info import user_line
from minijit.graph.trace import array_namespace
from minijit.graph.tracer import functions
from minijit.graph.tracer import methods as method_table
from minijit.ops.promote import is_traced

__all__ = ["numpy_function", "refuse_out"]

P = ParamSpec("P")


def numpy_function(
    *aliases: str, method: bool | str = False
) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Declare what NumPy's and CuPy's function of the decorated function's name does to tracers.

    The returned function computes at once, by NumPy or CuPy, when nothing is traced.

    Args:
        aliases: Further qualified names under which NumPy or CuPy knows the function.
        method: Whether it is also a method of arrays, with the same arguments after the array; a
            string is the method's name when it differs.
    """

    def decorate(function: Callable[P, Any]) -> Callable[P, Any]:
        name = function.__name__
        for known in (name, *aliases):
            functions[known] = function
        if method:
            method_table[method if isinstance(method, str) else name] = function

        @functools.wraps(function)
        def either(*args: P.args, **kwargs: P.kwargs) -> Any:
            if is_traced(*args):
                return function(*args, **kwargs)
            return getattr(array_namespace(args), name)(*args, **kwargs)

        return either

    return decorate


def refuse_out(out: Any) -> None:
    """Refuse the argument ``out=`` of NumPy's functions: traced arrays never change.

    CuPy passes ``(None,)`` for none.

    Raises:
        TypeError: with the user's line.
    """
    given = out if isinstance(out, tuple) else (out,)
    if any(each is not None for each in given):
        raise TypeError(f"out= cannot be traced (at {user_line()}): use the value that is returned")
