"""Steps of a loop that follow each other in memory, moved several at a time.

Where the elements of a step fill no sectors (32 bytes), steps share them: a warp that asks for 128
bytes which begin inside of a sector needs five, not four. If all points are in one block, it moves
several steps in one run, through shared memory (``minijit.kernels.cuda.tile``).
Memory is then also waited for only once in so many steps. Where there are more blocks, each has a
part of a step: to join its pieces at sectors would cost more than the caches do.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minijit.graph.index import Affine
from minijit.lowering.cuda_geometry import MOST_THREADS, WARP, Geometry, power_of_two
from minijit.lowering.cuda_launch import SECTOR_BYTES, SHARED_BYTES, VECTOR_BYTES
from minijit.lowering.cuda_rings import RingEmitter
from minijit.lowering.cuda_short_rows import is_run, tile_dtype
from minijit.lowering.cuda_streams import Stream
from minijit.lowering.kernel_ir import Kernel, Load, Loop, Statement, Store, walk
from minijit.lowering.structure import Structure

__all__ = ["StepEmitter", "StepTile", "tile_steps"]

_STEPS = (16, 8, 4, 2)
"""Steps at a time, the most for which there is room. Sixteen always fill sectors."""
_MOST_LANES = 16


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class StepTile:
    """The elements that an access takes in some steps, in shared memory.

    Attributes:
        number: Of the tile in its kernel.
        access: What reads or writes an element at each step.
        loop: Whose steps those are.
        length: How many there are.
        dtype: Of the tile, 32 or 64 bits.
        cells: Elements of a step.
        steps: How many steps it holds, a power of two.
    """

    number: int
    access: Load | Store
    loop: Loop
    length: int
    dtype: np.dtype[Any]
    cells: int
    steps: int

    @property
    def size(self) -> int:
        """Elements of the tile."""
        return self.cells * self.steps

    def __str__(self) -> str:
        """Return the name of the array."""
        return f"steps{self.number}_"


def tile_steps(kernel: Kernel, plain: Geometry) -> tuple[Geometry, tuple[StepTile, ...]]:
    """Return a mapping with tiles, or the given one without any where nothing gains by them.

    Args:
        kernel: A kernel with loops.
        plain: The mapping without tiles.
    """
    geometry = _in_one_block(kernel, plain)
    if geometry is None or not Structure(kernel, range(len(kernel.extents))).uniform:
        return plain, ()
    for steps in _STEPS:
        tiles = tuple(_tiles(kernel, steps))
        if sum(tile.size * tile.dtype.itemsize for tile in tiles) <= SHARED_BYTES:
            shared = any(_row_bytes(kernel, tile) % SECTOR_BYTES for tile in tiles)
            return (geometry, tiles) if shared else (plain, ())
    return plain, ()


def _tiles(kernel: Kernel, steps: int) -> Iterator[StepTile]:
    """Yield a tile for each access whose steps are one run."""
    count = itertools.count()
    for loop in walk(kernel.body):
        if not isinstance(loop, Loop) or loop.length is None:
            continue
        for node in loop.body.body:
            if not isinstance(node, Load | Store):
                continue
            extents = _space(kernel, node)
            cells = math.prod(extents)
            if is_run(node, extents) and node.index.stride(loop.dim) == cells > 1:
                dtype = tile_dtype(kernel, node)
                yield StepTile(next(count), node, loop, loop.length, dtype, cells, steps)


def _space(kernel: Kernel, access: Load | Store) -> tuple[int, ...]:
    """Return the space of an access: all points, or rows if all columns are one element."""
    cols = set(range(len(kernel.rows), len(kernel.extents)))
    return kernel.extents if cols & set(access.index.dims) else kernel.rows


def _row_bytes(kernel: Kernel, tile: StepTile) -> int:
    """Return how far it is from what one warp, or one row of it, begins with to the next."""
    cells = math.prod(kernel.cols) if kernel.cols else tile.cells
    return cells * kernel.buffers[tile.access.buffer].dtype.itemsize


def _in_one_block(kernel: Kernel, plain: Geometry) -> Geometry | None:
    """Return a mapping of all rows to one block whose threads use a bank each, or None.

    They do as neighbours, or if a warp has one row.
    """
    rows, cols = math.prod(kernel.rows), math.prod(kernel.cols)
    if not kernel.cols:
        threads = -(-rows // WARP) * WARP
        return Geometry(False, threads, 1, 1, 1, True) if threads <= MOST_THREADS else None
    if plain.by_column or power_of_two(rows) * WARP > MOST_THREADS:
        return None
    group = max(WARP, min(plain.group, MOST_THREADS // power_of_two(rows)))
    steps = -(-cols // group)
    if steps > max(plain.steps, _MOST_LANES):
        return None
    threads = power_of_two(rows) * group
    return dataclasses.replace(plain, threads=threads, group=group, steps=steps)


class StepEmitter(RingEmitter):
    """Writes what goes through tiles of steps; others are left to the rings.

    Attributes:
        step_tiles: By their accesses. If there are any, there is one block.
        vectorize: Whether 128-bit accesses are allowed.
    """

    def __init__(
        self,
        kernel: Kernel,
        geometry: Geometry,
        streams: Sequence[Stream],
        tiles: Sequence[StepTile],
        *,
        vectorize: bool,
    ) -> None:
        """Start an empty text."""
        super().__init__(kernel, geometry, streams)
        self.step_tiles: dict[Statement, StepTile] = {tile.access: tile for tile in tiles}
        self.vectorize = vectorize

    def rings(self) -> None:
        """Write the rings and the tiles."""
        super().rings()
        for tile in self.step_tiles.values():
            self.helper("cuda")
            kind = self.type(tile.dtype)
            self.writer.line(f"{tile} = cuda.shared.array({tile.size}, {kind}, {VECTOR_BYTES})")

    def fill(self, node: Loop) -> None:
        """Write what fills rings and tiles."""
        super().fill(node)
        counter = self.dims[node.dim]
        for steps, tiles in self._by_steps(node, Load).items():
            with self.writer.block(f"if {counter} & {steps - 1} == 0:"):
                self._together("read_rows", tiles, counter)

    def empty(self, node: Loop) -> None:
        """Write what empties rings and tiles."""
        super().empty(node)
        counter = self.dims[node.dim]
        for steps, tiles in self._by_steps(node, Store).items():
            whole = f"{counter} & {steps - 1} == {steps - 1}"
            with self.writer.block(f"if {whole} or {counter} == {tiles[0].length - 1}:"):
                self._together("write_rows", tiles, f"({counter} & {-steps})")

    def _by_steps(self, node: Loop, kind: type[Load | Store]) -> dict[int, list[StepTile]]:
        """Return the tiles of one loop that are read, or those that are written, by their steps."""
        found: dict[int, list[StepTile]] = {}
        for tile in self.step_tiles.values():
            if tile.loop is node and isinstance(tile.access, kind):
                found.setdefault(tile.steps, []).append(tile)
        return found

    def _together(self, helper: str, tiles: Sequence[StepTile], first: str) -> None:
        """Write that the block moves the steps of tiles from step ``first`` on."""
        self.writer.line("cuda.syncthreads()")
        for tile in tiles:
            begin = self.integer(self._begin(tile, first))
            count: object = tile.size
            if tile.length % tile.steps:
                left = self.call("narrow", f"{tile.length} - {first}")
                count = self.call("narrow", f"{tile.cells}*min({tile.steps}, {left})")
            pointer, threads = f"b{tile.access.buffer}", self.geometry.threads
            arguments = (tile, tile.size, pointer, begin, count, threads, self._width(tile))
            note = self.kernel.buffers[tile.access.buffer].name
            self.writer.line(self.call(helper, *arguments), note)
        self.writer.line("cuda.syncthreads()")

    def _begin(self, tile: StepTile, first: str) -> str:
        """Return code of the index of the first element of step ``first``."""
        counter, self.dims[tile.loop.dim] = self.dims[tile.loop.dim], first
        code = self.index(self._of_steps(tile))
        self.dims[tile.loop.dim] = counter
        return code

    def _of_steps(self, tile: StepTile) -> Affine:
        """Return the index without what points add to it."""
        index, points = tile.access.index, len(self.kernel.extents)
        return Affine(index.offset, tuple(term for term in index.terms if term[0] >= points))

    def _width(self, tile: StepTile) -> int:
        """Return how many elements are moved at once, and note that the array is to be aligned."""
        width, index = VECTOR_BYTES // tile.dtype.itemsize, self._of_steps(tile)
        strides = (stride for dim, stride in index.terms if dim != tile.loop.dim)
        aligned = all(n % width == 0 for n in (index.offset, tile.size, *strides))
        if not (self.vectorize and aligned):
            return 1
        self.aligned.add(tile.access.buffer)
        return width

    def shared_place(self, access: Load | Store) -> tuple[str, np.dtype[Any]] | None:
        """Return the current step's element in a tile."""
        tile = self.step_tiles.get(access)
        if tile is None:
            return super().shared_place(access)
        columns = _space(self.kernel, tile.access) != self.kernel.rows
        own = f"{self.cols}*row + j" if columns else "row"
        step = f"({self.dims[tile.loop.dim]} & {tile.steps - 1})"
        return f"{tile}[{self.slot(f'{tile.cells}*{step} + {own}')}]", tile.dtype
