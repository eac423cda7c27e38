"""Shared memory of the blocks of a batch, with a watch for races and for unwritten words.

Two threads of a block that use one place, one of them to write, need a barrier of the block
between them, or barriers of their warp that lead from the first to the second. For each place the
last write and the last read are kept, with the number of barriers passed by then.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from minijit.backends.emulator.errors import (
    MemoryAccessError,
    SharedRaceError,
    UninitialisedReadError,
)
from minijit.backends.emulator.memory import Fault
from minijit.backends.emulator.operation import Array

__all__ = ["SharedMemory"]

_NOBODY = -1
_SEVERAL = -2
_ATOMICALLY = -3
_MOST_PENDING = 128
_WARP = 32
_WHOLE_WARP = 0xFFFFFFFF


class SharedMemory:
    """Rows of bytes, one for each block; a place is ``unit`` bytes.

    Attributes:
        size: Bytes that a block has.
    """

    def __init__(self, blocks: int, size: int, unit: int, warps: int) -> None:
        """Make the memory of ``blocks`` blocks with ``warps`` warps each."""
        self.size, self.unit = size, unit
        self.row = max(-(-size // 16) * 16, 16)
        self.bytes = np.zeros(blocks * self.row, np.uint8)
        self._views = {width: self.bytes.view(f"u{width}") for width in (1, 2, 4, 8)}
        places = blocks * self.row // unit
        self._written = np.full(places, _NOBODY, np.int32)
        self._standing_at = np.zeros(places, np.int32)
        self._read = np.full(places, _NOBODY, np.int32)
        self._read_at = np.zeros(places, np.int32)
        self._ever = np.zeros(places, np.bool_)
        self._clock = np.zeros(blocks * warps, np.int32)
        self._block_start = np.zeros(blocks, np.int32)
        # For each thread of a warp and each other one: what this did before that time of the
        # warp's clock comes before what the thread does now. While all barriers were of whole
        # warps that time is now, and there is no need of a table.
        self._ordered: Array | None = None
        self._warps = warps
        # Reads that are not noted yet: a barrier of all blocks makes that needless.
        self._pending: list[tuple[Array, Array, Array]] = []
        # Whether anything was written since such a barrier, and whether everything was before it.
        self._dirty = self._complete = False

    def barrier(self, blocks: Array) -> None:
        """Order everything before against everything after, in these blocks."""
        if blocks.size == self._block_start.size:
            self._pending.clear()
            self._complete = self._complete or bool(self._ever.all())
            self._dirty = False
        self._settle()
        clock = self._clock.reshape(-1, self._warps)
        now = clock[blocks].max(axis=1) + 1
        clock[blocks] = now[:, None]
        self._block_start[blocks] = now

    def warp_barrier(self, warps: Array, masks: Array) -> None:
        """The same between the threads of each mask in these warps (numbered through the batch).

        Order is handed on: who meets a thread comes after all that it came after.
        """
        self._settle()
        if self._ordered is None:
            if masks.size == 1 and masks[0] == _WHOLE_WARP:
                self._clock[np.unique(warps)] += 1
                return
            self._ordered = np.repeat(self._clock, _WARP * _WARP).reshape(-1, _WARP, _WARP)
        masks = np.broadcast_to(masks, warps.shape)
        for mask in np.unique(masks):
            here = np.unique(warps[masks == mask])
            members = np.nonzero(mask >> np.arange(_WARP, dtype=np.uint32) & np.uint32(1))[0]
            self._clock[here] += 1
            before = self._ordered[here[:, None], members].max(axis=1)
            before[:, members] = self._clock[here, None]
            self._ordered[here[:, None], members] = before[:, None]

    def _check(self, offsets: Array, width: int) -> None:
        if int(offsets.max()) + width > self.size:
            lane = int(np.argmax(offsets > np.uint64(max(self.size - width, 0))))
            message = f"{width} bytes at byte {int(offsets[lane])} of {self.size} in shared memory"
            raise Fault(MemoryAccessError, lane, message)
        if width > 1 and int(np.bitwise_or.reduce(offsets)) & (width - 1):
            lane = int(np.argmax(offsets & np.uint64(width - 1) != 0))
            message = f"shared address {int(offsets[lane]):#x} is not a multiple of {width}"
            raise Fault(MemoryAccessError, lane, message)

    def locate(self, offsets: Array, blocks: Array, width: int, total: int) -> Array:
        """Return byte positions in ``bytes``, one for each thread.

        ``total`` is the size of the whole access, to which the address must be aligned.
        """
        self._check(offsets, total)
        return np.asarray(offsets.astype(np.int64) + blocks * self.row)

    def load(self, starts: Array, threads: Array, warps: Array, width: int) -> Array:
        """Read ``width`` bytes at each of ``starts`` for ``threads`` (numbered in the block)."""
        places = starts // self.unit
        for extra in range(max(width // self.unit, 1)):
            here = places + extra if extra else places
            if not self._complete:
                self._complain_unwritten(here)
            if self._dirty:
                self._meet(self._written, self._standing_at, here, threads, warps)
            self._pending.append((here, threads, warps))
        if len(self._pending) > _MOST_PENDING:
            self._settle()
        return np.asarray(self._views[width][starts >> (width.bit_length() - 1)])

    def store(self, starts: Array, threads: Array, warps: Array, width: int, values: Array) -> None:
        """Write ``values``."""
        self._settle()
        self._dirty = True
        places = starts // self.unit
        view, index = self._views[width], starts >> (width.bit_length() - 1)
        values = np.broadcast_to(values, index.shape)
        for extra in range(max(width // self.unit, 1)):
            self._note_write(places + extra, threads, warps)
        view[index] = values
        # Threads of a warp that write one place at once must write the same.
        lost = view[index] != values
        if lost.any():
            lane = int(np.argmax(lost))
            message = f"threads write different values at once to {self._where(starts[lane])}"
            raise Fault(SharedRaceError, lane, message)

    def atomic(
        self, starts: Array, threads: Array, warps: Array, width: int, compares: bool
    ) -> Array:
        """Note an atomic operation; return the view and let the caller compute.

        An operation that ``compares`` sees for itself whether what was read before still holds:
        loops around a compare-and-swap start with a plain read.
        """
        self._settle()
        self._dirty = True
        places = starts // self.unit
        marker = np.full(threads.shape, _ATOMICALLY, np.int32)
        for extra in range(max(width // self.unit, 1)):
            self._complain_unwritten(places + extra)
            self._meet(self._written, self._standing_at, places + extra, marker, warps)
            if not compares:
                self._meet(self._read, self._read_at, places + extra, marker, warps)
            self._written[places + extra] = _ATOMICALLY
            self._standing_at[places + extra] = self._clock[warps]
        return self._views[width]

    def _complain_unwritten(self, places: Array) -> None:
        ever = self._ever[places]
        if not ever.all():
            lane = int(np.argmin(ever))
            message = f"{self._where(places[lane] * self.unit)} was never written"
            raise Fault(UninitialisedReadError, lane, message)

    def _settle(self) -> None:
        """Note the reads that were put off; their warps have passed no barrier since."""
        for places, threads, warps in self._pending:
            self._note_read(places, threads, warps)
        self._pending.clear()

    def _note_read(self, places: Array, threads: Array, warps: Array) -> None:
        now = self._clock[warps]
        before = self._read[places]
        fresh = (before == _NOBODY) | (
            self._read_at[places] < self._block_start[warps // self._warps]
        )
        self._read[places] = np.where(fresh | (before == threads), threads, _SEVERAL)
        self._read_at[places] = now
        # Several threads of this very access read one place: the last one stands there now.
        others = self._read[places] != threads
        if others.any():
            self._read[places[others]] = _SEVERAL

    def _note_write(self, places: Array, threads: Array, warps: Array) -> None:
        self._meet(self._written, self._standing_at, places, threads, warps)
        self._meet(self._read, self._read_at, places, threads, warps)
        self._written[places] = threads
        self._standing_at[places] = self._clock[warps]
        self._ever[places] = True
        # Threads of several warps are not at one instruction at once but by chance.
        last = self._written[places]
        crossed = last // _WARP != threads // _WARP
        if crossed.any():
            lane = int(np.argmax(crossed))
            self._race(lane, f"thread {last[lane]}", places)

    def _meet(self, who: Array, when: Array, places: Array, threads: Array, warps: Array) -> None:
        """Complain where another thread was at a place and no barrier came since."""
        other, at = who[places], when[places]
        block = warps // self._warps
        near = (other != _NOBODY) & (other != threads) & (at >= self._block_start[block])
        if not near.any():
            return
        # Within a warp its own barriers are enough.
        same_warp = (other >= 0) & (other // _WARP == threads // _WARP)
        if self._ordered is None:
            until = self._clock[warps]
        else:
            until = self._ordered[warps, threads % _WARP, other % _WARP]
        near &= ~(same_warp & (at < until))
        if near.any():
            lane = int(np.argmax(near))
            whom = {_SEVERAL: "several threads", _ATOMICALLY: "atomic operations"}
            self._race(lane, whom.get(int(other[lane]), f"thread {int(other[lane])}"), places)

    def _race(self, lane: int, other: str, places: Array) -> NoReturn:
        where = self._where(places[lane] * self.unit)
        raise Fault(SharedRaceError, lane, f"{where} is used by {other} with no barrier between")

    def _where(self, start: int) -> str:
        return f"byte {int(start) % self.row} of shared memory"
