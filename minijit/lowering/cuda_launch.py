"""The launch parameters of a CUDA kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from minijit.lowering.kernel_ir import Map, Statement

__all__ = ["SECTOR_BYTES", "SHARED_BYTES", "VECTOR_BYTES", "CudaLaunch", "unrolled_lanes"]

VECTOR_BYTES = 16
"""What one access moves."""
SECTOR_BYTES = 32
"""What memory gives or takes at a time."""
SHARED_BYTES = 48 << 10
"""Shared memory that a block may have without asking for more."""

# LLVM unrolls loops of about this many instructions; what stays a loop keeps its arrays in memory.
_UNROLLED = 1200

_REGISTERS_PER_THREAD = 128
_REGISTERS_PER_MULTIPROCESSOR = 65536


@dataclasses.dataclass(frozen=True, slots=True)
class CudaLaunch:
    """How a kernel is launched.

    Attributes:
        grid: Number of blocks.
        block: Threads in a block.
        shared: Bytes of dynamic shared memory.
        aligned: Buffers whose address must be a multiple of 16, for 128-bit accesses.
        vectorize: Whether 128-bit accesses were allowed.
        work: Elements that a thread holds at a time; less work takes fewer registers.
        sizes: What the kernel is told of the size of its space, so that its code serves others too:
            its last parameters, each an int64.
    """

    grid: int
    block: int
    shared: int
    aligned: tuple[int, ...]
    vectorize: bool
    work: int
    sizes: tuple[int, ...] = ()

    @property
    def bounds(self) -> tuple[int, int]:
        """Launch bounds: threads, and blocks on a multiprocessor for 128 registers a thread."""
        blocks = _REGISTERS_PER_MULTIPROCESSOR // (_REGISTERS_PER_THREAD * self.block)
        return self.block, max(blocks, 1)


def unrolled_lanes(statements: Iterable[Statement]) -> int:
    """Return how often (a power of two) a body may be repeated in a loop that unrolls."""
    cost = sum(s.op.flops for s in statements if isinstance(s, Map))
    lanes = max(_UNROLLED // max(cost, 1), 1)
    return 1 << (lanes.bit_length() - 1)
