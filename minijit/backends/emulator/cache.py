"""What launches find in caches, by a model that is meant to hold less than a GPU does.

Warps ask the L1 of their multiprocessor for sectors of 32 bytes. What a warp of the same block has
asked for a moment ago is there; the L1 asks the L2 for the rest, and the L2 asks memory. NVIDIA's
profiler counts all three: ``l1tex__t_sectors``, ``lts__t_sectors`` and ``dram__sectors``. Here

- a block has half of what is left to it of an L1 when the multiprocessor is as full of such blocks
  as threads and shared memory allow (fewer fit where registers are many, and have more each). The
  other half is for warps that run ahead of others, which emulated ones never do;
- writes go through the L1 as they are. The L2 joins those that a block does within so short a time
  that the L1 would still hold the sector;
- of other blocks the L2 knows those alone whose numbers are less than eight apart, which run at the
  same time even on a GPU of eight multiprocessors, and of these what they do at the same point of
  their run. What blocks read again and again moves again and again, even if a GPU would find it in
  its tens of megabytes;
- a line of 128 bytes takes its whole place, even if one sector of it is used;
- a line that several instructions touch counts again for each. So what is found here is found in
  any cache of that size that replaces what was used least recently.
"""

from __future__ import annotations

import numpy as np

from minijit.backends.emulator.operation import Array

__all__ = ["BlockCaches", "cached_lines", "distinct_pairs"]

# Of a multiprocessor of compute capability 9.0, from CUDA's programming guide.
_L1_BYTES = 256 << 10
_MOST_SHARED = 228 << 10
_MOST_THREADS = 2048
_LINE_BYTES = 128
_SECTORS_OF_LINE_BITS = 2
_CLOCK_BITS = 32
_NEIGHBOURS = 7
_HALF_CLOCK = 1 << (_CLOCK_BITS - 1)


def cached_lines(threads: int, shared: int) -> int:
    """Return how many lines a block of so many threads, with so many bytes shared, has cached."""
    blocks = max(min(_MOST_THREADS // threads, _MOST_SHARED // max(shared, 1)), 1)
    return max(_L1_BYTES // blocks - shared, 0) // 2 // _LINE_BYTES


class BlockCaches:
    """What the blocks of a batch have touched a moment ago."""

    __slots__ = ("_lines", "_now", "_warps")

    def __init__(self, numbers: Array, warps: int, lines: int) -> None:
        """Start empty.

        Args:
            numbers: Of the blocks in the grid.
            warps: Of a block.
            lines: That a block has cached.
        """
        self._warps, self._lines = warps, lines
        # The block, far enough from 0, which is never, and then how many lines it has touched.
        self._now = (numbers.astype(np.int64) + _NEIGHBOURS + 1) << _CLOCK_BITS

    def missed(
        self, latest: Array, warps: Array, sectors: Array, *, writes: bool
    ) -> tuple[int, int]:
        """Return how many sectors of one instruction go to the L2, and how many to memory.

        Args:
            latest: For each sector of the buffer when it was touched last, 0 for never (int64); is
                updated.
            warps: Of the batch.
            sectors: That each of these asks for, once.
            writes: Whether it writes them.
        """
        asked = sectors.size
        blocks = warps
        if self._warps > 1:
            blocks, sectors = distinct_pairs(warps // self._warps, sectors)
        now = self._now[blocks]
        before = latest[sectors]
        latest[sectors] = now
        age = now - before
        cached = (age >= 0) & (age <= self._lines)
        # Of neighbours that touch a sector at once the one that is noted moves it.
        meanwhile = latest[sectors]
        found = cached | self._is_near(age) | ((meanwhile != now) & self._is_near(now - meanwhile))
        lines, _ = distinct_pairs(blocks, sectors >> _SECTORS_OF_LINE_BITS)
        self._now += np.bincount(lines, minlength=self._now.size)
        to_l2 = asked if writes else sectors.size - int(np.count_nonzero(cached))
        return to_l2, sectors.size - int(np.count_nonzero(found))

    def _is_near(self, age: Array) -> Array:
        """Whether the block itself or a neighbour has touched it at about this point of its run."""
        age = age + _HALF_CLOCK
        near = np.abs(age >> _CLOCK_BITS) <= _NEIGHBOURS
        apart = (age & ((1 << _CLOCK_BITS) - 1)) - _HALF_CLOCK
        near &= np.abs(apart) <= self._lines
        return np.asarray(near)


def distinct_pairs(groups: Array, values: Array) -> tuple[Array, Array]:
    """Return the different pairs of a group and a value, in order."""
    low = int(values.min())
    bits = (int(values.max()) - low).bit_length()
    keys = (groups << bits) | (values - low)
    new = np.empty(keys.size, np.bool_)
    new[0] = True
    np.greater(keys[1:], keys[:-1], out=new[1:])
    if np.less(keys[1:], keys[:-1]).any():
        keys.sort()
        np.greater(keys[1:], keys[:-1], out=new[1:])
    kept = keys[new]
    return kept >> bits, (kept & ((1 << bits) - 1)) + low
