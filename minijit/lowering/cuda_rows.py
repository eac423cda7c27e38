"""The row and column schedules: kernels with reductions, a group of threads for each row.

Every reduction costs one exchange between the threads of a row, after which all of them know the
result, so that the next pass starts at once. Threads without a row work on the last one and store
nothing: they have to take part in exchanges and barriers.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from minijit.lowering.cuda_geometry import Geometry, choose_geometry
from minijit.lowering.cuda_launch import CudaLaunch
from minijit.lowering.cuda_short_rows import RowTile, TiledEmitter, tile_rows
from minijit.lowering.kernel_ir import (
    Gather,
    Guard,
    Index,
    Kernel,
    Level,
    Load,
    Operand,
    Reduce,
    Statement,
    Store,
)
from minijit.lowering.source import KernelSource
from minijit.lowering.stages import Stage, Staging

__all__ = ["emit_rows"]


def emit_rows(kernel: Kernel, *, vectorize: bool, work: int | None) -> KernelSource:
    """Write a kernel with columns."""
    geometry, staging = choose_geometry(kernel, vectorize=vectorize, work=work)
    tiles: tuple[RowTile, ...] = ()
    tiled = tile_rows(kernel, geometry, work=work)
    if tiled is not None:
        geometry, staging, tiles = tiled
    emitter = _RowEmitter(kernel, geometry, staging, tiles, vectorize=vectorize)
    emitter.write()
    grid = max(-(-math.prod(kernel.rows) // geometry.taken), 1)
    aligned = tuple(sorted(emitter.aligned))
    launch = CudaLaunch(
        grid, geometry.threads, 0, aligned, vectorize, geometry.lanes, registers=geometry.registers
    )
    through = ", all rows of a block through shared memory" if tiles else ""
    note = f"{geometry}{through}; {grid} blocks"
    return KernelSource(kernel, emitter.writer.text, emitter.names, note, launch)


class _RowEmitter(TiledEmitter):
    """Writes one kernel with reductions."""

    def __init__(
        self,
        kernel: Kernel,
        geometry: Geometry,
        staging: Staging,
        tiles: Sequence[RowTile],
        *,
        vectorize: bool,
    ) -> None:
        super().__init__(kernel, geometry, tiles, vectorize=vectorize)
        self.staging = staging
        self.col_dims = range(len(kernel.rows), len(kernel.extents))
        self.inner = len(kernel.extents) - 1
        guards = (s for s in kernel.statements if isinstance(s, Guard))
        self.guards: dict[Operand | None, Guard] = {
            guard.out: guard for guard in guards if guard.out.level is Level.CELL
        }
        self.ragged = kernel.ragged is not None
        self.limit = "limit" if self.ragged else str(self.cols)
        self.lead = geometry.lead
        self.divides = self.cols > 0 and self.cols % geometry.span == 0 and self.lead is None
        # Of the code at hand: whether all columns of a thread exist, whether the row may end early.
        self.exact = self.divides and not self.ragged
        self.short = self.ragged

    def write(self) -> None:
        """Write the whole function."""
        with self.whole_function():
            for statement in self.staging.launch:
                self.statement(statement)
            self.place()
            self.fill()
            self._arrays()
            for number, stage in enumerate(self.staging.stages):
                self._row_statements(stage.before)
                self.writer.line(f"# pass {number + 1} of {len(self.staging.stages)}")
                self._stage(stage, first_pass=number == 0)
            self._row_statements(self.staging.after)
            self.empty()

    def place(self) -> None:
        """Write the place of the thread, and how many columns a ragged row has."""
        super().place()
        if self.ragged:
            line, block = self.writer.line, self.dims[0]
            left = f"{self.kernel.ragged} - {block}*{self.cols}"
            line(f"limit = {self.integer(f'min({self.cols}, {left})')}")

    def _arrays(self) -> None:
        """Write the arrays that hold a thread's share of the row."""
        lanes = self.geometry.lanes
        held = dict.fromkeys(self.staging.kept)
        held.update((s.out, None) for stage in self.staging.stages for s in self._hoisted(stage))
        for value in held:
            self.local(f"{value.name}_", lanes, value.dtype)
        for stage in self.staging.stages:
            for store in self._vector_stores(stage):
                self.local(f"o{store.buffer}_", lanes, self.kernel.buffers[store.buffer].dtype)

    def _row_statements(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            if isinstance(statement, Store):
                condition = "part == 0 and active" if self.guard_rows else "part == 0"
                with self.writer.block(f"if {condition}:"):
                    self.store(statement)
            else:
                self.statement(statement)

    # One pass.

    def _hoisted(self, stage: Stage) -> list[Load]:
        """Return the loads that come before everything else: what their guards need is no load."""
        return [
            s
            for s in stage.cells
            if isinstance(s, Load) and (s.guard is None or s.guard in self.guards)
        ]

    def _vector_stores(self, stage: Stage) -> list[Store]:
        return [s for s in stage.cells if isinstance(s, Store) and self._is_vector(s)]

    def _is_vector(self, access: Load | Store) -> bool:
        return self.vectorizable(access.buffer, access.index, self.inner, self.geometry.chunk)

    def _stage(self, stage: Stage, first_pass: bool) -> None:
        self.start_all(stage.reduces)
        if stage.cells or stage.reduces:
            loads, stores = self._hoisted(stage), self._vector_stores(stage)
            self._through_row(lambda: self._part(stage, loads, stores, first_pass), stage.reduces)
        for reduce in stage.reduces:
            self.finish(reduce)

    def _part(
        self, stage: Stage, loads: Sequence[Load], stores: Sequence[Store], first_pass: bool
    ) -> None:
        """Write what is done with the columns that are held at once."""
        if first_pass or not self.geometry.persistent:
            # This pass waits for memory: all its loads come before the first use.
            self._in_steps(lambda first: self._loads(loads, first), loads)
            with self._cell(stage) as (lane, turn):
                self._cells(stage, loads, stores, lane, turn)
            self._in_steps(lambda first: self._stores(stores, first), stores)
            return
        # What is loaded beside the row goes chunk by chunk, so that it needs no room.
        with self._step() as first:
            self._loads([load for load in loads if load.out not in stage.reuses], first)
            with self._lane(first) as lane:
                turn = "g" if self.geometry.chunk == 1 else "k"
                self._cells(stage, loads, stores, lane, turn)
            self._stores(stores, first)

    def _in_steps(self, write: Callable[[str], None], accesses: Sequence[object]) -> None:
        """Write the loop over chunks around accesses, if there are any."""
        if accesses:
            with self._step() as first:
                write(first)

    def _through_row(self, write: Callable[[], None], reduces: Sequence[Reduce]) -> None:
        """Write a pass: the whole row at once, or a loop over parts of one that is too long."""
        line, shape = self.writer.line, self.geometry
        if shape.persistent:
            if self.ragged:
                self._in_two_ways(write, f"limit == {self.cols}", exact=self.divides)
            else:
                write()
            return
        line(f"base = {self.integer('0' if self.lead is None else '-lead')}")
        with self.writer.block(f"while base < {self.limit}:"):
            if self.exact:
                write()
            else:
                begun = "" if self.lead is None else "base >= 0 and "
                whole = f"{begun}base + {shape.span} <= {self.limit}"
                self._in_two_ways(write, whole, exact=True)
            for reduce in reduces:
                self.flush(reduce)
            line(f"base = {self.call('advance', 'base', shape.span)}")

    def _in_two_ways(self, write: Callable[[], None], whole: str, *, exact: bool) -> None:
        """Write code for where no column is missing, and for elsewhere.

        Args:
            write: Writes the code.
            whole: Code that holds where the row does not end early.
            exact: Whether all columns of a thread exist there.
        """
        before = self.exact, self.short
        with self.writer.block(f"if {whole}:"):
            self.exact, self.short = exact, False
            write()
        self.exact, self.short = before
        with self.writer.block("else:"):
            write()

    @contextlib.contextmanager
    def _step(self) -> Iterator[str]:
        """Write the loop over a thread's chunks; yields code of the chunk's first lane."""
        shape = self.geometry
        with contextlib.ExitStack() as stack:
            first, place = "", "part"
            if shape.steps > 1:
                stack.enter_context(self.writer.block(f"for g in range({shape.steps}):"))
                first = "g" if shape.chunk == 1 else f"{shape.chunk}*g"
                place = (
                    f"(part + {shape.group}*g)" if shape.chunk > 1 else f"part + {shape.group}*g"
                )
            if shape.chunk > 1:
                place = f"{shape.chunk}*{place}"
            self._column(place, "g", stack)
            yield first

    def _column(self, place: str, step: str, stack: contextlib.ExitStack) -> None:
        """Write the column at a place among those of the threads, and open what tests for it."""
        if not self.geometry.persistent:
            place = f"base + {place}"
        elif self.lead is not None:
            place = f"{place} - lead"
        if len(self.col_dims) == 1:
            self.writer.line(f"j = {self.type(np.dtype(np.int64))}({place})")
        else:
            self.writer.line(f"j = {self.integer(place)}")
        if not self.exact:
            exists = self.exists("j", step, None if self.short else self.cols)
            stack.enter_context(self.writer.block(f"if {exists}:"))
        self.unflatten("j", self.col_dims)

    @contextlib.contextmanager
    def _lane(self, first: str) -> Iterator[str]:
        """Write the loop over a chunk; yields code of the lane."""
        if self.geometry.chunk == 1:
            yield first or "0"
            return
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.writer.block(f"for k in range({self.geometry.chunk}):"))
            if self.short:
                stack.enter_context(self.writer.block("if j + k < limit:"))
            name = self.dims[self.inner]
            self.dims[self.inner] = f"({name} + k)"
            yield f"{first} + k" if first else "k"
            self.dims[self.inner] = name

    @contextlib.contextmanager
    def _cell(self, stage: Stage) -> Iterator[tuple[str, str]]:
        """Write one loop over all cells of a thread; yields code of the lane and the counter.

        Nested loops, over chunks and in a chunk, are not always unrolled inside a third.
        """
        shape = self.geometry
        if shape.chunk == 1 or shape.steps == 1:
            with self._step() as first, self._lane(first) as lane:
                yield lane, "g" if shape.chunk == 1 else "k"
            return
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.writer.block(f"for q in range({shape.lanes}):"))
            if not self.exact or any(self._uses_position(s) for s in stage.cells):
                shift = shape.chunk.bit_length() - 1
                self.writer.line(f"k = q & {shape.chunk - 1}")
                place = f"{shape.chunk}*(part + {shape.group}*(q >> {shift})) + k"
                self._column(place, f"(q >> {shift})", stack)
            yield "q", "q"

    def _uses_position(self, statement: Statement) -> bool:
        """Whether a statement of a cell's own code says where the cell lies."""
        if isinstance(statement, Load):
            return statement.guard is not None
        if isinstance(statement, Store):
            return not self._is_vector(statement)
        return isinstance(statement, Gather | Index | Guard)

    def _active(self) -> contextlib.AbstractContextManager[None]:
        return self.writer.block("if active:") if self.guard_rows else contextlib.nullcontext()

    def _loads(self, loads: Sequence[Load], first: str) -> None:
        for load in loads:
            self._load(load, first)

    def _load(self, load: Load, first: str) -> None:
        name = f"{load.out.name}_"
        if load.guard is not None:
            with self._lane(first) as lane:
                self.statement(self.guards[load.guard])
                self.statement(load)
                self.writer.line(f"{name}[{lane}] = {load.out.name}")
            return
        if not self._is_vector(load):
            with self._lane(first) as lane:
                self.load(load, f"{name}[{lane}]")
            return
        index, buffer = self.index(load.index), f"b{load.buffer}"
        with self._in_parts(load) as width:
            for part in range(0, self.geometry.chunk, width):
                code = self.call(
                    "load_vector", name, _plus(first, part), buffer, _plus(index, part)
                )
                self.writer.line(code, self.kernel.buffers[load.buffer].name)
        if self.short:
            with self.writer.block("else:"):
                tail = (name, first or 0, self.geometry.chunk, buffer, index, "limit - j")
                self.writer.line(self.call("load_tail", *tail))

    def _stores(self, stores: Sequence[Store], first: str) -> None:
        if stores:
            with self._active():
                for store in stores:
                    self._store(store, first)

    def _store(self, store: Store, first: str) -> None:
        name, index, buffer = f"o{store.buffer}_", self.index(store.index), f"b{store.buffer}"
        with self._in_parts(store) as width:
            for part in range(0, self.geometry.chunk, width):
                code = self.call(
                    "store_vector", buffer, _plus(index, part), name, _plus(first, part)
                )
                self.writer.line(code, self.kernel.buffers[store.buffer].name)
        if self.short:
            with self.writer.block("else:"):
                tail = (buffer, index, name, first or 0, self.geometry.chunk, "limit - j")
                self.writer.line(self.call("store_tail", *tail))

    @contextlib.contextmanager
    def _in_parts(self, access: Load | Store) -> Iterator[int]:
        """Guard vectors against the end of a ragged row; yields the elements of one vector."""
        width = self.vectors(access.buffer, self.geometry.chunk)
        if not self.short:
            yield width
            return
        with self.writer.block(f"if j + {self.geometry.chunk} <= limit:"):
            yield width

    def _cells(
        self, stage: Stage, loads: Sequence[Load], stores: Sequence[Store], lane: str, turn: str
    ) -> None:
        """Write what is computed for a cell."""
        line = self.writer.line
        read = [load.out for load in loads]
        read += [value for value in stage.reuses if value not in read]
        for value in read:
            line(f"{value.name} = {value.name}_[{lane}]")
        for statement in stage.cells:
            if isinstance(statement, Store):
                self._cell_store(statement, stores, lane)
            elif statement not in loads:
                self.statement(statement)
        for value in stage.keeps:
            if value not in read:
                line(f"{value.name}_[{lane}] = {value.name}")
        for reduce in stage.reduces:
            self.accumulate(reduce, turn)

    def _cell_store(self, store: Store, vectors: Sequence[Store], lane: str) -> None:
        if store in vectors:
            self.writer.line(f"o{store.buffer}_[{lane}] = {self.operand(store.value)}")
            return
        # Tiles have a place for each thread's row; what is in those of missing ones goes nowhere.
        with contextlib.nullcontext() if self.shared_place(store) else self._active():
            self.store(store)


def _plus(code: str, number: int) -> str:
    if not code:
        return str(number)
    return f"{code} + {number}" if number else code
