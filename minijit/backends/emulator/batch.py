"""The threads that run together: some whole blocks of a launch, as lanes of NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minijit.backends.emulator.cache import BlockCaches, cached_lines
from minijit.backends.emulator.counters import Counters
from minijit.backends.emulator.memory import GlobalMemory
from minijit.backends.emulator.operation import Array
from minijit.backends.emulator.shared import SharedMemory

__all__ = ["Batch", "Extent"]

_WARP = 32
_AXES = ("x", "y", "z")
Extent = tuple[int, int, int]


class Batch:
    """Lanes, their coordinates and the memories that only they see.

    Blocks are padded to whole warps; the lanes in ``alive`` are threads.

    Attributes:
        size: Lanes, padding included.
        block: For each lane the number of its block in the batch.
        thread: Its number in the block.
        warp: Its warp, numbered through the batch.
        lane: Its number in the warp.
        alive: The lanes at the start, or None for all.
        numbers: Of the batch's blocks in the grid.
        caches: In which blocks find what they have just touched, where that is counted.
    """

    def __init__(
        self,
        memory: GlobalMemory,
        params: Mapping[str, bytes],
        numbers: Array,
        grid: Extent,
        extent: Extent,
        shared: tuple[int, int],
        local: int,
        counters: Counters | None,
    ) -> None:
        """Lay out the blocks with these ``numbers``; ``shared`` is bytes and the race unit."""
        threads = extent[0] * extent[1] * extent[2]
        self.warps_per_block = -(-threads // _WARP)
        width = self.warps_per_block * _WARP
        self.numbers, self.grid, self.extent = numbers, grid, extent
        self.threads = threads
        self.size = len(numbers) * width
        place = np.arange(self.size)
        self.block, self.thread = place // width, place % width
        self.warp, self.lane = place // _WARP, place % _WARP
        self.alive = None if width == threads else np.nonzero(self.thread < threads)[0]
        self.memory, self.params, self.counters = memory, params, counters
        self.shared = SharedMemory(len(numbers), shared[0], shared[1], self.warps_per_block)
        self.shared_bytes = shared[0]
        self.caches = BlockCaches(
            self.numbers, self.warps_per_block, cached_lines(threads, self.shared_bytes)
        )
        self.local_row = -(-local // 16) * 16
        self.local_size = local
        self.local = np.zeros(self.size * self.local_row, np.uint8)
        self.local_written = np.zeros(self.local.size, np.bool_)
        self._specials: dict[str, Array] = {}

    def special(self, name: str) -> Array:
        """Return a special register such as ``%tid.x``.

        Raises:
            KeyError: there is none of that name.
        """
        if name not in self._specials:
            self._specials[name] = self._special(name)
        return self._specials[name]

    def _special(self, name: str) -> Array:
        name, _, axis = name[1:].partition(".")
        if axis:
            if axis not in _AXES or name not in ("tid", "ntid", "ctaid", "nctaid"):
                raise KeyError(name)
            return self._coordinate(name, _AXES.index(axis))
        words: dict[str, Any] = {
            "laneid": self.lane,
            "warpid": self.warp % self.warps_per_block,
            "nwarpid": [self.warps_per_block],
            "smid": [0],
            "nsmid": [1],
            "lanemask_eq": 1 << self.lane,
            "lanemask_lt": (1 << self.lane) - 1,
            "lanemask_le": (2 << self.lane) - 1,
            "lanemask_gt": 2**32 - (2 << self.lane),
            "lanemask_ge": 2**32 - (1 << self.lane),
            "dynamic_smem_size": [self.shared_bytes],
            "total_smem_size": [self.shared_bytes],
            "clock": [0],
        }
        if name in ("clock64", "globaltimer", "gridid"):
            return np.zeros(1, np.uint64)
        return np.asarray(words[name]).astype(np.uint32)

    def _coordinate(self, name: str, axis: int) -> Array:
        if name in ("ntid", "nctaid"):
            value: Any = [(self.extent if name == "ntid" else self.grid)[axis]]
        else:
            extent = self.extent if name == "tid" else self.grid
            value = self.thread if name == "tid" else self.numbers[self.block]
            for size in extent[:axis]:
                value = value // size
            value = value % extent[axis]
            if extent[axis] == 1:
                value = [0]
            elif name == "ctaid" and len(self.numbers) == 1:
                value = value[:1]
        return np.asarray(value).astype(np.uint32)
