"""Rows of a block that lie together in memory and go through shared memory together.

Short rows that fill no sectors (32 bytes) share them with their neighbours. If the threads of each
row asked memory for its columns, every turn of theirs would fetch these sectors again. So the block
moves all of its rows as the one run of sectors that they are (``minijit.kernels.cuda.tile``), and
threads find their columns in shared memory.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minijit.lowering.cuda_geometry import (
    FEW_ROWS,
    MOST_THREADS,
    WARP,
    Geometry,
    most_lanes,
    power_of_two,
)
from minijit.lowering.cuda_launch import FEW_REGISTERS, SECTOR_BYTES, SHARED_BYTES, VECTOR_BYTES
from minijit.lowering.cuda_reduce import ReducingEmitter
from minijit.lowering.kernel_ir import Kernel, Load, Statement, Store
from minijit.lowering.source import held_dtype
from minijit.lowering.stages import Staging, accesses, stage_kernel

__all__ = ["RowTile", "TiledEmitter", "is_run", "tile_dtype", "tile_rows"]

_Pair = tuple[Load | None, Store | None]

_THREADS = 128
_LANE_BYTES = 64
_SEAMS = 50
"""Beyond so many times what a sector has too much, sharing it is two percent of a row or less."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RowTile:
    """The rows of a block in one array that is read, and in one that is written after it.

    Attributes:
        number: Of the tile in its kernel.
        dtype: Of its elements, those of the arrays as 32 or 64 bits.
        cols: How many of them a row has; one for a value of rows.
        load: What reads it, if anything does.
        store: What writes it, if anything does; threads then have what ``load`` reads.
    """

    number: int
    dtype: np.dtype[Any]
    cols: int
    load: Load | None
    store: Store | None

    @property
    def accesses(self) -> tuple[Load | Store, ...]:
        """What reads and writes it."""
        return tuple(access for access in (self.load, self.store) if access is not None)

    def __str__(self) -> str:
        """Return the name of the array."""
        return f"tile{self.number}_"


def tile_rows(
    kernel: Kernel, plain: Geometry, *, work: int | None
) -> tuple[Geometry, Staging, tuple[RowTile, ...]] | None:
    """Return the mapping, the passes and the tiles of short rows, or None for all others.

    Args:
        kernel: A kernel with columns.
        plain: The mapping without tiles.
        work: Most elements that a thread holds; None leaves the choice to the schedule.
    """
    staging = stage_kernel(kernel, keep_loads=True)
    runs = [access for access in accesses(kernel) if _begins(access, kernel.extents)]
    sizes = [kernel.buffers[access.buffer].dtype.itemsize for access in runs]
    if (
        plain.by_column
        or kernel.ragged is not None
        or not any(_shares(kernel, plain, size) for size in sizes)
    ):
        return None
    pairs = [*_pairs_of_cells(kernel, staging, runs), *_accesses_of_rows(kernel)]
    tiles = tuple(_tile(kernel, number, pair) for number, pair in enumerate(pairs))
    geometry = _geometry(kernel, tiles, staging, min(sizes), most_lanes(staging, work))
    return None if geometry is None else (geometry, staging, tiles)


def _begins(access: Load | Store, extents: Sequence[int]) -> bool:
    """Whether they do, from the beginning of the array on."""
    return access.index.offset == 0 and is_run(access, extents)


def is_run(access: Load | Store, extents: Sequence[int]) -> bool:
    """Whether all elements lie side by side in memory, in the order of a space of ``extents``."""
    expected = 1
    for dim in reversed(range(len(extents))):
        if extents[dim] > 1 and access.index.stride(dim) != expected:
            return False
        expected *= extents[dim]
    return isinstance(access, Store) or access.guard is None


def _shares(kernel: Kernel, plain: Geometry, itemsize: int) -> bool:
    """Whether much of what rows ask for are sectors that they share with others."""
    row = math.prod(kernel.cols) * itemsize
    if row % SECTOR_BYTES == 0 or math.prod(kernel.rows) == 1:
        return False
    at_once = (
        plain.steps == 1 and plain.group <= WARP and WARP // plain.group * row % SECTOR_BYTES == 0
    )
    return not at_once and row < _SEAMS * (SECTOR_BYTES - itemsize)


def _pairs_of_cells(
    kernel: Kernel, staging: Staging, runs: Sequence[Load | Store]
) -> Iterator[_Pair]:
    """Yield what tiles hold; a result takes the place of what its pass or one before it read."""
    stores = [access for access in runs if isinstance(access, Store)]
    for number, stage in enumerate(staging.stages):
        later = [cell for after in staging.stages[number:] for cell in after.cells]
        for load in stage.cells:
            if not isinstance(load, Load) or load not in runs:
                continue
            dtype = tile_dtype(kernel, load)
            fitting = [s for s in stores if s in later and tile_dtype(kernel, s) == dtype]
            if fitting:
                stores.remove(fitting[0])
            yield load, next(iter(fitting), None)
    for store in stores:
        yield None, store


def _accesses_of_rows(kernel: Kernel) -> Iterator[_Pair]:
    """Yield what has one element a row: threads that have it would ask for a sector each."""
    cols = set(range(len(kernel.rows), len(kernel.extents)))
    for access in kernel.statements:
        if not isinstance(access, Load | Store) or cols & set(access.index.dims):
            continue
        if _begins(access, kernel.rows):
            yield (access, None) if isinstance(access, Load) else (None, access)


