"""How the CPU accumulates each reduction: in vectors over a segment, then segments exactly.

A float sum adds up a segment of elements in its accumulator's dtype, spread over the lanes of
vectors; sums of segments are added in float64, those of float64 with Neumaier's correction. The
error stays at or below that of NumPy's pairwise summation, and no element is loaded twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijit.lowering.combining import combine, elements, finished, leaders
from minijit.lowering.cpu_emitter import CpuEmitter
from minijit.lowering.kernel_ir import Reduce
from minijit.lowering.source import held_dtype

__all__ = ["Accumulation", "Slot", "accumulations_of"]

_FLOAT64 = np.dtype(np.float64)
_FOLDS = frozenset({"sum", "prod", "max", "min", "any", "all"})
"""Monoids that ``minijit.kernels.cpu`` folds in vectors; others by their own combination."""
_PLAIN = frozenset({"sum", "prod"})
"""Those of floats that choose nothing, so that no store under a mask comes of them."""
Place = tuple[str, np.dtype[Any], Any]
Slot = Callable[[str], str]
"""From the name of an accumulator to code of its place: the name itself, or an array's element."""


@dataclasses.dataclass(frozen=True, slots=True)
class Accumulation:
    """The places that one reduction accumulates in, and the lines that it writes.

    Attributes:
        places: ``(name, dtype, initial value)`` of each.
        segmented: Whether ``flush`` has to run after every segment.
    """

    reduce: Reduce
    places: tuple[Place, ...]
    segmented: bool

    def start(self, emitter: CpuEmitter, slot: Slot) -> None:
        """Write the initial values."""
        for name, dtype, value in self.places:
            emitter.writer.line(f"{slot(name)} = {emitter.constant(value, dtype)}")

    def add(self, emitter: CpuEmitter, slot: Slot) -> None:
        """Write the combination with the current cell."""
        values = [
            emitter.cast(emitter.operand(arg), arg.dtype, place[1])
            for arg, place in zip(self.reduce.args, self.places, strict=False)
        ]
        self._combine(emitter, slot, values)

    def join(self, emitter: CpuEmitter, slot: Slot, other: Slot) -> None:
        """Write the combination with what was accumulated elsewhere, segments being flushed."""
        if not self.segmented:
            self._combine(emitter, slot, [other(place[0]) for place in self.places])
            return
        total = self.places[1][0]
        if len(self.places) == 3:
            lost, function = self.places[2][0], emitter.helper("add_exactly")
            kept = f"{slot(lost)} + {other(lost)}"
            code = f"{function}({slot(total)}, {kept}, {other(total)})"
            emitter.writer.line(f"{slot(total)}, {slot(lost)} = {code}")
        else:
            emitter.writer.line(f"{slot(total)} = {slot(total)} + {other(total)}")

    def _combine(self, emitter: CpuEmitter, slot: Slot, values: list[str]) -> None:
        reduce, monoid = self.reduce, self.reduce.monoid
        name, dtype, _ = self.places[0]
        if monoid.position or monoid.name not in _FOLDS:
            slots = [slot(place[0]) for place in self.places]
            function = emitter.combination(monoid.name, monoid.combine, dtype)
            values = [*(self._before(emitter, slot, place[0]) for place in self.places), *values]
            code = f"{', '.join(slots)} = {function}({', '.join(values)})"
        elif monoid.name == "prod" and reduce.accumulators[0] == _FLOAT64:
            code = f"{slot(name)} = {slot(name)} * {values[0]}"
        else:
            function = emitter.helper(f"fold_{monoid.name}")
            plain = dtype.kind == "f" and monoid.name in _PLAIN
            before = slot(name) if plain else self._before(emitter, slot, name)
            code = f"{slot(name)} = {function}({before}, {values[0]})"
        emitter.writer.line(code, reduce.line)

    def _before(self, emitter: CpuEmitter, slot: Slot, name: str) -> str:
        """Return the reading of what may be put back where it was.

        In an array that must not become a store under a mask.
        """
        place = slot(name)
        return place if place == name else f"{emitter.helper('freeze')}({place})"

    def flush(self, emitter: CpuEmitter, slot: Slot) -> None:
        """Write the addition of a segment's sum to the total, and start the next segment."""
        part, total = self.places[0], self.places[1]
        if len(self.places) == 3:
            function = emitter.helper("add_exactly")
            total_code, lost = slot(total[0]), slot(self.places[2][0])
            code = f"{total_code}, {lost} = {function}({total_code}, {lost}, {slot(part[0])})"
        else:
            wide = emitter.cast(slot(part[0]), part[1], _FLOAT64)
            code = f"{slot(total[0])} = {slot(total[0])} + {wide}"
        emitter.writer.line(code)
        emitter.writer.line(f"{slot(part[0])} = {emitter.constant(part[2], part[1])}")

    def finish(self, emitter: CpuEmitter, slot: Slot) -> None:
        """Write the result to the variable of the reduction's value."""
        out, monoid = self.reduce.out, self.reduce.monoid
        place = self.places[monoid.result if monoid.position else 0]
        code, dtype = slot(place[0]), place[1]
        if self.segmented:
            code, dtype = slot(self.places[1][0]), _FLOAT64
            if len(self.places) == 3:
                code = f"{emitter.helper('total_of')}({code}, {slot(self.places[2][0])})"
        emitter.writer.line(f"{out.name} = {emitter.cast(code, dtype, out.dtype)}")


