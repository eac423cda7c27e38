"""CPU schedule of reductions over slow dimensions: vectors run along the rows."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence

from minijit.lowering.cpu_abreast import Abreast
from minijit.lowering.cpu_emitter import UNIT_NS, CpuEmitter, cell_cost
from minijit.lowering.cpu_reduce import Accumulation, accumulations_of
from minijit.lowering.cpu_short_rows import SHORT_TILE, TURN_NS, short_tiles
from minijit.lowering.cpu_tile import Tile
from minijit.lowering.kernel_ir import Kernel, Level, Load, Map, Reduce, Statement, Store, Value
from minijit.lowering.source import KernelSource, held_dtype
from minijit.lowering.stages import CHEAP_FLOPS, Stage, accesses, indices, operands, stage_kernel

__all__ = ["emit_column"]

_CHAIN = 256
"""Most elements that one float accumulator adds up before they go to its total."""
_LANES = (64, 1024)
"""Least and most rows of a tile: whole cache lines, accumulators that stay in the L1 cache."""
_TILES = 8
"""Tiles wanted, so that several threads have work; fewer and wider ones read longer runs."""
_KEPT_BYTES = 1 << 19
"""Most bytes of a tile that later passes should find in the cache: half of a common L2 cache."""
_TOGETHER = 4
"""Columns that are added at a time where each takes little work: accumulators are then read and
written once for all of them, which would take longer than what is done to them. Those of fewer
rows than a tile should have LLVM keeps in registers anyway."""
_LITTLE_FLOPS = CHEAP_FLOPS // 4
"""And half as many where it takes more than this."""
_AHEAD = 8
"""Columns that are prefetched ahead: a tile's part of a column is too short for the hardware's."""


def emit_column(kernel: Kernel, lane: int, turned: Sequence[Load] = ()) -> KernelSource:
    """Write a kernel with reductions whose vectors run along the row dimension ``lane``.

    What ``turned`` loads are transposed copies of the tiles.
    """
    return _Column(kernel, lane, turned).write()


class _Column:
    """One kernel being written.

    A tile is some adjacent rows along ``lane``. Values of a row that more than one loop needs live
    in arrays of one element a row of the tile, and so do the accumulators. Of few rows several
    columns are taken abreast: the arrays then have as many elements for each row, one after the
    other, of which accumulators are joined after a pass.
    """

    def __init__(self, kernel: Kernel, lane: int, turned: Sequence[Load]) -> None:
        self.kernel = kernel
        self.turned = turned
        self.lane = lane
        self.emitter = CpuEmitter(kernel)
        self.cells = math.prod(kernel.cols)
        self.width = self._width()
        self.cols = self._cols()
        self.abreast = Abreast.of(kernel, lane, self.cols[-1]) if self.cols else None
        self.chain = _CHAIN * (self.abreast.count if self.abreast else 1)
        self.staging = stage_kernel(kernel, budget=_KEPT_BYTES // self.width)
        self.per_row: set[Value] = self._per_row()
        self.accumulations = [
            accumulations_of(stage.reduces, self.cells, self.chain) for stage in self.staging.stages
        ]
        self.spilled = self._spilled()

    @property
    def _row_bytes(self) -> int:
        """Bytes that a row reads of its widest array."""
        buffers = self.kernel.buffers
        sizes = (buffers[access.buffer].dtype.itemsize for access in accesses(self.kernel))
        return self.cells * max(sizes, default=0)

    def _width(self) -> int:
        """Return the number of rows of a tile."""
        rows, (least, most) = self.kernel.rows, _LANES
        extent = rows[self.lane]
        loads = [s for s in self.kernel.statements if isinstance(s, Load)]
        if self.turned:
            return SHORT_TILE
        if any(abs(load.index.stride(self.lane)) > 1 for load in loads):
            # Every row lies in a cache line of its own, which serves several columns.
            return min(extent, least)
        tiles = -(-_TILES * extent // max(math.prod(rows), 1))
        wanted = -(-extent // tiles // least) * least
        near = _KEPT_BYTES // max(self._row_bytes, 1) // least * least
        width = min(extent, max(least, min(wanted, most, near or most)))
        # Equal tiles rather than a narrow last one.
        return min(extent, -(-extent // -(-extent // width) // least) * least)

    def _cols(self) -> list[int]:
        """Return the column dimensions from the outermost loop to the innermost.

        The fastest one goes innermost, just outside the vectors.
        """
        cols = range(len(self.kernel.rows), len(self.kernel.extents))
        loads = [i for s in self.kernel.statements if isinstance(s, Load) for i in indices(s)]
        return sorted(cols, key=lambda dim: [-abs(index.stride(dim)) for index in loads])

    def _per_row(self) -> set[Value]:
        """Return the row values that differ along the lane; results of reductions count as such."""
        found: set[Value] = set()
        for statement in self.kernel.statements:
            if isinstance(statement, Store) or statement.out.level is Level.CELL:
                continue
            if (
                isinstance(statement, Reduce)
                or self.lane in self.emitter.used_dims[statement.out]
                or found.intersection(_values(operands(statement)))
            ):
                found.add(statement.out)
        return found

    def _row_statements(self, statements: Sequence[Statement], varying: bool) -> list[Statement]:
        """Return the row statements that do (not) differ along the lane; stores do."""
        return [s for s in statements if (isinstance(s, Store) or s.out in self.per_row) is varying]

    def _spilled(self) -> list[Value]:
        """Return the row values that are read in another loop than the one that computes them."""
        home: dict[Value, int] = {}
        stages = self.staging.stages
        for k, stage in enumerate(stages):
            home |= {s.out: k for s in stage.before if not isinstance(s, Store)}
            home |= {reduce.out: k + 1 for reduce in stage.reduces}
        home |= {s.out: len(stages) for s in self.staging.after if not isinstance(s, Store)}
        found: set[Value] = set()
        for k, stage in enumerate(stages):
            inner = [o for s in (*stage.cells, *stage.reduces) for o in operands(s)]
            found |= {v for v in _values(inner) if v in self.per_row}
            outer = _values(o for s in stage.before for o in operands(s))
            found |= {v for v in outer if v in self.per_row and home[v] != k}
        last = _values(o for s in self.staging.after for o in operands(s))
        found |= {v for v in last if v in self.per_row and home[v] != len(stages)}
        return [
            s.out for s in self.kernel.statements if not isinstance(s, Store) and s.out in found
        ]

    def write(self) -> KernelSource:
        """Return the finished source."""
        emitter, kernel = self.emitter, self.kernel
        abreast = self.abreast
        line = abreast.lanes if abreast else self.width
        for value in self.spilled:
            emitter.array(f"row_{value.name}", held_dtype(value.dtype), line)
        for value in self.staging.kept:
            length = self.width * self.cells
            emitter.array(f"kept_{value.name}", held_dtype(value.dtype), length)
        for each in (a for group in self.accumulations for a in group):
            for name, dtype, _ in each.places:
                emitter.array(name, dtype, line)
        stages = self.staging.stages
        cost = 1 + self.cells * sum(cell_cost(s.cells) + cell_cost(s.reduces) for s in stages)
        cost += self.cells * TURN_NS * len(self.turned)
        tile = self._tile(cost)
        emitter.statements(self.staging.launch)
        with emitter.units(tile, merge=False) as span, self._spans(span):
            if abreast:
                abreast.number(emitter)
            for k, stage in enumerate(stages):
                self._between(k, stage.before)
                self._pass(stage, self.accumulations[k])
            self._between(len(stages), self.staging.after)
        schedule = (
            f"column: {tile.units} units of {self.width} adjacent rows, {len(stages)} passes over "
            f"{self.cells} columns, vectors along i{self.lane}"
        )
        if abreast:
            schedule += f", {abreast.count} columns abreast"
        if self.turned:
            schedule += f", {len(self.turned)} operands turned"
        # Columns that are taken together are work for a processor as it is: several vectors besides
        # multiply the addresses of a loop, and LLVM's time for those grows like their square.
        several = not abreast and all(self._together(stage) > 1 for stage in stages)
        interleave = 1 if several else None
        work = cost * math.prod(kernel.rows)
        return emitter.finish(tile.units, work, schedule, self.width, interleave)

    def _spans(self, span: str) -> contextlib.AbstractContextManager[None]:
        """Write from where to where the rows of a tile go."""
        low, _, high = span.partition(", ")
        ends = span if high else f"0, {low}"
        if self.turned:
            return short_tiles(self.emitter, self.turned, ends)
        self.emitter.writer.line(f"low, high = {ends}")
        return contextlib.nullcontext()

    def _tile(self, cost: float) -> Tile:
        rows = self.kernel.rows
        order = [dim for dim in range(len(rows)) if dim != self.lane]
        wanted = int(UNIT_NS / cost) // self.width
        outer = Tile.filled(order, rows, 1 if self.turned else wanted)
        extents = (*outer.extents, rows[self.lane])
        tiles = max(wanted, 1) if self.turned else 1
        return Tile((*order, self.lane), extents, (*outer.blocks, tiles * self.width))

    def _slot(self, name: str) -> str:
        return f"{name}[i{self.lane} - low]"

    def _lanes(self, abreast: Abreast | None = None) -> contextlib.AbstractContextManager[None]:
        span = str(abreast.lanes) if abreast else "low, high"
        return self.emitter.writer.block(f"for i{self.lane} in range({span}):")

    def _read_rows(self, statements: Iterable[Statement], own: set[Value]) -> None:
        needed = _values(o for s in statements for o in operands(s)) - own
        for value in self.spilled:
            if value in needed:
                self.emitter.read(value, f"row_{value.name}[i{self.lane} - low]")

    def _between(self, k: int, statements: Sequence[Statement]) -> None:
        """Write what runs once a row between two passes, fresh accumulators included."""
        emitter = self.emitter
        emitter.statements(self._row_statements(statements, varying=False))
        finished = self.accumulations[k - 1] if k else []
        started = self.accumulations[k] if k < len(self.accumulations) else []
        varying = self._row_statements(statements, varying=True)
        if not (finished or varying or started):
            return
        if self.abreast:
            self.abreast.join(emitter, finished)
        own = {each.reduce.out for each in finished}
        own |= {s.out for s in varying if not isinstance(s, Store)}
        with self._lanes():
            for each in finished:
                each.finish(emitter, self._slot)
            self._read_rows(varying, own)
            emitter.statements(varying)
            for value in self.spilled:
                if value in own:
                    emitter.write(value, f"row_{value.name}[i{self.lane} - low]")
            for each in started:
                each.start(emitter, self._slot)
        if self.abreast:
            self.abreast.spread(emitter, [v for v in self.spilled if v in own], started)

    def _pass(self, stage: Stage, accumulations: Sequence[Accumulation]) -> None:
        """Write one pass over the columns of the tile."""
        emitter, kernel = self.emitter, self.kernel
        cols = self.cols
        flushed = [each for each in accumulations if each.segmented]
        with contextlib.ExitStack() as stack:
            for dim in cols[:-1]:
                head = f"for i{dim} in range({emitter.columns(dim)}):"
                stack.enter_context(emitter.writer.block(head))
            if not cols:
                self._cells(stage, accumulations, None, 1)
                return
            dim, low, high = cols[-1], "0", emitter.columns(cols[-1])
            if flushed and kernel.extents[dim] > self.chain:
                low, _, high = emitter.segments(stack, dim, self.chain).partition(", ")
            self._walk(stage, accumulations, dim, low, high)
            if flushed:
                with self._lanes(self.abreast):
                    for each in flushed:
                        each.flush(emitter, self._slot)

    def _walk(
        self, stage: Stage, accumulations: Sequence[Accumulation], dim: int, low: str, high: str
    ) -> None:
        """Write the loop over columns from ``low`` to ``high``: some at a time, then what is left.

        There is something left only in the last segment: the others are multiples.
        """
        writer, together = self.emitter.writer, self._together(stage)
        whole, last = high, high
        if together > 1 and (self.kernel.extents[dim] % together or self.kernel.ragged is not None):
            whole, last = "whole", "last"
            writer.line(f"last = {high}")
            length = "last" if low == "0" else f"(last - {low})"
            writer.line(f"whole = last - {length} % {together}")
        if together > 1:
            span = f"{low}, {whole}, {together}"
        else:
            span = whole if low == "0" else f"{low}, {whole}"
        with writer.block(f"for i{dim} in range({span}):"):
            self._cells(stage, accumulations, dim, together)
        if whole != last:
            with writer.block(f"for i{dim} in range({whole}, {last}):"):
                self._cells(stage, accumulations, dim, 1)

    def _together(self, stage: Stage) -> int:
        """Return how many columns to take at a time."""
        if self.abreast:
            return self.abreast.count
        flops = sum(s.op.flops for s in stage.cells if isinstance(s, Map))
        if not stage.reduces or flops > CHEAP_FLOPS or self.width < _LANES[0]:
            return 1
        if stage.reuses or stage.keeps or any(isinstance(s, Load) for s in self._hoisted(stage)):
            return 1
        return _TOGETHER if flops <= _LITTLE_FLOPS else _TOGETHER // 2

    def _prefetch(self, statements: Sequence[Statement], dim: int, together: int) -> None:
        """Write prefetches of what is loaded ``_AHEAD`` steps along ``dim`` further on."""
        for statement in statements:
            if isinstance(statement, Load) and self.kernel.extents[dim] > _AHEAD:
                stride = statement.index.stride(dim)
                adjacent = abs(statement.index.stride(self.lane)) == 1
                if adjacent and abs(stride) > self.width and self.emitter.is_far(statement):
                    first, *more = ((_AHEAD + number) * stride for number in range(together))
                    self.emitter.prefetch(statement, first, self.lane, more=more)

    def _hoisted(self, stage: Stage) -> list[Statement]:
        """Return the statements of a pass that are the same for all rows of a tile."""
        if stage.reuses or stage.keeps or self.abreast:
            return []
        hoisted: list[Statement] = []
        varying = set(self.per_row)
        for statement in stage.cells:
            along = self.lane in self.emitter.dims_of(statement)
            if along or varying.intersection(_values(operands(statement))):
                varying |= set() if isinstance(statement, Store) else {statement.out}
            else:
                hoisted.append(statement)
        return hoisted

    def _cells(
        self,
        stage: Stage,
        accumulations: Sequence[Accumulation],
        dim: int | None,
        together: int,
    ) -> None:
        """Write the vector loop over the tile at some columns, a step of the loop over ``dim``."""
        emitter = self.emitter
        hoisted = self._hoisted(stage)
        rest = [s for s in stage.cells if s not in hoisted]
        cached = self.width * self._row_bytes <= _KEPT_BYTES and stage != self.staging.stages[0]
        if dim is not None and not cached:
            self._prefetch(rest, dim, together)
        abreast = self.abreast if together > 1 else None
        if dim is not None and together > 1 and abreast is None:
            self._columns_of(stage, accumulations, dim, together)
            return
        emitter.statements(hoisted)
        with self._lanes(abreast):
            at = self._position()
            at = f"({at})" if "+" in at else at
            place = f"{self.width}*{at} + i{self.lane} - low"
            for value in stage.reuses:
                emitter.read(value, f"kept_{value.name}[{place}]")
            self._read_rows((*rest, *stage.reduces), set())
            if abreast is None:
                emitter.statements(rest)
            else:
                abreast.statements(emitter, rest)
            for value in stage.keeps:
                emitter.write(value, f"kept_{value.name}[{place}]")
            for each in accumulations:
                each.add(emitter, self._slot)

    def _columns(self, dim: int, together: int) -> Iterator[None]:
        """Let statements stand for one column after the other."""
        dims = self.emitter.dims
        for number in range(together):
            dims[dim] = f"(i{dim} + {number})" if number else f"i{dim}"
            yield
        dims[dim] = f"i{dim}"

    def _columns_of(
        self, stage: Stage, accumulations: Sequence[Accumulation], dim: int, together: int
    ) -> None:
        """Write the vector loop over the tile at several columns, accumulators in registers."""
        emitter = self.emitter
        # Of a sum in segments all but the first place wait for the segment's end.
        used = (each.places[:1] if each.segmented else each.places for each in accumulations)
        places = [name for group in used for name, _, _ in group]
        with self._lanes():
            self._read_rows((*stage.cells, *stage.reduces), set())
            for name in places:
                emitter.writer.line(f"own_{name} = {self._slot(name)}")
            for _ in self._columns(dim, together):
                emitter.statements(stage.cells)
                for each in accumulations:
                    each.add(emitter, _own_name)
            for name in places:
                emitter.writer.line(f"{self._slot(name)} = own_{name}")

    def _position(self) -> str:
        kernel = self.kernel
        terms: list[str] = []
        stride = 1
        for dim in reversed(range(len(kernel.rows), len(kernel.extents))):
            terms.append(f"i{dim}" if stride == 1 else f"{stride}*i{dim}")
            stride *= kernel.extents[dim]
        return " + ".join(reversed(terms)) or "0"


def _own_name(name: str) -> str:
    return f"own_{name}"


def _values(found: Iterable[object]) -> set[Value]:
    return {operand for operand in found if isinstance(operand, Value)}
