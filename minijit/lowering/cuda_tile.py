"""The tile schedule: maps that read or write some array across the order of the others.

Such accesses go through tiles in shared memory, in which rows and columns change places: a warp
reads neighbours of the operand, and neighbours of the results a step later. Where one dimension is
short, as that of the colours of a picture, tiles are as wide as it is, and longer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.graph.index import Affine
from minijit.lowering.cuda_geometry import WARP
from minijit.lowering.cuda_launch import SHARED_BYTES
from minijit.lowering.cuda_map import MapEmitter, MapShape, finished
from minijit.lowering.kernel_ir import Kernel, Level, Load, Statement, Store
from minijit.lowering.source import KernelSource, held_dtype
from minijit.lowering.stages import operands

__all__ = ["TILE_WORK", "crossing_dim", "emit_tile"]

TILE_WORK = 4
_EDGE = 32
_ELEMENTS = 1024  # of a tile, unless a short edge fills no warps with as many
_BANKS_BYTES = 128
_SMALLEST = 16


def crossing_dim(kernel: Kernel) -> int | None:
    """Return the dimension along which most bytes are read across the last one, or None."""
    inner = len(kernel.rows) - 1
    votes: dict[int, int] = {}
    for access in kernel.statements:
        if not isinstance(access, Load | Store):
            continue
        for dim, _ in access.index.terms:
            long = max(kernel.rows[dim], kernel.rows[inner]) >= _SMALLEST
            if long and _crosses(access.index, inner, dim):
                size = kernel.buffers[access.buffer].dtype.itemsize
                votes[dim] = votes.get(dim, 0) + size
    return max(votes, key=lambda dim: votes[dim], default=None)


def _crosses(index: Affine, inner: int, across: int) -> bool:
    """Whether neighbours along ``across`` lie side by side, and those along ``inner`` do not."""
    return abs(index.stride(inner)) > 1 and abs(index.stride(across)) == 1


def emit_tile(kernel: Kernel, across: int, *, vectorize: bool) -> KernelSource:
    """Write a map kernel in square tiles of the last dimension and of dimension ``across``."""
    emitter = _TileEmitter(kernel, across)
    return finished(emitter, math.prod(emitter.counts) * emitter.rest, vectorize)


def _edges(inner: int, across: int) -> tuple[int, int]:
    """Return the extents of a tile: square, or as wide as the shorter dimension and longer.

    Its elements are a whole number of warps, each of whose threads takes ``TILE_WORK``.
    """
    short = min(inner, across)
    if short > _SMALLEST:
        return _EDGE, _EDGE
    step = WARP * TILE_WORK // math.gcd(short, WARP * TILE_WORK)
    long = step * max(_ELEMENTS // (step * short), 1)
    return (short, long) if inner == short else (long, short)


@dataclasses.dataclass(frozen=True, slots=True)
class _Tile:
    """A tile in shared memory.

    Every ``period`` rows some bytes are left out, so that the elements of a column lie in different
    banks: without them, rows begin in the same bank again that many rows later.
    """

    name: str
    dtype: np.dtype[Any]
    rows: int
    width: int

    @property
    def period(self) -> int:
        """Rows after which a bank is left out."""
        banks = _BANKS_BYTES // self.dtype.itemsize
        return banks // math.gcd(self.width, banks)

    @property
    def gap(self) -> int:
        """Elements that are left out: those of a bank."""
        return max(4 // self.dtype.itemsize, 1)

    @property
    def size(self) -> int:
        """Elements, with those that are left out."""
        return self.rows * self.width + self.gap * (self.rows // self.period)


class _TileEmitter(MapEmitter):
    """Writes one kernel; ``counts`` are the tiles along the last dimension and along ``across``.

    ``turned`` are the accesses that go through tiles, with the tile of each.
    """

    schedule = "tile"
    first = "block == 0 and thread == 0"

    def __init__(self, kernel: Kernel, across: int) -> None:
        extents = (kernel.rows[-1], kernel.rows[across])
        self.edges = _edges(*extents)
        shape = MapShape(chunk=1, groups=TILE_WORK, threads=math.prod(self.edges) // TILE_WORK)
        super().__init__(kernel, shape, math.prod(kernel.rows))
        self.across = across
        self.extents = extents
        self.counts = tuple(-(-n // edge) for n, edge in zip(extents, self.edges, strict=True))
        self.others = [d for d in range(len(kernel.rows)) if d not in (self.inner, across)]
        self.rest = math.prod(kernel.rows[d] for d in self.others)
        self.tail = any(n % edge for n, edge in zip(extents, self.edges, strict=True))
        self.mirrored = self._reads_mirror()
        self.turned: dict[Load | Store, _Tile] = {}
        self.guards: dict[Load, list[Statement]] = {}
        left = SHARED_BYTES
        for access in kernel.statements:
            if isinstance(access, Load | Store) and _crosses(access.index, self.inner, across):
                dtype = held_dtype(kernel.buffers[access.buffer].dtype)
                name = f"tile{len(self.turned)}"
                tile = _Tile(name, dtype, max(self.edges), min(self.edges))
                if tile.size * dtype.itemsize <= left and self._can_turn(access):
                    self.turned[access] = tile
                    left -= tile.size * dtype.itemsize

    def _reads_mirror(self) -> bool:
        """Whether something is read at elements and at their mirrors, with both dimensions swapped.

        A tile and its mirror read the same then, and blocks that follow each other take them.
        """
        inner, across = self.inner, self.across
        swap = {dim: Affine(0, ((dim, 1),)) for dim in range(len(self.kernel.rows))}
        swap[inner], swap[across] = swap[across], swap[inner]
        read = {(s.buffer, s.index) for s in self.kernel.statements if isinstance(s, Load)}
        return self.extents[0] == self.extents[1] and any(
            _crosses(index, inner, across) and (buffer, index.substituted(swap)) in read
            for buffer, index in read
        )

    def _can_turn(self, access: Load | Store) -> bool:
        """Find what says whether an element exists; whether nothing has to be loaded for that."""
        if isinstance(access, Store):
            return True
        needed = {access.guard}
        guards: list[Statement] = []
        for statement in reversed(self.kernel.statements):
            if isinstance(statement, Store) or statement.out.level is Level.LAUNCH:
                continue
            if statement.out in needed:
                guards.insert(0, statement)
                needed.update(operands(statement))
        self.guards[access] = guards
        return not any(isinstance(statement, Load) for statement in guards)

    def comes_first(self, load: Load) -> bool:
        """Whether a load comes before everything else, into registers."""
        return super().comes_first(load) and load not in self.turned

    def place(self) -> None:
        """Write the tile of the block."""
        line, call = self.writer.line, self.call
        wide, high = self.counts
        line(f"block = {call('block_index')}")
        line(f"thread = {call('thread_index')}")
        tile = call("remainder", "block", wide * high) if self.others else "block"
        if self.mirrored:
            line(f"right, down = {call('mirrored', tile)}")
        else:
            line(f"right = {call('remainder', tile, wide)}")
            line(f"down = {call('quotient', tile, wide)}")
        line(f"left = {self.integer(f'{self.edges[0]}*right')}")
        line(f"top = {self.integer(f'{self.edges[1]}*down')}")
        if self.others:
            line(f"rest = {call('quotient', 'block', wide * high)}")
            self.unflatten("rest", self.others)

    @property
    def whole(self) -> str:
        """Code that holds where the whole tile exists."""
        across, down = self.extents
        return f"left + {self.edges[0]} <= {across} and top + {self.edges[1]} <= {down}"

    @property
    def inside(self) -> str:
        """Code that holds where the element exists."""
        across, down = self.extents
        return f"x < {across} and y < {down}"

    def group(self, number: str) -> None:
        """Write the indices of an element of a thread: a warp has neighbours along the last one."""
        self._element("column", "row", self.edges[0], number)

    def _element(self, fast: str, slow: str, extent: int, number: str) -> None:
        """Write where an element lies in the tile and in the space; ``fast`` comes first.

        In 64 bits, in which what differs between the elements of a thread is a constant of an
        access: a sum of 32 bits might wrap around, and would be extended for each of them.
        """
        line, threads = self.writer.line, self.shape.threads
        index = self.type(np.dtype(np.int64))
        if threads % extent == 0:
            line(f"{fast} = {index}({self.call('remainder', 'thread', extent)})")
            first = self.call("quotient", "thread", extent)
            line(f"{slow} = {first} + {threads // extent}*{number}")
        else:
            line(f"n = {self.call('narrow', f'thread + {threads}*{number}')}")
            line(f"{fast} = {index}({self.call('remainder', 'n', extent)})")
            line(f"{slow} = {index}({self.call('quotient', 'n', extent)})")
        line("x = left + column")
        line("y = top + row")
        self.dims[self.inner], self.dims[self.across] = "x", "y"

    def declare(self) -> None:
        """Write the arrays of a thread, and the tiles."""
        super().declare()
        cuda = self.helper("cuda")
        for tile in self.turned.values():
            kind = self.type(tile.dtype)
            self.writer.line(f"{tile.name} = {cuda}.shared.array({tile.size}, {kind})")

    def read(self) -> None:
        """Write the loads that come first, and what fills tiles."""
        super().read()
        loads = [access for access in self.turned if isinstance(access, Load)]
        if loads:
            self.in_two_ways(lambda whole: self._turn(loads, whole))
            self._meet()

    def finish(self) -> None:
        """Write what empties tiles."""
        stores = [access for access in self.turned if isinstance(access, Store)]
        if stores:
            self._meet()
            self.in_two_ways(lambda whole: self._turn(stores, whole))

    def _meet(self) -> None:
        self.writer.line(f"{self.helper('cuda')}.syncthreads()")

    def _turn(self, accesses: Sequence[Load | Store], whole: bool) -> None:
        """Write the moves of ``accesses`` between memory and their tiles."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.writer.block(f"for g in range({self.shape.groups}):"))
            self._element("row", "column", self.edges[1], "g")
            if not whole:
                stack.enter_context(self.writer.block(f"if {self.inside}:"))
            for access in accesses:
                place = self._place(self.turned[access])
                if isinstance(access, Load):
                    for statement in self.guards[access]:
                        super().statement(statement)
                    code = f"{place} = {self._loaded(access)}"
                else:
                    index = self.index(access.index)
                    code = self.call("store", f"b{access.buffer}", index, place)
                self.writer.line(code, self.kernel.buffers[access.buffer].name)

    def shared_place(self, access: Load | Store) -> tuple[str, np.dtype[Any]] | None:
        """Return the current element in a tile."""
        tile = self.turned.get(access)
        return super().shared_place(access) if tile is None else (self._place(tile), tile.dtype)

    def _place(self, tile: _Tile) -> str:
        """Return code of the current element in a tile."""
        row, column = ("row", "column") if self.edges[1] > self.edges[0] else ("column", "row")
        place = f"{tile.width}*{row} + {column}"
        if tile.period < tile.rows:
            place += f" + {tile.gap}*{self.call('quotient', row, tile.period)}"
        return f"{tile.name}[{self.slot(place)}]"

    def _loaded(self, load: Load) -> str:
        code = self.load_code(load.buffer, self.index(load.index))
        if load.guard is None:
            return code
        return f"({code}) if {self.operand(load.guard)} else {self.zero(load.out.dtype)}"
