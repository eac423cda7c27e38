"""Linear maps of which only the transpose is known: what reverse rules of users stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from minijit.graph.aval import ShapedArray
from minijit.graph.primitive import unsupported
from minijit.graph.trace import bind
from minijit.ops.library import library

__all__ = ["pullback", "pullback_p"]


def _aval(*avals: ShapedArray, results: tuple[ShapedArray, ...], **params: Any) -> Any:
    return results


def _eager(xp: Any, *operands: Any, **params: Any) -> NoReturn:
    raise TypeError("a reverse rule has no forward form")


def _transpose(cotangents: Any, *operands: Any, pull: Any, known: int, results: Any) -> Any:
    return (*(None for _ in range(known)), *pull(cotangents, operands[:known]))


pullback_p = library(
    "pullback",
    _eager,
    _aval,
    "A linear map of tangents of which only the transpose is known.",
    multiple_results=True,
    transpose=_transpose,
    batch=unsupported("it is transposed before a program is mapped"),
)


def pullback(
    pull: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
    known: Sequence[Any],
    tangents: Sequence[Any],
    results: Sequence[ShapedArray],
) -> tuple[Any, ...]:
    """Record the map and return the tangents of its results.

    Args:
        pull: Takes the cotangents of the results, None where one is zero, and ``known``; returns a
            cotangent, or None, for each of ``tangents``.
        known: What it needs beside cotangents.
        tangents: The operands.
        results: Types of the results.
    """
    found: tuple[Any, ...] = bind(
        pullback_p, *known, *tangents, pull=pull, known=len(known), results=tuple(results)
    )
    return found
