"""Printing values of a program at each run: an operation with an effect and no result of use."""

from __future__ import annotations

import string
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.primitive import sequential
from minijit.graph.source_info import here
from minijit.graph.trace import bind
from minijit.ops.library import library

__all__ = ["print_p", "print_values"]


def print_values(fmt: str, *args: Any, **kwargs: Any) -> None:
    """Print arrays and numbers, traced or not, each time that the program runs.

    Inside a jitted function ``print`` runs once, while it is traced; this prints the values at each
    call, at each step of a loop, and in the branch that is taken. What is printed stays in the
    order of the program. A loop or a branch that prints is driven by the host, and on CUDA the host
    waits for the values.

    Args:
        fmt: As for ``str.format``.
        *args: For its fields by position: arrays, numbers.
        **kwargs: For its fields by name.

    Raises:
        ValueError: ``fmt`` and the values do not fit together.
        TypeError: a value is no array and no number.
    """
    _checked(fmt, args, kwargs)
    bind(print_p, *args, *kwargs.values(), fmt=fmt, names=tuple(kwargs))


class _Formatter(string.Formatter):
    """Formats, and complains of values that no field shows."""

    def check_unused_args(
        self, used_args: set[int | str], args: Sequence[Any], kwargs: Any
    ) -> None:
        unused = [n for n in (*range(len(args)), *kwargs) if n not in used_args]
        if unused:
            raise ValueError(f"no field shows {', '.join(map(str, unused))}")


class _Value:
    """Stands for a value of which nothing is known yet: any field may show it."""

    def __format__(self, spec: str) -> str:
        return ""


def _checked(fmt: str, args: Sequence[Any], kwargs: Any) -> None:
    try:
        _Formatter().vformat(fmt, [_Value() for _ in args], dict.fromkeys(kwargs, _Value()))
    except (ValueError, IndexError, KeyError) as error:
        why = str(error)
        if isinstance(error, IndexError):
            why = "a field has no value"
        elif isinstance(error, KeyError):
            why = f"no value is named {error}"
        raise ValueError(
            f"debug.print cannot format {fmt!r}: {why}{here()}; it takes the fields of "
            "str.format, one for each value"
        ) from None


def _print(xp: Any, *arrays: Any, fmt: str, names: tuple[str, ...]) -> Any:
    values = [array.get() if hasattr(array, "get") else np.asarray(array) for array in arrays]
    first = len(values) - len(names)
    text = fmt.format(*values[:first], **dict(zip(names, values[first:], strict=True)))
    sys.stdout.write(f"{text}\n")
    return xp.zeros((), bool)


print_p = library(
    "print",
    _print,
    lambda *avals, fmt, names: ShapedArray((), np.dtype(bool)),
    "Print values; the result, false, is of no use.",
    effect=True,
    batch=sequential,
)
