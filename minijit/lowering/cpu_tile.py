"""How the rows of a CPU kernel are cut into units, and walked inside one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

__all__ = ["Tile"]


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """Blocks of rows, one a unit.

    Attributes:
        order: The row dimensions from the outermost loop to the innermost.
        extents: Their extents, in that order.
        blocks: How many indices of each belong to one unit, in that order.
    """

    order: tuple[int, ...]
    extents: tuple[int, ...]
    blocks: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of blocks along each dimension."""
        return tuple(-(-e // b) for e, b in zip(self.extents, self.blocks, strict=True))

    @property
    def units(self) -> int:
        """Number of units."""
        return math.prod(self.counts)

    @staticmethod
    def filled(order: Sequence[int], extents: Sequence[int], rows: int) -> Tile:
        """Return the tile that holds about ``rows`` rows, the innermost dimensions whole."""
        blocks: list[int] = []
        for dim in reversed(order):
            block = min(extents[dim], max(rows, 1))
            # Equal blocks rather than a small last one.
            count = max(-(-extents[dim] // max(block, 1)), 1)
            blocks.append(max(-(-extents[dim] // count), 1))
            rows = rows // extents[dim]
        return Tile(tuple(order), tuple(extents[d] for d in order), tuple(reversed(blocks)))

    def digit(self, position: int) -> str:
        """Return code of one digit of ``unit`` in the mixed radix of the blocks."""
        inner, count = math.prod(self.counts[position + 1 :]), self.counts[position]
        code = "unit" if inner == 1 else f"unit // {inner}"
        return code if inner * count == self.units else f"{code} % {count}"
