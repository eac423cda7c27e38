"""Loads and stores of a group in memory that only a block or a thread sees."""

from __future__ import annotations

import numpy as np

from minijit.backends.emulator.errors import MemoryAccessError, UninitialisedReadError
from minijit.backends.emulator.lanes import Lanes
from minijit.backends.emulator.memory import Fault
from minijit.backends.emulator.operation import Array
from minijit.backends.emulator.ptx import Instruction

__all__ = ["BlockAccess"]


class BlockAccess(Lanes):
    """Lanes that read and write shared and local memory."""

    __slots__ = ()

    # Local memory.

    def _local(
        self, item: Instruction, addresses: Array, width: int, chosen: Array | None
    ) -> Array:
        batch = self.batch
        lanes = np.arange(batch.size) if self.lanes is None else self.lanes
        lanes = lanes if chosen is None else lanes[chosen]
        if addresses.size != 1 and chosen is not None:
            addresses = addresses[chosen]
        offsets = addresses.view(np.int64)
        bad = (offsets < 0) | (offsets + width > batch.local_size) | (offsets % width != 0)
        if bad.any():
            lane = int(np.argmax(bad))
            message = f"{width} bytes at byte {int(offsets[lane])} of local memory"
            message = f"{message}, which has {batch.local_size}"
            self._failed(item, Fault(MemoryAccessError, lane, message), chosen)
        return lanes * batch.local_row + offsets

    def _whole(self, value: Array, chosen: Array | None) -> Array:
        """Return the values of the chosen lanes as values of all, zero elsewhere."""
        if chosen is None:
            return value
        full = np.zeros(self.size, value.dtype)
        full[chosen] = value
        return full

    def load_local(
        self, item: Instruction, addresses: Array, width: int, count: int, guard: Array | None
    ) -> list[Array]:
        """Read local memory."""
        chosen = self._chosen(guard)
        starts = self._local(item, addresses, width * count, chosen)
        results = []
        for place in range(count):
            places = starts + place * width
            for byte in range(width):
                written = self.batch.local_written[places + byte]
                if not written.all():
                    lane = int(np.argmin(written))
                    offset = int(places[lane]) % self.batch.local_row + byte
                    message = f"byte {offset} of local memory was never written"
                    self._failed(item, Fault(UninitialisedReadError, lane, message), chosen)
            value = self.batch.local.view(f"u{width}")[places // width]
            results.append(self._whole(value, chosen))
        return results

    def store_local(
        self,
        item: Instruction,
        addresses: Array,
        width: int,
        values: tuple[Array, ...],
        guard: Array | None,
    ) -> None:
        """Write local memory."""
        chosen = self._chosen(guard)
        starts = self._local(item, addresses, width * len(values), chosen)
        for place, value in enumerate(values):
            places = starts + place * width
            self.batch.local.view(f"u{width}")[places // width] = self._each(value, chosen)
            for byte in range(width):
                self.batch.local_written[places + byte] = True

    # Shared memory.

    def _shared(
        self, item: Instruction, addresses: Array, width: int, chosen: Array | None
    ) -> tuple[Array, Array, Array]:
        """Return byte positions, threads and warps of the chosen threads."""
        batch = self.batch
        blocks, threads, warps = (self.pick(x) for x in (batch.block, batch.thread, batch.warp))
        if chosen is not None:
            blocks, threads, warps = blocks[chosen], threads[chosen], warps[chosen]
            addresses = addresses if addresses.size == 1 else addresses[chosen]
        try:
            starts = batch.shared.locate(addresses, blocks, width, width)
        except Fault as fault:
            self._failed(item, fault, chosen)
        if batch.counters is not None:
            batch.counters.shared_access(starts % batch.shared.row, threads % 32, warps, width)
        return starts, threads, warps

    def load_shared(
        self, item: Instruction, addresses: Array, width: int, count: int, guard: Array | None
    ) -> list[Array]:
        """Read shared memory."""
        chosen = self._chosen(guard)
        starts, threads, warps = self._shared(item, addresses, width * count, chosen)
        results = []
        for place in range(count):
            try:
                value = self.batch.shared.load(starts + place * width, threads, warps, width)
            except Fault as fault:
                self._failed(item, fault, chosen)
            results.append(self._whole(value, chosen))
        return results

    def store_shared(
        self,
        item: Instruction,
        addresses: Array,
        width: int,
        values: tuple[Array, ...],
        guard: Array | None,
    ) -> None:
        """Write shared memory."""
        chosen = self._chosen(guard)
        if chosen is not None and not chosen.size:
            return
        starts, threads, warps = self._shared(item, addresses, width * len(values), chosen)
        for place, value in enumerate(values):
            each = self._each(value, chosen)
            try:
                self.batch.shared.store(starts + place * width, threads, warps, width, each)
            except Fault as fault:
                self._failed(item, fault, chosen)
