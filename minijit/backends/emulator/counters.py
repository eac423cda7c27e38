"""What a launch cost: instructions, memory sectors, bank conflicts, divergence, meetings."""

from __future__ import annotations

import dataclasses

import numpy as np

from minijit.backends.emulator.cache import BlockCaches, distinct_pairs
from minijit.backends.emulator.memory import Buffer
from minijit.backends.emulator.operation import Array

__all__ = ["Counters", "Traffic"]

_SECTOR_BITS = 5
_BANKS = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Traffic:
    """Sectors of one buffer.

    Attributes:
        l1: How many warps ask for, one that two requests need counted twice.
        l2: How many the L1 does not have.
        dram: How many the L2 does not have either.
        distinct: How many different ones.
    """

    l1: int = 0
    l2: int = 0
    dram: int = 0
    distinct: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        """Return the sums."""
        return Traffic(
            self.l1 + other.l1,
            self.l2 + other.l2,
            self.dram + other.dram,
            self.distinct + other.distinct,
        )


@dataclasses.dataclass(slots=True)
class Counters:
    """Sums over one launch or several.

    Attributes:
        thread_instructions: Instructions, each counted once for each thread that runs it.
        warp_instructions: Instructions, each counted once for each warp with a thread that runs it.
        l1_sectors: Sectors of 32 bytes that warps ask global memory for.
        fewest_sectors: The fewest that could hold what each request asks for.
        l2_sectors: Those that the L1 passes on (``cache.py`` says what the caches hold).
        dram_sectors: Those that the L2 passes on.
        distinct_sectors: Sectors that the launch reads or writes at all, reads and writes apart.
        shared_requests: Accesses of warps to shared memory.
        bank_conflicts: Turns that such accesses take beyond the first.
        branches: Conditional branches that a warp runs.
        divergent_branches: Those at which its threads go both ways.
        barriers: Barriers that a block passes.
        atomics: Atomic operations of threads.
        traffic: Of each buffer, by its address and whether it is written.
    """

    thread_instructions: int = 0
    warp_instructions: int = 0
    l1_sectors: int = 0
    fewest_sectors: int = 0
    l2_sectors: int = 0
    dram_sectors: int = 0
    distinct_sectors: int = 0
    shared_requests: int = 0
    bank_conflicts: int = 0
    branches: int = 0
    divergent_branches: int = 0
    barriers: int = 0
    atomics: int = 0
    traffic: dict[tuple[int, bool], Traffic] = dataclasses.field(default_factory=dict)
    _latest: dict[tuple[int, bool], Array] = dataclasses.field(default_factory=dict)
    _moved: dict[tuple[int, bool], Traffic] = dataclasses.field(default_factory=dict)

    def global_access(
        self,
        buffer: Buffer,
        starts: Array,
        warps: Array,
        width: int,
        writes: bool,
        caches: BlockCaches,
    ) -> None:
        """Count an access to ``width`` bytes at ``starts``, bytes from the start of the buffer."""
        key = (buffer.address, writes)
        if key not in self._latest:
            self._latest[key] = np.zeros((buffer.size >> _SECTOR_BITS) + 1, np.int64)
        starts = np.broadcast_to(starts, warps.shape)
        # A request is what one warp asks for at once; threads may ask for the same bytes.
        counts = np.bincount(distinct_pairs(warps, starts)[0])
        warps, sectors = distinct_pairs(warps, starts >> _SECTOR_BITS)
        l2, dram = caches.missed(self._latest[key], warps, sectors, writes=writes)
        self._moved[key] = self._moved.get(key, Traffic()) + Traffic(sectors.size, l2, dram)
        per_sector = 32 // width
        self.fewest_sectors += int((-(-counts // per_sector)).sum())

    def close(self) -> None:
        """Turn what was touched into numbers, at the end of a launch."""
        for key, latest in self._latest.items():
            found = self._moved[key] + Traffic(distinct=int(np.count_nonzero(latest)))
            self.l1_sectors += found.l1
            self.l2_sectors += found.l2
            self.dram_sectors += found.dram
            self.distinct_sectors += found.distinct
            self.traffic[key] = self.traffic.get(key, Traffic()) + found
        self._latest.clear()
        self._moved.clear()

    def add(self, other: Counters) -> None:
        """Add what another launch cost."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for key, found in other.traffic.items():
            self.traffic[key] = self.traffic.get(key, Traffic()) + found

    def shared_access(self, starts: Array, lanes: Array, warps: Array, width: int) -> None:
        """Count an access to shared memory; ``starts`` are bytes, ``lanes`` those of each warp."""
        # Eight-byte accesses are served in halves of a warp, sixteen-byte ones in quarters.
        parts = max(width // 4, 1)
        self.shared_requests += int(np.unique(warps).size)
        if parts > 1:
            warps = warps * np.int64(parts) + lanes * parts // _BANKS
        words = starts >> 2
        key = np.unique(warps.astype(np.int64) << 40 | words)
        bank = (key >> 40) * _BANKS + (key & (_BANKS - 1))
        turns = np.bincount(bank - bank.min())
        padded = np.zeros(-(-(turns.size + int(bank.min()) % _BANKS) // _BANKS) * _BANKS, np.int64)
        first = int(bank.min()) % _BANKS
        padded[first : first + turns.size] = turns
        longest = padded.reshape(-1, _BANKS).max(axis=1)
        self.bank_conflicts += int(np.maximum(longest - 1, 0).sum())

    def branch(self, taken: Array, warps: Array) -> None:
        """Count a conditional branch of these threads."""
        size = int(warps.max()) + 1
        present = np.bincount(warps, minlength=size)
        yes = np.bincount(warps[taken], minlength=size)
        self.branches += int((present > 0).sum())
        self.divergent_branches += int(((yes > 0) & (yes < present)).sum())


_SUMS = tuple(f.name for f in dataclasses.fields(Counters) if f.type == "int")
