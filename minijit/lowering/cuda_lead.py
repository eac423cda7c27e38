"""How threads of a row begin before it, where a sector of memory does.

A warp that asks for 128 bytes which begin inside of a sector (32 bytes) needs five sectors, not
four. Rows whose length fills no sectors begin anywhere; so their threads take columns from the
sector on in which the row begins, and those of them that come before the row do nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict

from minijit.graph.index import Affine
from minijit.lowering.cuda_launch import SECTOR_BYTES
from minijit.lowering.kernel_ir import Kernel, Load, Store
from minijit.lowering.stages import accesses

__all__ = ["Lead", "find_lead"]

_SECTORS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Lead:
    """The columns by which threads begin before a row: its start modulo a sector.

    Attributes:
        start: Where the rows begin of those arrays for which it is chosen.
        sector: Elements of a sector.
    """

    start: Affine
    sector: int

    @property
    def step(self) -> int:
        """What all leads are multiples of."""
        return math.gcd(self.sector, self.start.offset, *(s for _, s in self.start.terms))

    @property
    def most(self) -> int:
        """The longest lead."""
        return self.sector - self.step


def find_lead(kernel: Kernel) -> Lead | None:
    """Return the lead with which most bytes are moved by whole sectors; None if that is none."""
    column = len(kernel.rows)
    if len(kernel.cols) != 1:
        return None
    sides = [
        access
        for access in accesses(kernel)
        if access.index.stride(column) == 1 and (isinstance(access, Store) or access.guard is None)
    ]
    sizes = [kernel.buffers[access.buffer].dtype.itemsize for access in sides]
    if not sides or kernel.cols[0] * min(sizes) < _SECTORS * SECTOR_BYTES:
        return None
    sector = SECTOR_BYTES // min(sizes)
    starts: defaultdict[Affine, list[Load | Store]] = defaultdict(list)
    for access in sides:
        starts[_modulo(_start(access.index, column), sector)].append(access)

    def moved(start: Affine) -> int:
        buffers = (kernel.buffers[access.buffer] for access in starts[start])
        return sum(buffer.size * buffer.dtype.itemsize for buffer in buffers)

    chosen = max(starts, key=moved)
    if not chosen.dims and chosen.offset == 0:
        return None
    if any(dim > column for dim in chosen.dims):
        # Each step of a loop begins elsewhere.
        return None
    index = starts[chosen][0].index
    return Lead(Affine(index.offset, tuple(t for t in index.terms if t[0] < column)), sector)


def _start(index: Affine, column: int) -> Affine:
    return Affine(index.offset, tuple(term for term in index.terms if term[0] != column))


def _modulo(start: Affine, sector: int) -> Affine:
    terms = tuple((dim, stride % sector) for dim, stride in start.terms if stride % sector)
    return Affine(start.offset % sector, terms)
