"""How threads reduce: accumulators in each of them, then one exchange between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.lowering.combining import combine, elements, finished, leaders
from minijit.lowering.cuda_emitter import CudaEmitter, made
from minijit.lowering.cuda_exchange import exchange
from minijit.lowering.cuda_geometry import WARP, Geometry
from minijit.lowering.kernel_ir import Kernel, Reduce
from minijit.lowering.source import held_dtype

__all__ = ["ReducingEmitter"]

_ACCUMULATORS = 4
_LONG_CHAIN = 16


class ReducingEmitter(CudaEmitter):
    """Writes reductions: ``start``, ``accumulate`` a cell, ``flush`` a part, ``finish``."""

    def __init__(self, kernel: Kernel, geometry: Geometry) -> None:
        """Start an empty text for a kernel that ``geometry`` maps to threads."""
        super().__init__(kernel)
        self.geometry = geometry
        self._leaders: dict[Reduce, Reduce] = {}
        self.rows, self.cols = math.prod(kernel.rows), math.prod(kernel.cols)
        self.guard_rows = bool(geometry.spare or self.rows % geometry.rows)

    def place(self) -> None:
        """Write which row the thread works on, and which of the row's threads it is.

        Threads without a row are not ``active``: they go along, since they have to take part in
        exchanges and barriers.
        """
        line, shape = self.writer.line, self.geometry
        line(f"thread = {self.call('thread_index')}")
        within, part = (shape.rows, "quotient") if shape.by_column else (shape.group, "remainder")
        line(f"part = {self.call(part, 'thread', within)}")
        first = f"{self.call('block_index')}*{shape.taken}"
        own = self.own_row()
        line(f"row = {self.integer(f'{first} + {own}')}")
        if self.guard_rows:
            # What threads without a row read, neighbours of theirs read as well.
            spare = f"{own} < {shape.taken} and " if shape.spare else ""
            instead = first if shape.spare else str(self.rows - 1)
            line(f"active = {spare}row < {self.rows}")
            line(f"row = row if active else {self.integer(instead)}")
        if self.kernel.rows:
            self.unflatten("row", range(len(self.kernel.rows)))
        if shape.lead is not None:
            start = self.call("remainder", self.index(shape.lead.start), shape.lead.sector)
            line(f"lead = {self.call('narrow', start)}")

    def exists(self, column: str, step: str, cols: int | None) -> str:
        """Return code that holds where there is a column in a step of the thread.

        Args:
            column: Code of it.
            step: Code of the step's number, a constant once the loop over steps is unrolled.
            cols: How many there are; None where the variable ``limit`` says so.
        """
        shape = self.geometry
        below = f"{column} < {'limit' if cols is None else cols}"
        # Of several steps only the first and the last ones have anything to test.
        several = shape.persistent and shape.steps > 1
        last = cols // (shape.group * shape.chunk) if several and cols is not None else 0
        if last:
            below = f"({step} < {last} or {below})"
        if shape.lead is None:
            return below
        begun = f"{column} >= 0"
        return f"{f'({step} > 0 or {begun})' if several else begun} and {below}"

    def own_row(self) -> str:
        """Return code of which of the block's rows the thread works on."""
        shape = self.geometry
        if shape.by_column:
            return self.call("remainder", "thread", shape.rows)
        if shape.apart == 1:
            return self.call("quotient", "thread", shape.group)
        warp = self.call("quotient", "thread", WARP)
        lane = self.call("remainder", "thread", WARP)
        return f"{warp} + {shape.apart}*{self.call('quotient', lane, shape.group)}"

    @property
    def _accumulators(self) -> int:
        shape = self.geometry
        lanes = shape.chunk if shape.chunk > 1 else shape.steps
        return _ACCUMULATORS if lanes >= _LONG_CHAIN else math.gcd(lanes, _ACCUMULATORS)

    def start_all(self, reduces: Sequence[Reduce]) -> None:
        """Write the accumulators of reductions that go through the same cells."""
        self._leaders = leaders(reduces)
        for reduce in reduces:
            if reduce not in self._leaders:
                self._start(reduce)

    def _start(self, reduce: Reduce) -> None:
        """Write the accumulators; several, so that sums are neither slow chains nor inaccurate."""
        count = self._accumulators
        dtype = reduce.accumulators[0]
        if reduce.monoid.components is not None:
            dtype = reduce.made_for
        identities = reduce.monoid.identity(dtype)
        for place, (dtype, identity) in enumerate(
            zip(reduce.accumulators, identities, strict=True)
        ):
            name = _accumulator(reduce, place)
            self.local(name, count, dtype)
            code = f"{name}[n] = {self.constant(identity, dtype)}"
            with self.writer.block(f"for n in range({count}):"):
                self.writer.line(code)
        if self._is_long_sum(reduce):
            part, zero = _accumulator(reduce, 0), self.zero(held_dtype(reduce.accumulators[0]))
            self.writer.line(f"{part}_total = {zero}")
            self.writer.line(f"{part}_lost = {zero}")

    def _is_long_sum(self, reduce: Reduce) -> bool:
        """Whether a thread adds so many floats that the error of a plain sum would show."""
        is_float = reduce.accumulators[0].kind == "f"
        return not self.geometry.persistent and is_float and reduce.monoid.name == "sum"

    def flush(self, reduce: Reduce) -> None:
        """Write the addition of the part just read to the total, and start the next part."""
        if not self._is_long_sum(reduce):
            return
        line, part = self.writer.line, _accumulator(reduce, 0)
        self._join(reduce, [f"{part}_part"])
        code = self.call("add_exactly", f"{part}_total", f"{part}_lost", f"{part}_part")
        line(f"{part}_total, {part}_lost = {code}")
        with self.writer.block(f"for n in range({self._accumulators}):"):
            line(f"{part}[n] = {self.zero(held_dtype(reduce.accumulators[0]))}")

    def _join(self, reduce: Reduce, totals: Sequence[str]) -> None:
        """Write the combination of the thread's accumulators into the variables ``totals``."""
        line = self.writer.line
        arrays = [_accumulator(reduce, n) for n in range(len(reduce.accumulators))]
        joined = ", ".join(totals)
        line(f"{joined} = {', '.join(f'{array}[0]' for array in arrays)}")
        if self._accumulators > 1:
            with self.writer.block(f"for n in range(1, {self._accumulators}):"):
                values = ", ".join([*totals, *(f"{array}[n]" for array in arrays)])
                line(f"{joined} = {self._combine(reduce)}({values})")

    def accumulate(self, reduce: Reduce, turn: str) -> None:
        """Write the combination of a cell with the accumulator whose ``turn`` (a counter) it is."""
        if reduce in self._leaders:
            return
        count = self._accumulators
        slot = "0" if count == 1 else f"{turn} & {count - 1}"
        values = elements(self, reduce)
        places = [f"{_accumulator(reduce, n)}[{slot}]" for n in range(len(values))]
        if reduce.monoid.components is not None:
            codes = combine(self, reduce, places, values)
            self.writer.line(f"{', '.join(places)} = {', '.join(codes)}")
            return
        code = f"{self._combine(reduce)}({', '.join(places + values)})"
        self.writer.line(f"{', '.join(places)} = {code}", reduce.line)

    def finish(self, reduce: Reduce) -> None:
        """Write the combination of accumulators, then of threads, and the result of the row."""
        if reduce.monoid.components is not None:
            self._finish_tuple(reduce)
            return
        line = self.writer.line
        totals = [f"{reduce.out.name}_{n}" for n in range(len(reduce.accumulators))]
        joined = ", ".join(totals)
        if self._is_long_sum(reduce):
            part = _accumulator(reduce, 0)
            line(f"{joined} = {self.call('total_of', f'{part}_total', f'{part}_lost')}")
        else:
            self._join(reduce, totals)
        shape = self.geometry
        if shape.group > 1:
            arguments = [*totals, "thread", *self._shared(reduce)]
            name = self._exchange(reduce)
            line(f"{joined} = {name}({', '.join(arguments)})")
        result = reduce.monoid.result
        code = self.cast(totals[result], reduce.accumulators[result], reduce.out.dtype)
        line(f"{reduce.out.name} = {code}")

    def _finish_tuple(self, reduce: Reduce) -> None:
        """Write the same for components of a monoid's own."""
        line, leader = self.writer.line, self._leaders.get(reduce, reduce)
        count = len(reduce.accumulators)
        totals = [f"{leader.out.name}_{n}" for n in range(count)]
        joined = ", ".join(totals)
        if leader is reduce:
            arrays = [_accumulator(reduce, n) for n in range(count)]
            line(f"{joined} = {', '.join(f'{array}[0]' for array in arrays)}")
            if self._accumulators > 1:
                with self.writer.block(f"for n in range(1, {self._accumulators}):"):
                    codes = combine(self, reduce, totals, [f"{array}[n]" for array in arrays])
                    line(f"{joined} = {', '.join(codes)}")
            if self.geometry.group > 1:
                exchange(self, reduce, self.geometry, totals, self._shared(reduce))
        line(f"{reduce.out.name} = {finished(self, reduce, totals)}")

    @property
    def meets(self) -> bool:
        """Whether threads of several warps share a row, and exchange through shared memory."""
        return self.geometry.partials > self.geometry.rows

    def _shared(self, reduce: Reduce) -> list[str]:
        """Write the shared memory of one reduction; none where a warp holds a whole row."""
        if not self.meets:
            return []
        names = []
        for place, dtype in enumerate(reduce.accumulators):
            name = f"shared_{reduce.out.name}_{place}"
            kind = self.type(held_dtype(dtype))
            self.writer.line(f"{name} = cuda.shared.array({self.geometry.partials}, {kind})")
            names.append(name)
        return names

    def _combine(self, reduce: Reduce) -> str:
        dtypes = tuple(held_dtype(dtype) for dtype in reduce.accumulators)
        return self.name(_named("combine", reduce), self.combination(reduce.monoid, dtypes))

    def _exchange(self, reduce: Reduce) -> str:
        dtypes: tuple[np.dtype[Any], ...] = tuple(map(held_dtype, reduce.accumulators))
        combine = self.combination(reduce.monoid, dtypes)
        shape, pair = self.geometry, len(dtypes) == 2
        if shape.by_column:
            name = "column_pair_reduction" if pair else "column_reduction"
            function = made(name, combine, shape.rows, shape.group)
        else:
            function = made("row_pair_reduction" if pair else "row_reduction", combine, shape.group)
        return self.name(_named("reduce", reduce), function)


def _accumulator(reduce: Reduce, place: int) -> str:
    return f"{reduce.out.name}_sum{place}"


def _named(what: str, reduce: Reduce) -> str:
    dtypes = "_".join(dtype.name for dtype in reduce.accumulators)
    return f"{what}_{reduce.monoid.name}_{dtypes}"
