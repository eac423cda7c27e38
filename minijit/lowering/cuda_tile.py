"""The tile schedule: maps that read some operand across the order in which they write.

A warp takes 8 elements along the outputs' rows and 4 along the operand's, so that both use the
memory sectors that they touch; the caches hold what neighbouring warps share.
"""

from __future__ import annotations

import math

from minijit.lowering.cuda_map import MapEmitter, MapShape, finished
from minijit.lowering.kernel_ir import Kernel, Load, Store
from minijit.lowering.source import KernelSource

__all__ = ["TILE_WORK", "crossing_dim", "emit_tile"]

_EDGE = 32
TILE_WORK = 4
_SHAPE = MapShape(chunk=1, groups=TILE_WORK, threads=256)
_SMALLEST = 16


def crossing_dim(kernel: Kernel) -> int | None:
    """Return the dimension along which most bytes are read across the last one, or None."""
    inner = len(kernel.rows) - 1
    if inner < 1 or kernel.rows[inner] < _SMALLEST:
        return None
    votes: dict[int, int] = {}
    for access in kernel.statements:
        if not isinstance(access, Load | Store) or abs(access.index.stride(inner)) < 2:
            continue
        size = kernel.buffers[access.buffer].dtype.itemsize
        for dim, stride in access.index.terms:
            if abs(stride) == 1 and kernel.rows[dim] >= _SMALLEST:
                votes[dim] = votes.get(dim, 0) + size
    return max(votes, key=lambda dim: votes[dim], default=None)


def emit_tile(kernel: Kernel, across: int, *, vectorize: bool) -> KernelSource:
    """Write a map kernel in square tiles of the last dimension and of dimension ``across``."""
    emitter = _TileEmitter(kernel, across)
    return finished(emitter, math.prod(emitter.counts) * emitter.rest, vectorize)


class _TileEmitter(MapEmitter):
    """Writes one kernel; ``counts`` are the tiles along the last dimension and along ``across``."""

    schedule = "tile"
    first = "block == 0 and thread == 0"

    def __init__(self, kernel: Kernel, across: int) -> None:
        super().__init__(kernel, _SHAPE, math.prod(kernel.rows))
        self.across = across
        extents = (kernel.rows[self.inner], kernel.rows[across])
        self.extents = extents
        self.counts = tuple(-(-extent // _EDGE) for extent in extents)
        self.others = [d for d in range(len(kernel.rows)) if d not in (self.inner, across)]
        self.rest = math.prod(kernel.rows[d] for d in self.others)
        self.tail = any(extent % _EDGE for extent in extents)

    def place(self) -> None:
        """Write the tile of the block and the thread's place in it."""
        line, call = self.writer.line, self.call
        wide, high = self.counts
        line(f"block = {call('block_index')}")
        line(f"thread = {call('thread_index')}")
        line(f"left = {self._product(call('remainder', 'block', wide))}")
        above = call("quotient", "block", wide)
        line(f"top = {self._product(call('remainder', above, high))}")
        lane = call("remainder", "thread", 8)
        warp = call("remainder", call("quotient", "thread", 32), 4)
        line(f"x = {self.integer(f'left + 8*{warp} + {lane}')}")
        lane = call("remainder", call("quotient", "thread", 8), 4)
        warp = call("quotient", "thread", 128)
        line(f"y = {self.integer(f'top + 4*{warp} + {lane}')}")
        if self.others:
            line(f"rest = {call('quotient', above, high)}")
            self.unflatten("rest", self.others)

    def _product(self, tile: str) -> str:
        return self.integer(f"{_EDGE}*{tile}")

    @property
    def whole(self) -> str:
        """Code that holds where the whole tile exists."""
        across, down = self.extents
        return f"left + {_EDGE} <= {across} and top + {_EDGE} <= {down}"

    @property
    def inside(self) -> str:
        """Code that holds where the element exists."""
        across, down = self.extents
        return f"x < {across} and p < {down}"

    def group(self, number: str) -> None:
        """Write the indices of the element of group ``number``."""
        self.writer.line(f"p = {self.integer(f'y + 8*{number}')}")
        self.dims[self.inner] = "x"
        self.dims[self.across] = "p"
