"""The loop schedules: kernels with loops and branches, which run as they stand inside a thread.

Without reductions a thread takes one point from its first to its last step, and what it carries
lies in registers. Where rows are reduced a group of threads takes a row, each of them the same few
columns in every step; what threads carry lies in arrays that are registers once loops over the
columns of a thread are unrolled.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

from minijit.lowering.cuda_geometry import WARP, Geometry, power_of_two
from minijit.lowering.cuda_launch import SECTOR_BYTES, CudaLaunch, unrolled_lanes
from minijit.lowering.cuda_lead import find_lead
from minijit.lowering.cuda_product import ProductWriter, has_products, rows_part
from minijit.lowering.cuda_steps import StepEmitter, StepTile, tile_steps
from minijit.lowering.cuda_streams import Stream, find_streams
from minijit.lowering.kernel_ir import (
    Kernel,
    Loop,
    Map,
    Product,
    Reduce,
    Statement,
    Store,
    Value,
    walk,
)
from minijit.lowering.places import places_of
from minijit.lowering.source import KernelSource
from minijit.lowering.stages import accesses, reads_along_rows
from minijit.lowering.structure import Lanes, Same, Steps, Structure
from minijit.lowering.structure_writer import StructureWriter

__all__ = ["emit_loop"]

_THREADS = 128
_MOST_THREADS = 512
_MOST_LANES = 16
_LANES = 4
_FEW_BLOCKS = 132
_UNROLLED_STEPS = 16


def emit_loop(kernel: Kernel, *, vectorize: bool, work: int | None) -> KernelSource:
    """Write a kernel that has loops or branches; with columns only if it reduces them.

    Args:
        kernel: The kernel.
        vectorize: Use 128-bit accesses.
        work: Most columns that a thread holds; None leaves the choice to the schedule.

    Raises:
        ValueError: it reduces columns, and a predicate differs from one to the other.
    """
    columns = range(len(kernel.rows), len(kernel.extents))
    structure = Structure(kernel, columns)
    if not structure.uniform:
        raise ValueError(f"kernel {kernel.name} takes branches that differ within a row")
    streams = find_streams(kernel)
    geometry = Geometry(False, WARP, 1, 1, 1, True) if streams else _geometry(kernel, work)
    tiles: tuple[StepTile, ...] = ()
    if not streams and not has_products(kernel):
        geometry, tiles = tile_steps(kernel, geometry)
        lead = None if tiles or geometry.by_column else find_lead(kernel)
        if lead is not None:
            geometry = geometry.led(math.prod(kernel.cols), lead)
    writer = _Writer(kernel, geometry, structure, streams, tiles, vectorize=vectorize)
    writer.write()
    rows = math.prod(kernel.rows)
    grid = max(-(-rows // geometry.taken), 1)
    aligned = tuple(sorted(writer.aligned))
    launch = CudaLaunch(grid, geometry.threads, 0, aligned, vectorize, geometry.steps)
    note = f"loop: {grid} blocks of {geometry.threads} threads, a point each"
    if streams:
        note += f", {len(streams)} sequences through shared memory"
    if kernel.cols:
        note = f"loop over {geometry}; {grid} blocks"
    if tiles:
        note += f", {len(tiles)} arrays several steps at a time through shared memory"
    return KernelSource(kernel, writer.writer.text, writer.names, note, launch)


def _geometry(kernel: Kernel, work: int | None) -> Geometry:
    """Return how threads share rows; without columns each thread has a row of its own."""
    cols = math.prod(kernel.cols)
    maps = (node for node in walk(kernel.body) if isinstance(node, Map))
    most = min(_MOST_LANES, work or _MOST_LANES, unrolled_lanes(maps))
    products = has_products(kernel)
    # What a thread reads of a matrix it reads for one column: more threads share that work.
    lanes = 1 if products else min(_LANES, most)
    group = min(power_of_two(-(-cols // lanes)), _MOST_THREADS)
    sector = SECTOR_BYTES // _narrowest(kernel)
    # Products are written for threads of a row that lie side by side.
    if reads_along_rows(kernel) and not products:
        width = _width(kernel, sector, most)
        if width * cols <= _MOST_THREADS * most:
            group = min(group, _MOST_THREADS // width)
            threads = max(width * group, _THREADS)
            return Geometry(True, threads, group, 1, -(-cols // group), persistent=True)
    # Fewer threads than a sector has elements would fetch it again for each of their columns.
    group = max(group, min(sector, power_of_two(cols)))
    lanes = -(-cols // group)
    threads = group if products and rows_part(kernel) else max(group, _THREADS)
    return Geometry(False, threads, group, 1, lanes, persistent=True)


def _width(kernel: Kernel, sector: int, most: int) -> int:
    """Return how many rows that lie side by side a block takes, at least a sector of them."""
    rows, cols = math.prod(kernel.rows), math.prod(kernel.cols)
    width = min(WARP, power_of_two(rows))
    # Wide blocks share fewer sectors; where rows fill sectors there are none to share.
    whole = kernel.rows[-1] % sector == 0
    while width > sector and (
        (whole and rows < width * _FEW_BLOCKS) or width * cols > _MOST_THREADS * most
    ):
        width //= 2
    return width


def _narrowest(kernel: Kernel) -> int:
    """Return the bytes of the smallest elements that lie along the columns."""
    sizes = (kernel.buffers[node.buffer].dtype.itemsize for node in accesses(kernel))
    return min(sizes, default=SECTOR_BYTES)


class _Writer(StepEmitter, StructureWriter):
    """Writes one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        geometry: Geometry,
        structure: Structure,
        streams: Sequence[Stream],
        tiles: Sequence[StepTile],
        *,
        vectorize: bool,
    ) -> None:
        super().__init__(kernel, geometry, streams, tiles, vectorize=vectorize)
        self.together = bool(kernel.cols or streams or tiles)
        self.structure, self.emitter = structure, self
        self.places = places_of(structure, ())
        self.products = ProductWriter(self, geometry)

    def write(self) -> None:
        """Write the whole function."""
        with self.whole_function(), contextlib.ExitStack() as stack:
            self._place(stack)
            for value in dict.fromkeys(self.places.values()):
                self.local(f"{value.name}_", self.geometry.steps, value.dtype)
            self.products.start()
            self.items(self.structure.items)

    def _place(self, stack: contextlib.ExitStack) -> None:
        """Write where the thread works; a thread without a point has nothing to do."""
        if self.together:
            self.place()
            self.rings()
            return
        line, threads = self.writer.line, self.geometry.threads
        line(f"thread = {self.call('thread_index')}")
        first = f"{self.call('block_index')}*{threads}"
        line(f"row = {self.integer(f'{first} + thread')}")
        if self.guard_rows:
            stack.enter_context(self.writer.block(f"if row < {self.rows}:"))
        if self.kernel.rows:
            self.unflatten("row", range(len(self.kernel.rows)))

    def store_once(self, store: Store) -> None:
        """Write a store by one of the threads that know the value."""
        tests = ["part == 0"] if self.kernel.cols else []
        if self.guard_rows and self.together:
            tests.append("active")
        tests += self._first_rows(store)
        with self._under(tests):
            self.store(store)

    def _first_rows(self, store: Store) -> list[str]:
        """Return what holds for one of the rows that would all store the same."""
        rows = enumerate(self.kernel.rows)
        absent = [dim for dim, extent in rows if extent > 1 and dim not in store.index.dims]
        return [f"{self.dims[dim]} == 0" for dim in absent]

    @contextlib.contextmanager
    def _under(self, tests: Sequence[str]) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if tests:
                stack.enter_context(self.writer.block(f"if {' and '.join(tests)}:"))
            yield

    # Values that differ from column to column.

    def lanes(self, item: Lanes) -> None:
        """Write one loop over the columns of a thread, then the exchange of what it reduced."""
        line, shape = self.writer.line, self.geometry
        reduces = [s for s in item.statements if isinstance(s, Reduce)]
        self.start_all(reduces)
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.writer.block(f"for k in range({shape.steps}):"))
            early = "" if shape.lead is None else " - lead"
            line(f"j = {self.integer(f'part + {shape.group}*k{early}')}")
            if shape.span != self.cols or early:
                exists = self.exists("j", "k", self.cols)
                stack.enter_context(self.writer.block(f"if {exists}:"))
            self.unflatten("j", range(len(self.kernel.rows), len(self.kernel.extents)))
            for value in item.read:
                if value in self.structure.varying:
                    line(f"{value.name} = {self._lane(value)}")
            for statement in item.statements:
                self._cell(statement)
            for target, source in item.writes:
                line(f"{self._lane(target)} = {self.operand(source)}")
            for reduce in reduces:
                self.accumulate(reduce, "k")
        for reduce in reduces:
            self.finish(reduce)

    def _cell(self, statement: Statement | Same) -> None:
        """Write a statement at one column; reductions come after it."""
        match statement:
            case Reduce():
                return
            case Store():
                tests = ["active"] if self.guard_rows else []
                with self._under(tests + self._first_rows(statement)):
                    self.store(statement)
                return
            case Same():
                self.same(statement)
            case _:
                self.statement(statement)
        if statement.out in self.places:
            self.writer.line(f"{self._lane(statement.out)} = {statement.out.name}")

    def _lane(self, value: Value) -> str:
        return f"{self.places[value].name}_[k]"

    def product(self, item: Product) -> None:
        """Write a product of a row with a matrix."""
        row = item.row
        self.products.write(item, self._lane(row) if isinstance(row, Value) else None)
        with self.writer.block(f"for k in range({self.geometry.steps}):"):
            self.writer.line(f"{self._lane(item.out)} = sums_{item.out.name}[k]")

    # Loops and branches.

    def head(self, node: Loop) -> str:
        """Write the counter, if there is one, and return the head of a loop over steps."""
        if node.length is None:
            return "while True:"
        counter = self.dims[node.dim]
        self.writer.line(f"{counter} = {self.call('narrow', 0)}")
        return f"while {counter} < {node.length}:"

    def begin_step(self, item: Steps) -> None:
        """Write how rings are filled."""
        self.fill(item.node)

    def end_step(self, node: Loop) -> None:
        """Write the barrier between exchanges and the next count."""
        line, counter = self.writer.line, self.dims[node.dim]
        self.empty(node)
        if self._meets_again(node):
            line(f"{self.helper('cuda')}.syncthreads()")
        if node.length is not None:
            short = node.length <= _UNROLLED_STEPS
            following = "narrow" if short else "advance"
            step = (f"{counter} + 1",) if short else (counter, 1)
            line(f"{counter} = {self.call(following, *step)}")

    def _meets_again(self, node: Loop) -> bool:
        """Whether a barrier must keep a step's exchange apart from that of the next step.

        An exchange writes shared memory, waits and reads. The wait of another one in between is
        enough.
        """
        if not self.meets:
            return False
        certain = sum(isinstance(inner, Reduce) for inner in node.body.body)
        some = any(isinstance(inner, Reduce) for inner in walk((node,)))
        return some and certain < 2
