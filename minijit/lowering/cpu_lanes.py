"""Writes the items of a structured kernel: loops over lanes, and what stands around them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from minijit.graph.index import Affine
from minijit.lowering.cpu_emitter import CpuEmitter, unit_strides
from minijit.lowering.cpu_product import ProductWriter
from minijit.lowering.cpu_reduce import accumulations_of
from minijit.lowering.kernel_ir import (
    Kernel,
    Load,
    Loop,
    Operand,
    Product,
    Reduce,
    Statement,
    Store,
    Value,
    walk,
)
from minijit.lowering.places import places_of
from minijit.lowering.source import held_dtype
from minijit.lowering.structure import Lanes, Same, Steps, Structure, reads
from minijit.lowering.structure_writer import StructureWriter

__all__ = ["LaneWriter"]

_SEGMENT = 2048
"""Columns of a segment of a float sum: some dozens for each lane of its vectors."""
_RUN_BYTES = 1 << 10
"""Shorter runs of adjacent elements are not worth prefetching."""


class LaneWriter(StructureWriter):
    """Writes the items of a structure.

    Attributes:
        emitter: Collects the code.
        inner: The dimension of the innermost loop over lanes, None without lanes.
        columns: The dimensions of the columns among the lanes.
        row: The dimension of the rows among the lanes, if columns are lanes too.
        kept: The values that name an array of one element a lane.
    """

    emitter: CpuEmitter

    def __init__(self, kernel: Kernel, structure: Structure) -> None:
        """Decide which values lie in arrays."""
        self.kernel, self.structure = kernel, structure
        self.emitter = CpuEmitter(kernel)
        score = unit_strides(kernel)
        self.columns = [dim for dim in sorted(structure.lanes) if dim >= len(kernel.rows)]
        along = self.columns or structure.lanes
        self.inner = max(along, key=lambda dim: (score[dim], dim), default=None)
        rows = structure.lanes.difference(self.columns) if self.columns else ()
        self.row = next(iter(rows), None)
        self._cells = structure.varying
        if self.row is not None:
            self._cells = Structure(kernel, self.columns).varying
        self.products = ProductWriter(self.emitter)
        self._again = self._loads()
        self._places = places_of(structure, self._again)
        self.kept = tuple(dict.fromkeys(self._places.values()))
        self._width = 0

    @property
    def lane_bytes(self) -> int:
        """Bytes of all arrays together for one lane."""
        return sum(held_dtype(value.dtype).itemsize for value in self.kept)

    def pack(self) -> None:
        """Write what is done once for all units: matrices are laid out as products read them."""
        self.products.pack()

    def write(self, width: int, rows: int = 1) -> None:
        """Write everything for ``width`` lanes: rows from ``low`` to ``high``, or all columns.

        With ``rows`` there are all columns of so many rows, from ``low`` to ``high``.
        """
        self._width, self.products.rows = width, rows
        for value in self.kept:
            cells = width if value in self._cells or self.row is None else 1
            length = cells * rows + self.products.room(value)
            self.emitter.array(f"lanes_{value.name}", held_dtype(value.dtype), length)
        self.items(self.structure.items)

    def _loads(self) -> dict[Value, Load]:
        """Return the loads that are as cheap again as from an array of the lanes."""
        return {
            node.out: node
            for node in walk(self.kernel.body)
            if isinstance(node, Load)
            and node.guard is None
            and node.out in self.structure.varying
            and self.inner is not None
            and abs(node.index.stride(self.inner)) == 1
        }

    def _moves(self, target: Value, source: Operand) -> bool:
        """Whether a write is one: the source may lie in the target's place already."""
        own = self._places.get(source) if isinstance(source, Value) else None
        return own is None or own is not self._places[target]

    def _foreign(self, item: Lanes) -> list[Value]:
        """Return what differs from lane to lane and is computed in another loop."""
        return [value for value in item.read if value in self.structure.varying]

    def store_once(self, store: Store) -> None:
        """Write a store of what is the same for all lanes."""
        self._store(store, "low")

    def _store(self, store: Store, lane: str) -> None:
        """Write a store, once for all the points that would store the same."""
        absent = [d for d, n in enumerate(self.kernel.rows) if n > 1 and d not in store.index.dims]
        names = [lane if dim == self.inner else f"i{dim}" for dim in absent]
        with contextlib.ExitStack() as stack:
            if names:
                test = " & ".join(f"({name} == 0)" for name in names)
                stack.enter_context(self.emitter.writer.block(f"if {test}:"))
            self.emitter.statement(store)

    def lanes(self, item: Lanes) -> None:
        """Write one loop over the lanes."""
        emitter = self.emitter
        writes = [pair for pair in item.writes if self._moves(*pair)]
        needed, statements = self._live(item, [source for _, source in writes])
        if not statements and not writes:
            return
        foreign = [value for value in self._foreign(item) if value in needed]
        if self.row is None:
            with self._each_lane([s for s in statements if isinstance(s, Reduce)]):
                self._lane(foreign, statements, writes)
            return
        with emitter.writer.block(f"for i{self.row} in range(low, high):"):
            cells = [s for s in statements if self._is_cell(s)]
            own = [pair for pair in writes if pair[0] in self._cells]
            self._lane(
                [value for value in foreign if value not in self._cells],
                [s for s in statements if s not in cells],
                [pair for pair in writes if pair not in own],
            )
            if cells or own:
                reduces = [s for s in cells if isinstance(s, Reduce)]
                with self._each_lane(reduces):
                    self._lane([value for value in foreign if value in self._cells], cells, own)
                for reduce in reduces:
                    self._keep(reduce.out)

    def _is_cell(self, statement: Statement | Same) -> bool:
        """Whether a statement belongs to the cells of a row, not to the row."""
        if isinstance(statement, Store):
            along = bool(set(self.columns).intersection(statement.index.dims))
            return along or statement.value in self._cells
        return isinstance(statement, Reduce) or statement.out in self._cells

    def _lane(
        self,
        foreign: Iterable[Value],
        statements: Iterable[Statement | Same],
        writes: Iterable[tuple[Value, Operand]],
    ) -> None:
        """Write what one lane reads, computes and leaves; reductions come after all lanes."""
        emitter = self.emitter
        statements, writes = list(statements), list(writes)
        results = [s.out for s in statements if not isinstance(s, Store)]
        written = {self._places.get(value) for value in (*results, *(to for to, _ in writes))}
        for value in foreign:
            if value in self._again:
                emitter.statement(self._again[value])
            else:
                place = self._place(value)
                # What may be put back where it was must not become a store under a mask.
                again = self._places[value] in written
                emitter.read(value, f"{emitter.helper('freeze')}({place})" if again else place)
        for statement in statements:
            match statement:
                case Store():
                    self._store(statement, f"i{self.inner}")
                    continue
                case Reduce():
                    continue
                case Same():
                    self.same(statement)
                case _:
                    emitter.statement(statement)
            self._keep(statement.out)
        for target, source in writes:
            emitter.write(source, self._place(target))

    def _keep(self, value: Value) -> None:
        """Write a value to its array, if it lies in one."""
        if value in self._places:
            self.emitter.write(value, self._place(value))

    def product(self, item: Product) -> None:
        """Write a product of the rows of all lanes."""
        rows = "1" if self.row is None else "high - low"
        row = item.row
        source = f"lanes_{self._places[row].name}" if isinstance(row, Value) else None
        self.products.write(item, f"lanes_{self._places[item.out].name}", source, rows, self.row)

    def _live(
        self, item: Lanes, results: Iterable[Operand]
    ) -> tuple[set[Operand], list[Statement | Same]]:
        """Return what is read in a loop over the lanes, and those of its statements that matter.

        What is loaded anew where it is read may not be needed where it was loaded first.
        """
        needed = set(results)
        live: list[Statement | Same] = []
        for statement in reversed(item.statements):
            if (
                isinstance(statement, Store | Reduce)
                or statement.out in needed
                or statement.out in self._places
            ):
                live.append(statement)
                needed.update(reads(statement))
        return needed, live[::-1]

    @contextlib.contextmanager
    def _each_lane(self, reduces: Sequence[Reduce]) -> Iterator[None]:
        """Open the loop over the lanes; what is reduced is accumulated where it is closed."""
        writer = self.emitter.writer
        if not self.columns:
            with writer.block(f"for i{self.inner} in range(low, high):"):
                yield
            return
        sums = accumulations_of(reduces, self._width, _SEGMENT)
        for each in sums:
            each.start(self.emitter, _own_name)
        with contextlib.ExitStack() as outer:
            for dim in self.columns:
                if dim != self.inner:
                    head = f"for i{dim} in range({self.kernel.extents[dim]}):"
                    outer.enter_context(writer.block(head))
            extent = self.kernel.extents[self.inner or 0]
            span = str(extent)
            segmented = [each for each in sums if each.segmented]
            if segmented and extent > _SEGMENT:
                head = f"for segment in range({-(-extent // _SEGMENT)}):"
                outer.enter_context(writer.block(head))
                span = f"{_SEGMENT}*segment, min({_SEGMENT}*segment + {_SEGMENT}, {extent})"
            with writer.block(f"for i{self.inner} in range({span}):"):
                yield
                for each in sums:
                    each.add(self.emitter, _own_name)
            for each in segmented:
                each.flush(self.emitter, _own_name)
        for each in sums:
            each.finish(self.emitter, _own_name)

    def _place(self, value: Value) -> str:
        name = f"lanes_{self._places[value].name}"
        if not self.columns:
            return f"{name}[i{self.inner} - low]"
        if value not in self._cells:
            return f"{name}[i{self.row} - low]"
        position = Affine()
        stride = 1
        for dim in reversed(self.columns):
            position = position.plus(Affine(0, ((dim, stride),)))
            stride *= self.kernel.extents[dim]
        code = self.emitter.index(position)
        return (
            f"{name}[{code}]"
            if self.row is None
            else f"{name}[(i{self.row} - low)*{stride} + {code}]"
        )

    def head(self, node: Loop) -> str:
        """Return the head of a loop over steps."""
        return "while True:" if node.length is None else f"for i{node.dim} in range({node.length}):"

    def any_lane(self, holds: Operand) -> str:
        """Write a loop that finds out whether a bool holds for a lane; return the answer."""
        assert isinstance(holds, Value)
        writer, byte = self.emitter.writer, self.emitter.type(np.dtype(np.uint8))
        name = f"any_{holds.name}"
        writer.line(f"{name} = {byte}(0)")
        with writer.block(f"for i{self.inner} in range(low, high):"):
            writer.line(f"{name} = {byte}({name} | {self._place(holds)})")
        return f"({name} != 0)"

    def begin_step(self, item: Steps) -> None:
        """Write prefetches of what the next step streams, where it is not next to this one's."""
        emitter = self.emitter
        for lanes in item.body:
            for access in lanes.statements if isinstance(lanes, Lanes) else ():
                if not isinstance(access, Load | Store) or self.inner is None or self.columns:
                    continue
                jump = access.index.stride(item.node.dim)
                size = self.kernel.buffers[access.buffer].dtype.itemsize
                if (
                    abs(access.index.stride(self.inner)) == 1
                    and abs(jump) >= self._width >= _RUN_BYTES // size
                    and emitter.is_far(access)
                ):
                    emitter.prefetch(access, jump, self.inner)


def _own_name(name: str) -> str:
    return name
