"""Arg-reductions as two plain ones, which vectorise: the extreme value, then its first place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.graph.primitive import Kind, Monoid, Primitive, Scalar, unsupported
from minijit.lowering.kernel_ir import Kernel, Level, Map, Operand, Reduce, Statement, Value

__all__ = ["expand_positions"]

_EXTREMES = {"argmax": "max", "argmin": "min"}
_INT64 = np.dtype(np.int64)


def _where_equal(dtype: np.dtype[Any]) -> Callable[..., Any]:
    after_all = np.int64(np.iinfo(np.int64).max)

    def place(value: Any, extreme: Any, position: Any) -> Any:
        # NaN is the extreme when there is one, and the first NaN is the answer.
        found = (value == extreme) | ((value != value) & (extreme != extreme))
        return position if found else after_all

    return place


def _nothing(*args: Any, **params: Any) -> Any:
    raise NotImplementedError("exists only inside kernels")


def _internal(
    name: str, doc: str, make: Callable[[np.dtype[Any]], Callable[..., Any]]
) -> Primitive:
    why = unsupported("exists only inside kernels")
    return Primitive(
        name=name,
        kind=Kind.ELEMENTWISE,
        doc=doc,
        abstract_eval=_nothing,
        eager=_nothing,
        scalar=Scalar(make),
        jvp=why,
        transpose=why,
        batch=why,
    )


_place_p = _internal(
    "place_of", "The position where a value is the extreme, else the largest int64.", _where_equal
)
_same_p = _internal("same", "The value itself.", lambda dtype: lambda value: value)


def _monoid(name: str, source: Monoid) -> Monoid:
    return Monoid(name, source.combine, lambda dtype: (source.identity(dtype)[0],))


def _first(dtype: np.dtype[Any]) -> Callable[..., Any]:
    return lambda x, y: min(x, y)


_FIRST = Monoid("min", _first, lambda dtype: (np.int64(np.iinfo(np.int64).max),))


def expand_positions(kernel: Kernel) -> Kernel:
    """Return an equal kernel where ``argmax`` and ``argmin`` are an extreme and a search for it."""
    body: list[Statement] = []
    extremes: dict[tuple[str, Operand], Value] = {}
    for statement in kernel.statements:
        if not isinstance(statement, Reduce) or statement.monoid.name not in _EXTREMES:
            body.append(statement)
            continue
        value, position = statement.args
        name, out, line = statement.monoid.name, statement.out, statement.line
        extreme = extremes.get((name, value))
        if extreme is None:
            # A split reduction asks for both components, in two statements of equal operands.
            extreme = Value(f"{out.name}_extreme", value.dtype, Level.ROW)
            monoid = _monoid(_EXTREMES[name], statement.monoid)
            body.append(Reduce(extreme, monoid, (value,), statement.accumulators[:1], line))
            extremes[name, value] = extreme
        if statement.monoid.result == 0:
            body.append(Map(out, _same_p, (extreme,), {}, line))
            continue
        place = Value(f"{out.name}_place", _INT64, Level.CELL)
        body.append(Map(place, _place_p, (value, extreme, position), {}, line))
        body.append(Reduce(out, _FIRST, (place,), (_INT64,), line))
    return dataclasses.replace(kernel, body=tuple(body))
