"""CPU schedule of kernels with loops and branches: vectors over adjacent points inside the loops.

A unit is some adjacent rows, the lanes. Where rows are reduced it is some rows, one after the
other, and the lanes are the columns. Between two statements that hold others all lanes run in one
loop, which LLVM turns into vectors; what passes from one such loop to the next lies in arrays of
one element a lane, small enough for the L1 cache, or, where steps stream nothing, few enough for
registers. What lanes share is computed once, outside.
Points that leave a loop at different steps take steps until the last of them is done; those that
take different branches are computed one by one.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator

from minijit.lowering.cpu_emitter import FEW, UNIT_NS, CpuEmitter, cell_cost, unit_strides
from minijit.lowering.cpu_lanes import LaneWriter
from minijit.lowering.cpu_tile import Tile
from minijit.lowering.keep import kept_together
from minijit.lowering.kernel_ir import (
    Branch,
    Kernel,
    Load,
    Loop,
    Node,
    Product,
    Store,
    blocks,
    walk,
)
from minijit.lowering.source import KernelSource, held_dtype
from minijit.lowering.structure import Structure

__all__ = ["emit_loop"]

_FULL_VECTOR = 8
"""Fewer adjacent rows than this fill no vector: then the longest dimension is as good."""
_ONE_VECTOR = (2, 4, 8, 16)
"""As many lanes become one vector, which stays in a register from step to step."""
_SHORT = 256
"""Loops over at most as many lanes gain from being unrolled."""
_LANES = (64, 1024)
"""Least and most lanes of a loop: whole cache lines, runs that memory delivers fast."""
_STILL_BYTES = 256
"""Bytes of the lanes of one value where steps stream nothing: vectors enough to hide how long an
operation takes, and few enough to stay in registers from step to step."""
_WAITING_BYTES = 128
"""The same where points leave a loop at different steps: fewer of them wait for the last."""
_LANE_BYTES = 16 << 10
"""Arrays of all lanes together: a part of the L1 cache, beside what streams through it."""
_LEAST_ROWS = 4
"""Rows that share what is read of a matrix: as many as a block of registers has."""
_UNITS = 16
"""Units wanted, so that several threads have work."""
_WHILE_STEPS = 32
"""Steps to expect of a loop without a count."""
_SCALAR = 8
"""How much longer a point takes by itself than in a vector."""


def emit_loop(kernel: Kernel) -> KernelSource:
    """Write a kernel that has loops or branches; with columns only if it reduces them.

    Raises:
        ValueError: it reduces columns, and a predicate differs from one to the other.
    """
    if kernel.cols:
        columns = range(len(kernel.rows), len(kernel.extents))
        if any(isinstance(node, Product) for node in walk(kernel.body)):
            # A matrix that is read for several rows at once is read less often.
            together = Structure(kernel, (*_longest(kernel), *columns))
            if len(together.lanes) > len(columns) and together.uniform:
                return _RowBlocks(kernel, together).write()
        structure = Structure(kernel, columns)
        if not structure.uniform:
            raise ValueError(f"kernel {kernel.name} takes branches that differ within a row")
        return _Rows(kernel, structure).write()
    structure = Structure(kernel, _lanes(kernel))
    if not structure.uniform:
        joined = kept_together(kernel, structure.varying)
        lanes = () if joined is None else structure.lanes
        kernel = joined or kernel
        structure = Structure(kernel, lanes)
    writer = _Points if structure.lanes else _Rows
    return writer(kernel, structure).write()


def _lanes(kernel: Kernel) -> tuple[int, ...]:
    """Return the row dimension that vectors should run along; none if there is but one point."""
    score = unit_strides(kernel)

    def worth(dim: int) -> tuple[bool, float, int]:
        extent = kernel.rows[dim]
        full = extent >= _FULL_VECTOR
        return full, score[dim] if full else extent, dim

    long = [dim for dim, extent in enumerate(kernel.rows) if extent > 1]
    return (max(long, key=worth),) if long else ()


def _longest(kernel: Kernel) -> tuple[int, ...]:
    """Return the longest row dimension; none if there is but one row."""
    long = [dim for dim, extent in enumerate(kernel.rows) if extent > 1]
    return (max(long, key=lambda dim: (kernel.rows[dim], dim)),) if long else ()


def _cost(body: Iterable[Node]) -> float:
    """Return the estimated nanoseconds of one point, with the dearest block of each branch."""
    cost = 0.0
    for node in body:
        match node:
            case Loop():
                steps = _WHILE_STEPS if node.length is None else node.length
                cost += steps * sum(_cost(block.body) for block in blocks(node))
            case Branch():
                cost += max(_cost(block.body) for block in node.blocks)
            case _:
                cost += cell_cost((node,))
    return cost


class _Points:
    """A kernel whose lanes are adjacent rows."""

    def __init__(self, kernel: Kernel, structure: Structure) -> None:
        self.kernel = kernel
        self.lanes = LaneWriter(kernel, structure)
        (self.lane,) = structure.lanes
        self.cost = _cost(kernel.body) + 0.01
        least, most = _LANES
        still = _is_still(kernel, self.lane)
        if still:
            sizes = (held_dtype(value.dtype).itemsize for value in self.lanes.kept)
            waiting = any(isinstance(n, Loop) and n.together for n in walk(kernel.body))
            room = _WAITING_BYTES if waiting else _STILL_BYTES
            least = most = room // max(sizes, default=1)
        elif self.lanes.kept:
            fitting = _LANE_BYTES // self.lanes.lane_bytes // least * least
            most = min(most, max(fitting, least))
        else:
            most = max(most, int(UNIT_NS / self.cost) // least * least)
        wanted = -(-math.prod(kernel.rows) // _UNITS // least) * least
        self.width = min(kernel.rows[self.lane], max(least, min(wanted, most)))
        self.full = still

    def write(self) -> KernelSource:
        """Return the finished source."""
        emitter, tile = self.lanes.emitter, self._tile()
        if self._is_one_loop(tile):
            # As in a map: LLVM keeps constants in registers best where no loop is around.
            self.width = tile.blocks[-1]
            emitter.serve_sizes(tile)
        with _adjacent(emitter, tile, self.width, full=self.full):
            self.lanes.write(self.width)
        prose = (
            f"loop: {tile.units} units, vectors along {self.width} adjacent rows of i{self.lane}, "
            f"{len(self.lanes.kept)} values in arrays"
        )
        few = self.width <= _SHORT and self.width not in _ONE_VECTOR
        unroll = few and not emitter.sizes
        work = math.prod(self.kernel.rows) * self.cost
        return emitter.finish(tile.units, work, prose, 1 if unroll else _SHORT)

    def _is_one_loop(self, tile: Tile) -> bool:
        """Whether lanes pass through branches alone, and nothing of them is kept on the way."""
        loops = any(isinstance(node, Loop) for node in walk(self.kernel.body))
        return len(tile.order) == 1 and tile.extents[0] > FEW and not loops and not self.lanes.kept

    def _tile(self) -> Tile:
        rows = self.kernel.rows
        order = [dim for dim in range(len(rows)) if dim != self.lane]
        extent = rows[self.lane]
        wanted = max(int(UNIT_NS / (self.cost * self.width)), 1)
        most = max(-(-math.prod(rows) // _UNITS) // self.width, 1)
        block = min(self.width * min(wanted, most), extent)
        outer = Tile.filled(order, rows, wanted * self.width // extent)
        extents = (*outer.extents, extent)
        return Tile((*order, self.lane), extents, (*outer.blocks, block))


def _is_still(kernel: Kernel, lane: int) -> bool:
    """Whether there are loops, and their steps stream nothing from or to memory for each lane."""
    steps = {node.dim for node in walk(kernel.body) if isinstance(node, Loop)}
    return bool(steps) and not any(
        lane in node.index.dims and steps.intersection(node.index.dims)
        for node in walk(kernel.body)
        if isinstance(node, Load | Store)
    )


@contextlib.contextmanager
def _adjacent(emitter: CpuEmitter, tile: Tile, width: int, *, full: bool = False) -> Iterator[None]:
    """Open the loops over units, up to those of at most ``width`` rows, ``low`` to ``high``.

    If they are to be ``full``, there are always ``width``, a number that LLVM knows: the last rows
    are computed once more with those before them.
    """
    extent = tile.extents[-1]
    with emitter.units(tile, merge=False) as span, contextlib.ExitStack() as stack:
        first, _, last = span.partition(", ")
        first, last = (first, last) if last else ("0", first)
        if tile.blocks[-1] > width:
            emitter.writer.line(f"last = {last}")
            head = f"for low in range({first}, last, {width}):"
            stack.enter_context(emitter.writer.block(head))
            first, last = "low", f"min(low + {width}, last)"
        if full:
            inside = first if extent % width == 0 else f"min({first}, {extent - width})"
            emitter.writer.line(f"low = {inside}")
            emitter.writer.line(f"high = low + {width}")
        elif first == "low":
            emitter.writer.line(f"high = {last}")
        else:
            emitter.writer.line(f"low, high = {first}, {last}")
        yield


class _RowBlocks:
    """A kernel with products: some adjacent rows take each step together."""

    def __init__(self, kernel: Kernel, structure: Structure) -> None:
        self.kernel = kernel
        self.lanes = LaneWriter(kernel, structure)
        self.cells = math.prod(kernel.cols)
        rows = math.prod(kernel.rows)
        fitting = _LANE_BYTES // (self.cells * max(self.lanes.lane_bytes, 1))
        wanted = max(min(-(-rows // _UNITS), fitting), _LEAST_ROWS)
        self.width = min(-(-wanted // _LEAST_ROWS) * _LEAST_ROWS, kernel.rows[self.lanes.row or 0])

    def write(self) -> KernelSource:
        """Return the finished source."""
        emitter, rows, lane = self.lanes.emitter, self.kernel.rows, self.lanes.row or 0
        order = (*(dim for dim in range(len(rows)) if dim != lane), lane)
        extents = tuple(rows[dim] for dim in order)
        tile = Tile(order, extents, (*(1 for _ in order[1:]), self.width))
        self.lanes.pack()
        with _adjacent(emitter, tile, self.width):
            self.lanes.write(self.cells, self.width)
        prose = (
            f"loop: {tile.units} units of {self.width} adjacent rows of i{lane} in step, vectors "
            f"along {self.cells} columns, {len(self.lanes.kept)} values in arrays"
        )
        work = math.prod(rows) * self.cells * _cost(self.kernel.body)
        return emitter.finish(tile.units, work, prose, _SHORT)


class _Rows:
    """A kernel whose rows are computed one by one, with lanes along the columns if there are."""

    def __init__(self, kernel: Kernel, structure: Structure) -> None:
        self.kernel = kernel
        self.lanes = LaneWriter(kernel, structure)
        self.cells = math.prod(kernel.cols)
        speed = 1 if kernel.cols else _SCALAR
        self.cost = (_cost(kernel.body) + 0.01) * self.cells * speed

    def write(self) -> KernelSource:
        """Return the finished source."""
        emitter, rows = self.lanes.emitter, self.kernel.rows
        tile = Tile.filled(range(len(rows)), rows, max(int(UNIT_NS / self.cost), 1))
        self.lanes.pack()
        with emitter.units(tile, merge=False) as span, contextlib.ExitStack() as stack:
            if tile.order:
                head = f"for i{tile.order[-1]} in range({span}):"
                stack.enter_context(emitter.writer.block(head))
            self.lanes.write(self.cells)
        prose = f"loop: {tile.units} units of rows one by one"
        if self.kernel.cols:
            kept = len(self.lanes.kept)
            prose += f", vectors along {self.cells} columns, {kept} values in arrays"
        unroll = not self.kernel.cols or self.cells < _FULL_VECTOR
        work = math.prod(rows) * self.cost
        return emitter.finish(tile.units, work, prose, 1 if unroll else _SHORT)
