"""Tries a combination on a few values: associative, commutative, and its identity one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from minijit.graph.errors import DeclarationError

__all__ = ["check_laws"]

_NUMBERS = (0.0, 1.0, -2.0, 2.5)
_INTEGERS = (0, 1, 6, 13)
_TOLERANCE = 1e-6
Tuple = tuple[Any, ...]


def check_laws(
    combine: FunctionType,
    element: FunctionType | None,
    identity: Callable[[np.dtype[Any]], Tuple],
    position: bool,
) -> None:
    """Refuse a combination that breaks a law on components of a few elements.

    It is run as Python, on numbers in double precision, or on integers where those are refused.
    What Python cannot run at all (a function of one target) is left to the test kit.

    Raises:
        DeclarationError: a law is broken; the message has the values.
    """
    for numbers, dtype in ((_NUMBERS, np.float64), (_INTEGERS, np.int64)):
        try:
            start = tuple(part.item() for part in identity(np.dtype(dtype)))
            elements = [_lifted(element, number, n, position) for n, number in enumerate(numbers)]
            if element is not None and len(elements[0]) != len(start):
                raise DeclarationError(
                    f"element of {_where(combine)} gives {len(elements[0])} numbers, and the "
                    f"identity has {len(start)} components"
                )
            _check(combine, elements, start)
        except DeclarationError:
            raise
        except Exception:
            continue
        return


def _lifted(element: FunctionType | None, number: Any, place: int, position: bool) -> Tuple:
    given = (number, place) if position else (number,)
    return given if element is None else _tuple(element(*given))


def _check(combine: FunctionType, elements: Sequence[Tuple], start: Tuple) -> None:
    def joined(a: Tuple, b: Tuple) -> Tuple:
        return _tuple(combine(*a, *b))

    where = _where(combine)
    for a in elements:
        for pair in ((start, a), (a, start)):
            if not _near(joined(*pair), a):
                raise DeclarationError(
                    f"{where}: {_shown(start)} is no identity: combined with {_shown(a)} it gives "
                    f"{_shown(joined(*pair))}"
                )
    for a, b in itertools.combinations(elements, 2):
        if not _near(joined(a, b), joined(b, a)):
            raise DeclarationError(
                f"{where} is not commutative, and threads combine in an order of their own: "
                f"{_shown(a)} with {_shown(b)} gives {_shown(joined(a, b))}, the other way round "
                f"{_shown(joined(b, a))}"
            )
    for a, b, c in itertools.combinations(elements, 3):
        left, right = joined(joined(a, b), c), joined(a, joined(b, c))
        if not _near(left, right):
            raise DeclarationError(
                f"{where} is not associative, and rows are combined from parts: of {_shown(a)}, "
                f"{_shown(b)}, {_shown(c)} the first two first gives {_shown(left)}, the last two "
                f"first {_shown(right)}"
            )


def _where(function: FunctionType) -> str:
    code = function.__code__
    return f"{function.__name__} ({Path(code.co_filename).name}:{code.co_firstlineno})"


def _tuple(result: Any) -> Tuple:
    return result if isinstance(result, tuple) else (result,)


def _near(first: Tuple, second: Tuple) -> bool:
    return len(first) == len(second) and all(
        a == b or (a != a and b != b) or math.isclose(a, b, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
        for a, b in zip(first, second, strict=True)
    )


def _shown(values: Tuple) -> str:
    return f"{values[0]:g}" if len(values) == 1 else f"({', '.join(f'{v:g}' for v in values)})"
