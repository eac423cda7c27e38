"""What few long rows are: a reduction that would leave most of a target idle."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection

__all__ = ["FewRows"]


@dataclasses.dataclass(frozen=True, slots=True)
class FewRows:
    """When a reduction is worth to be cut into blocks along what it reduces.

    Attributes:
        rows: Fewer than so many units of work leave the target idle.
        columns: From so many elements on a unit is worth blocks of its own.
        abreast: How many rows a unit takes at least where they are neighbours in memory.
        block: Elements of a block at least.
        held: How long rows may be that kernels keep from one reduction to the next, wherever their
            elements lie.
    """

    rows: int
    columns: int = 1 << 15
    abreast: int = 1
    block: int = 1 << 14
    held: int = 0

    def has(self, extents: tuple[int, ...], reduced: Collection[int]) -> bool:
        """Whether a reduction of dimensions ``reduced`` of a space is one of few long rows."""
        if not reduced:
            return False
        columns = math.prod(extents[dim] for dim in reduced)
        rows = math.prod(extents) // max(columns, 1)
        abreast = max(min(math.prod(extents[max(reduced) + 1 :]), self.abreast), 1)
        return rows < self.rows * abreast and columns * abreast >= self.columns
