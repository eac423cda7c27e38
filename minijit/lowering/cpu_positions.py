"""Arg-reductions as two plain ones, which vectorise: the extreme value, then its first place.

Of a long row the first one remembers in which segment the extreme appeared, and the second one
looks there alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijit.graph.primitive import Kind, Monoid, Primitive, Scalar, unsupported
from minijit.lowering.cpu_emitter import CpuEmitter
from minijit.lowering.cpu_reduce import Accumulation
from minijit.lowering.kernel_ir import (
    Index,
    Kernel,
    Level,
    Map,
    Operand,
    Reduce,
    Statement,
    Store,
    Value,
)
from minijit.lowering.stages import Stage, Staging

__all__ = ["Search", "expand_positions", "sought"]

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


def sought(stage: Stage) -> Value | None:
    """Return the extreme value whose first place is all that a pass looks for."""
    maps = [s for s in stage.cells if isinstance(s, Map)]
    extremes = {s.out: s.args[1] for s in maps if s.op in _PLACES.values()}
    args = [arg for reduce in stage.reduces for arg in reduce.args]
    found = {extremes.get(arg) if isinstance(arg, Value) else None for arg in args}
    if stage.keeps or any(isinstance(s, Store) for s in stage.cells) or len(found) != 1:
        return None
    (extreme,) = found
    return extreme if isinstance(extreme, Value) else None


class Search:
    """Remembers the segment of a row that had an extreme value first: only that one is searched.

    Attributes:
        emitter: Writes the kernel.
        wanted: The extremes of which a later pass looks for nothing but the first place.
    """

    def __init__(self, emitter: CpuEmitter, staging: Staging) -> None:
        """Find out what is wanted."""
        self.emitter = emitter
        self.wanted = {extreme for stage in staging.stages if (extreme := sought(stage))}
        self._followed: dict[Value, tuple[str, int]] = {}

    def start(self, extremes: Sequence[Accumulation], length: int) -> None:
        """Write what is known before the first segment of so many columns."""
        for each in extremes:
            ((name, dtype, value),) = each.places
            self._followed[each.reduce.out] = name, length
            self.emitter.writer.line(f"before_{name} = {self.emitter.constant(value, dtype)}")
            self.emitter.writer.line(f"segment_{name} = 0")

    def end_segment(self, extremes: Sequence[Accumulation]) -> None:
        """Write the comparison of each extreme with what it was before the segment."""
        line = self.emitter.writer.line
        for each in extremes:
            if each.reduce.out in self._followed:
                name, _ = self._followed[each.reduce.out]
                # A NaN is new, unless there was one before.
                new = f"({name} != before_{name}) & (before_{name} == before_{name})"
                line(f"segment_{name} = segment if {new} else segment_{name}")
                line(f"before_{name} = {name}")

    def span(self, stage: Stage, dim: int) -> str | None:
        """Return the range of columns along ``dim`` that a pass has to look at, if not all."""
        extreme = sought(stage)
        if extreme is None or extreme not in self._followed:
            return None
        name, length = self._followed[extreme]
        low = f"{length}*segment_{name}"
        return f"{low}, min({low} + {length}, {self.emitter.columns(dim)})"