@dataclasses.dataclass(frozen=True, slots=True)
class TupleAccumulation(Accumulation):
    """Accumulates what a monoid says, as it says.

    Attributes:
        leader: Another one, in whose places the same is accumulated.
    """

    leader: TupleAccumulation | None = None

    def add(self, emitter: CpuEmitter, slot: Slot) -> None:
        """Write the combination with the current cell."""
        if self.leader is None:
            self._combine(emitter, slot, elements(emitter, self.reduce))

    def join(self, emitter: CpuEmitter, slot: Slot, other: Slot) -> None:
        """Write the combination with what was accumulated elsewhere."""
        if self.leader is None:
            self._combine(emitter, slot, self._totals(emitter, other, again=False))

    def _combine(self, emitter: CpuEmitter, slot: Slot, values: list[str]) -> None:
        totals = combine(emitter, self.reduce, self._totals(emitter, slot, again=True), values)
        codes = [
            emitter.cast(code, dtype, place[1])
            for code, dtype, place in zip(
                totals, self.reduce.accumulators, self.places, strict=True
            )
        ]
        emitter.writer.line(f"{', '.join(slot(p[0]) for p in self.places)} = {', '.join(codes)}")

    def finish(self, emitter: CpuEmitter, slot: Slot) -> None:
        """Write the result to the variable of the reduction's value."""
        totals = (self.leader or self)._totals(emitter, slot, again=False)
        emitter.writer.line(f"{self.reduce.out.name} = {finished(emitter, self.reduce, totals)}")

    def _totals(self, emitter: CpuEmitter, slot: Slot, *, again: bool) -> list[str]:
        read = [self._before(emitter, slot, p[0]) if again else slot(p[0]) for p in self.places]
        pairs = zip(read, self.places, self.reduce.accumulators, strict=True)
        return [emitter.cast(code, place[1], dtype) for code, place, dtype in pairs]


def accumulations_of(reduces: Sequence[Reduce], cells: int, chain: int) -> list[Accumulation]:
    """Return how the reductions of one pass are accumulated.

    Args:
        reduces: The statements.
        cells: Number of cells of a row.
        chain: Most elements that a float accumulator may add up before its segment ends.
    """
    shared = leaders(reduces)
    found: dict[Reduce, Accumulation] = {}
    for reduce in reduces:
        if reduce.monoid.components is None:
            found[reduce] = _accumulation(reduce, cells, chain)
        elif reduce in shared:
            leader = found[shared[reduce]]
            assert isinstance(leader, TupleAccumulation)
            found[reduce] = TupleAccumulation(reduce, (), False, leader)
        else:
            found[reduce] = TupleAccumulation(reduce, _places(reduce), False)
    return list(found.values())


def _places(reduce: Reduce) -> tuple[Place, ...]:
    """Return the places of all components; truth values as bytes, which arrays have."""
    identity = reduce.monoid.identity(reduce.made_for)
    places: list[Place] = []
    for number, (value, dtype) in enumerate(zip(identity, reduce.accumulators, strict=True)):
        kept = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        places.append((f"{reduce.monoid.name}_{reduce.out.name}_{number}", kept, kept.type(value)))
    return tuple(places)


def _accumulation(reduce: Reduce, cells: int, chain: int) -> Accumulation:
    monoid, out = reduce.monoid, reduce.out.name
    dtype = held_dtype(reduce.accumulators[0])
    identity = monoid.identity(dtype)
    if dtype.kind == "b":
        # As bytes, so that accumulators may be elements of an array.
        dtype, identity = np.dtype(np.uint8), tuple(map(np.uint8, identity))
    name = f"{monoid.name}_{out}"
    if monoid.position:
        position = np.dtype(np.int64)
        places = ((name, dtype, identity[0]), (f"at_{out}", position, identity[1]))
        return Accumulation(reduce, places, False)
    if monoid.name == "prod" and dtype == np.float32:
        # Lanes multiply in another order than NumPy, which must not overflow on the way.
        return Accumulation(reduce, ((name, _FLOAT64, np.float64(1)),), False)
    part = (name, dtype, identity[0])
    if monoid.name != "sum" or dtype.kind != "f" or cells <= chain:
        return Accumulation(reduce, (part,), False)
    total = (f"total_{out}", _FLOAT64, np.float64(0))
    if dtype == np.float32:
        return Accumulation(reduce, (part, total), True)
    return Accumulation(reduce, (part, total, (f"lost_{out}", _FLOAT64, np.float64(0))), True)
