"""Which accesses in loops follow a sequence that lies in memory step after step, a sector for many.

At each step the points of a warp would then touch a sector each and use one element of it. Such
sequences go through a ring in shared memory instead, many steps of one point at a time
(``minijit.kernels.cuda.stream``); warps have to stay together for that.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from minijit.graph.index import Affine
from minijit.lowering.cuda_geometry import WARP
from minijit.lowering.cuda_launch import SECTOR_BYTES, SHARED_BYTES
from minijit.lowering.kernel_ir import Kernel, Load, Loop, Store, walk
from minijit.lowering.source import held_dtype
from minijit.lowering.structure import Structure

__all__ = ["Stream", "find_streams"]

_BANK_BYTES = 4


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """A sequence for each point, or one for all, and the ring of those of a block.

    Attributes:
        number: Of the stream in its kernel.
        access: What reads or writes an element at each step.
        loop: Whose steps those are.
        count: Sequences of a block.
        pitch: Elements from one of them to the next in the ring.
    """

    number: int
    access: Load | Store
    loop: Loop
    count: int
    pitch: int

    @property
    def start(self) -> Affine:
        """The index of step zero."""
        index = self.access.index
        return Affine(index.offset, tuple(t for t in index.terms if t[0] != self.loop.dim))

    @property
    def stride(self) -> int:
        """How far it is to the next step: one or minus one."""
        return self.access.index.stride(self.loop.dim)

    def __str__(self) -> str:
        """Return the name of the ring."""
        return f"ring{self.number}_"


def find_streams(kernel: Kernel) -> tuple[Stream, ...]:
    """Return the streams of a kernel without columns, as many as shared memory holds."""
    if kernel.cols or not Structure(kernel, range(len(kernel.rows))).uniform:
        return ()
    found = list(_sequences(kernel))
    wide = _wide(kernel)
    if all(wide and not wide.intersection(access.index.dims) for _, access in found):
        # Points that share all their sequences share sectors as it is.
        return ()
    streams: list[Stream] = []
    room = SHARED_BYTES
    for loop, access in found:
        itemsize = held_dtype(kernel.buffers[access.buffer].dtype).itemsize
        own = wide.intersection(access.index.dims)
        count = min(math.prod(kernel.rows), WARP) if own else 1
        stream = Stream(len(streams), access, loop, count, _pitch(itemsize))
        size = stream.count * stream.pitch * itemsize
        if size <= room:
            room -= size
            streams.append(stream)
    return tuple(streams)


def _pitch(itemsize: int) -> int:
    """Return two windows and an odd number of banks: no two sequences begin at the same bank."""
    return 2 * WARP + max(_BANK_BYTES // itemsize, 1)


def _wide(kernel: Kernel) -> set[int]:
    """Return the dimensions along which there are several points."""
    return {dim for dim, extent in enumerate(kernel.rows) if extent > 1}


def _sequences(kernel: Kernel) -> Iterator[tuple[Loop, Load | Store]]:
    """Yield what goes through memory step by step, and not from point to point."""
    wide = _wide(kernel)
    inner = max(wide, default=-1)
    for loop in walk(kernel.body):
        if not isinstance(loop, Loop) or loop.length is None:
            continue
        for node in loop.body.body:
            if not isinstance(node, Load | Store) or abs(node.index.stride(loop.dim)) != 1:
                continue
            dims = wide.intersection(node.index.dims)
            whole = node.guard is None if isinstance(node, Load) else dims == wide
            long = loop.length * kernel.buffers[node.buffer].dtype.itemsize >= SECTOR_BYTES
            # Neighbours that share a sequence, not all points, share its sectors as it is.
            apart = not dims or (inner in dims and abs(node.index.stride(inner)) != 1)
            if whole and long and apart:
                yield loop, node
