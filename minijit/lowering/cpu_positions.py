"""Arg-reductions as two plain ones, which vectorise: the extreme value, then its first place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.graph.primitive import Kind, Monoid, Primitive, Scalar, unsupported
from minijit.lowering.kernel_ir import Index, Kernel, Level, Map, Operand, Reduce, Statement, Value

__all__ = ["expand_positions"]

_EXTREMES = {"argmax": "max", "argmin": "min"}
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def _where_equal(position_dtype: np.dtype[Any]) -> Callable[[np.dtype[Any]], Callable[..., Any]]:
    narrow: Any = position_dtype.type
    after_all = narrow(np.iinfo(position_dtype).max)

    def make(dtype: np.dtype[Any]) -> Callable[..., Any]:
        def place(value: Any, extreme: Any, position: Any) -> Any:
            # Where there is a NaN it is the extreme, and the first NaN is the answer.
            found = (value == extreme) | (value != value)
            return narrow(position) if found else after_all

        return place

    return make


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


_PLACES = {
    dtype: _internal(
        f"place_{dtype.name}",
        f"The position where a value is the extreme, else the largest {dtype.name}.",
        _where_equal(dtype),
    )
    for dtype in (_INT32, _INT64)
}
_same_p = _internal("same", "The value itself.", lambda dtype: lambda value: value)


def _monoid(name: str, source: Monoid) -> Monoid:
    return Monoid(name, source.combine, lambda dtype: (source.identity(dtype)[0],))


def _first(dtype: np.dtype[Any]) -> Callable[..., Any]:
    return lambda x, y: min(x, y)


_FIRST = Monoid("min", _first, lambda dtype: (dtype.type(np.iinfo(dtype).max),))


def _position_dtype(kernel: Kernel, position: Operand) -> np.dtype[Any]:
    """Return int32 where it holds every position of the kernel: a vector has twice as many."""
    for statement in kernel.statements:
        if isinstance(statement, Index) and statement.out == position:
            _, last = statement.index.bounds(kernel.extents)
            return _INT32 if last < np.iinfo(_INT32).max else _INT64
    return _INT64


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
        dtype = _position_dtype(kernel, position)
        place = Value(f"{out.name}_place", dtype, Level.CELL)
        first = Value(f"{out.name}_first", dtype, Level.ROW)
        body.append(Map(place, _PLACES[dtype], (value, extreme, position), {}, line))
        body.append(Reduce(first, _FIRST, (place,), (dtype,), line))
        body.append(Map(out, _same_p, (first,), {}, line))
    return dataclasses.replace(kernel, body=tuple(body))
