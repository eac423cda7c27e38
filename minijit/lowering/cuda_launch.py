"""The launch parameters of a CUDA kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from minijit.lowering.kernel_ir import Map, Statement

__all__ = [
    "FEW_REGISTERS",
    "MOST_REGISTERS",
    "SECTOR_BYTES",
    "SHARED_BYTES",
    "VECTOR_BYTES",
    "CudaLaunch",
    "unrolled_lanes",
]

VECTOR_BYTES = 16
"""What one access moves."""
SECTOR_BYTES = 32
"""What memory gives or takes at a time."""
SHARED_BYTES = 48 << 10
"""Shared memory that a block may have without asking for more."""

# LLVM unrolls loops of about this many instructions; what stays a loop keeps its arrays in memory.
_UNROLLED = 1200

MOST_REGISTERS = 128
"""Of a thread; a quarter of the threads that a multiprocessor may have then fit on it."""
FEW_REGISTERS = 64
"""Of a thread that holds little; half of them fit."""
_REGISTERS_PER_MULTIPROCESSOR = 65536
_MOST_BLOCKS = 32


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
        registers: Most that a thread may take.
    """

    grid: int
    block: int
    shared: int
    aligned: tuple[int, ...]
    vectorize: bool
    work: int
    sizes: tuple[int, ...] = ()
    registers: int = MOST_REGISTERS

    @property
    def bounds(self) -> tuple[int, int]:
        """Launch bounds: threads, and blocks on a multiprocessor that leave so many registers."""
        blocks = _REGISTERS_PER_MULTIPROCESSOR // (self.registers * self.block)
        return self.block, min(max(blocks, 1), _MOST_BLOCKS)


def unrolled_lanes(statements: Iterable[Statement]) -> int:
    """Return how often (a power of two) a body may be repeated in a loop that unrolls."""
    cost = sum(s.op.flops for s in statements if isinstance(s, Map))
    lanes = max(_UNROLLED // max(cost, 1), 1)
    return 1 << (lanes.bit_length() - 1)
