"""Loads and stores of a group in global memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.backends.emulator.errors import MemoryAccessError
from minijit.backends.emulator.lanes import Lanes
from minijit.backends.emulator.memory import RANGE_BITS, Buffer, Fault
from minijit.backends.emulator.operation import Array
from minijit.backends.emulator.ptx import Instruction

__all__ = ["GlobalAccess"]


class GlobalAccess(Lanes):
    """Lanes that read and write buffers."""

    __slots__ = ()

    def load_global(
        self,
        item: Instruction,
        addresses: Array,
        width: int,
        count: int,
        guard: Array | None,
        read_only: bool = False,
    ) -> list[Array]:
        """Return ``count`` arrays of the bits at ``addresses``."""
        chosen = self._chosen(guard)
        if chosen is not None:
            return self._partly(
                chosen, width, count, addresses,
                lambda a: self._load(item, a, width, count, chosen, read_only),
            )  # fmt: skip
        return self._load(item, addresses, width, count, None, read_only)

    def _partly(
        self, chosen: Array, width: int, count: int, addresses: Array, load: Any
    ) -> list[Array]:
        results = [np.zeros(self.size, f"u{width}") for _ in range(count)]
        if chosen.size:
            part = addresses if addresses.size == 1 else addresses[chosen]
            for result, value in zip(results, load(part), strict=True):
                result[chosen] = value
        return results

    def _load(
        self,
        item: Instruction,
        addresses: Array,
        width: int,
        count: int,
        chosen: Array | None,
        read_only: bool,
    ) -> list[Array]:
        memory, whole = self.batch.memory, width * count
        try:
            buffer, places = memory.locate(addresses, whole)
            memory.check_written(buffer, places, whole)
        except LookupError:
            return self._scattered(item, addresses, width, count, chosen, read_only)
        except Fault as fault:
            self._failed(item, fault, chosen)
        if read_only:
            lane = buffer.note_read_only(places, whole)
            if lane is not None:
                message = "a read as constant (ld.global.nc) of memory that the kernel writes"
                self._failed(item, Fault(MemoryAccessError, lane, message), chosen)
        self._count(buffer, places, whole, chosen, False)
        data = buffer.view(whole)[places]
        if count == 1:
            return [data]
        columns = data.view(f"u{width}").reshape(-1, count)
        return [np.ascontiguousarray(columns[:, n]) for n in range(count)]

    def _count(
        self, buffer: Buffer, places: Array, whole: int, chosen: Array | None, writes: bool
    ) -> None:
        counters = self.batch.counters
        if counters is not None:
            warps = self.pick(self.batch.warp)
            warps = warps if chosen is None else warps[chosen]
            caches = self.batch.caches
            counters.global_access(buffer, places * whole, warps, whole, writes, caches)

    def _scattered(
        self,
        item: Instruction,
        addresses: Array,
        width: int,
        count: int,
        chosen: Array | None,
        read_only: bool,
    ) -> list[Array]:
        """Read from several buffers: one after the other."""
        results = [np.zeros(addresses.size, f"u{width}") for _ in range(count)]
        lanes = np.arange(self.size) if chosen is None else chosen
        for number in np.unique(addresses >> np.uint64(RANGE_BITS)):
            part = np.nonzero(addresses >> np.uint64(RANGE_BITS) == number)[0]
            values = self._load(item, addresses[part], width, count, lanes[part], read_only)
            for result, value in zip(results, values, strict=True):
                result[part] = value
        return results

    def store_global(
        self,
        item: Instruction,
        addresses: Array,
        width: int,
        values: tuple[Array, ...],
        guard: Array | None,
    ) -> None:
        """Write the arrays of bits ``values`` side by side at ``addresses``."""
        chosen = self._chosen(guard)
        if chosen is not None and not chosen.size:
            return
        addresses = self._each(addresses, chosen)
        values = tuple(self._each(value, chosen) for value in values)
        memory, whole = self.batch.memory, width * len(values)
        try:
            buffer, places = memory.locate(addresses, whole)
        except LookupError:
            lanes = np.arange(self.size) if chosen is None else chosen
            for number in np.unique(addresses >> np.uint64(RANGE_BITS)):
                part = addresses >> np.uint64(RANGE_BITS) == number
                mask = np.zeros(self.size, np.bool_)
                mask[lanes[part]] = True
                spread = np.zeros(self.size, np.uint64)
                spread[lanes] = addresses
                full = []
                for value in values:
                    wide = np.zeros(self.size, value.dtype)
                    wide[lanes] = value
                    full.append(wide)
                self.store_global(item, spread, width, tuple(full), mask)
            return
        except Fault as fault:
            self._failed(item, fault, chosen)
        if not buffer.writable:
            self._failed(item, Fault(MemoryAccessError, 0, "a write to read-only memory"), chosen)
        memory.mark_written(buffer, places, whole)
        lane = buffer.note_write(places, whole)
        if lane is not None:
            message = "a write to memory that the kernel reads as constant (ld.global.nc)"
            self._failed(item, Fault(MemoryAccessError, lane, message), chosen)
        self._count(buffer, places, whole, chosen, True)
        if len(values) == 1:
            buffer.view(whole)[places] = values[0]
            return
        packed = np.empty((addresses.size, len(values)), f"u{width}")
        for place, value in enumerate(values):
            packed[:, place] = value
        kind = f"V{whole}" if whole > 8 else f"u{whole}"
        buffer.view(whole)[places] = packed.reshape(-1).view(kind)