def _tile(kernel: Kernel, number: int, pair: _Pair) -> RowTile:
    access = pair[0] or pair[1]
    assert access is not None
    cells = set(range(len(kernel.rows), len(kernel.extents))) & set(access.index.dims)
    return RowTile(
        number, tile_dtype(kernel, access), math.prod(kernel.cols) if cells else 1, *pair
    )


def tile_dtype(kernel: Kernel, access: Load | Store) -> np.dtype[Any]:
    """Return the dtype of a tile for an array: that in which it is held, of 32 bits at least."""
    held = held_dtype(kernel.buffers[access.buffer].dtype)
    return held if held.itemsize >= 4 else np.dtype(np.int32)


def _geometry(
    kernel: Kernel, tiles: Sequence[RowTile], staging: Staging, smallest: int, most: int
) -> Geometry | None:
    """Return a mapping whose threads use a bank each, and whose blocks begin at a sector.

    Threads of a row take neighbouring columns. If columns are ``2**a`` times an odd number, and
    rows of a warp ``group / 2**a`` rows apart, an odd multiple of ``group`` banks is between these.
    """
    rows, cols = math.prod(kernel.rows), math.prod(kernel.cols)
    row_bytes = sum(tile.cols * tile.dtype.itemsize for tile in tiles)
    held = [tile.dtype for tile in tiles if tile.cols == cols]
    widest = max(dtype.itemsize for dtype in (*held, *(value.dtype for value in staging.kept)))
    sector = SECTOR_BYTES // smallest
    even = min(cols & -cols, WARP)
    group = max(min(power_of_two(-(-cols // min(_LANE_BYTES // widest, most))), WARP), even)
    steps = -(-cols // group)
    apart = 1 if group == WARP else group // even
    threads = WARP * apart
    if apart == 1:
        threads = max(group * (sector // math.gcd(sector, cols)), WARP)
        roomy = rows * group >= _THREADS * FEW_ROWS
        if roomy and _THREADS // group * row_bytes <= SHARED_BYTES:
            threads = max(threads, _THREADS)
    fits = threads // group * row_bytes <= SHARED_BYTES and threads <= MOST_THREADS
    if steps > most or not fits:
        return None
    return Geometry(
        False, threads, group, 1, steps, persistent=True, apart=apart, registers=FEW_REGISTERS
    )


class TiledEmitter(ReducingEmitter):
    """Writes loads and stores of tiles; ``fill`` comes before all of them, ``empty`` after.

    Attributes:
        tiles: By their accesses.
        vectorize: Whether 128-bit accesses are allowed.
    """

    def __init__(
        self, kernel: Kernel, geometry: Geometry, tiles: Sequence[RowTile], *, vectorize: bool
    ) -> None:
        """Start an empty text."""
        super().__init__(kernel, geometry)
        self.tiles: dict[Statement, RowTile] = {a: tile for tile in tiles for a in tile.accesses}
        self.vectorize = vectorize

    def own_row(self) -> str:
        """Return code of which of the block's rows the thread works on."""
        code = super().own_row()
        if not self.tiles:
            return code
        self.writer.line(f"own = {self.call('narrow', code)}")
        return "own"

    def fill(self) -> None:
        """Write the tiles, and what reads them from memory."""
        if not self.tiles:
            return
        line, rows = self.writer.line, self.geometry.rows
        line(f"seat = {self.call('narrow', f'{self.cols}*own')}")
        if self.guard_rows:
            start = f"{self.call('block_index')}*{rows}"
            line(f"rows = {self.call('narrow', f'min({rows}, {self.rows} - {start})')}")
        self.helper("cuda")
        for tile in dict.fromkeys(self.tiles.values()):
            size, kind = rows * tile.cols, self.type(tile.dtype)
            line(f"{tile} = cuda.shared.array({size}, {kind}, {VECTOR_BYTES})")
            if tile.load is not None:
                self._move("read_rows", tile, tile.load)
        line("cuda.syncthreads()")

    def empty(self) -> None:
        """Write what puts the tiles of results into memory."""
        stored = [(tile, store) for store, tile in self.tiles.items() if isinstance(store, Store)]
        if stored:
            self.writer.line("cuda.syncthreads()")
        for tile, store in stored:
            self._move("write_rows", tile, store)

    def _move(self, helper: str, tile: RowTile, access: Load | Store) -> None:
        size = self.geometry.rows * tile.cols
        width = VECTOR_BYTES // tile.dtype.itemsize
        if self.vectorize and size % width == 0:
            self.aligned.add(access.buffer)
        else:
            width = 1
        arguments = (
            tile,
            size,
            f"b{access.buffer}",
            self.integer(f"{self.call('block_index')}*{size}"),
            self.call("narrow", f"{tile.cols}*rows") if self.guard_rows else size,
            self.geometry.threads,
            width,
        )
        self.writer.line(self.call(helper, *arguments), self.kernel.buffers[access.buffer].name)

    def shared_place(self, access: Load | Store) -> tuple[str, np.dtype[Any]] | None:
        """Return the current element of a row in a tile."""
        tile = self.tiles.get(access)
        if tile is None:
            return super().shared_place(access)
        return f"{tile}[{self.slot('own' if tile.cols == 1 else 'seat + j')}]", tile.dtype
