"""A backend that remembers what it compiles, so that counted launches become reports."""

from __future__ import annotations

import re
import struct
from typing import Any

from minijit.backends.base import Binary
from minijit.backends.cuda.device import ComputeCapability
from minijit.backends.emulator.backend import EmulatedBackend
from minijit.backends.emulator.counters import Counters, Traffic
from minijit.backends.emulator.device import EmulatedDevice, Launch
from minijit.backends.emulator.memory import RANGE_BITS
from minijit.backends.emulator.report import BufferTraffic, LaunchReport, LibraryStep
from minijit.lowering.kernel_ir import Kernel, Load, walk
from minijit.lowering.source import KernelSource

__all__ = ["MeasuringBackend"]

_SECTOR = 32
# An operand that every row uses stays cached if it leaves most of an L2 (50 MB, H100) to others.
_CACHED_SECTORS = (16 << 20) // _SECTOR


class MeasuringBackend(EmulatedBackend):
    """An emulated GPU of its own that counts; it is for one program, run once or a few times."""

    def __init__(self, cc: ComputeCapability) -> None:
        """Make a fresh device of compute capability ``cc``."""
        self.emulated = EmulatedDevice(cc, count=True)
        super().__init__(self.emulated, cc)
        self._made: dict[bytes, tuple[KernelSource, Binary]] = {}

    def result(self, array: Any) -> Any:
        """Return the array as it is: results are for :meth:`EmulatedDevice` alone."""
        return array

    def reports(self) -> list[LaunchReport | LibraryStep]:
        """Return what each launch cost, in order; whole kernels of users are named alone."""
        return [
            self._report(launch, *self._made[launch.code])
            if launch.code in self._made
            else LibraryStep(_entry(launch.code))
            for launch in self.emulated.launches
        ]

    def listed(self, source: KernelSource, binary: Binary) -> Binary:
        """Return what is loaded, and remember what it is."""
        listed = super().listed(source, binary)
        self._made[listed.code] = source, listed
        return listed

    def _report(self, launch: Launch, source: KernelSource, binary: Binary) -> LaunchReport:
        counters, used = launch.counters, binary.resources
        return LaunchReport(
            name=source.kernel.name,
            schedule=source.schedule,
            grid=launch.grid,
            block=launch.block,
            elements=max((buffer.size for buffer in source.kernel.buffers), default=0),
            instructions=counters.thread_instructions,
            lanes_used=counters.thread_instructions / max(32 * counters.warp_instructions, 1),
            l1_sectors=counters.l1_sectors,
            fewest_by_request=counters.fewest_sectors,
            l2_sectors=counters.l2_sectors,
            dram_sectors=counters.dram_sectors,
            fewest=counters.distinct_sectors,
            traffic=self._traffic(source.kernel, launch.values, counters),
            shared_requests=counters.shared_requests,
            bank_conflicts=counters.bank_conflicts,
            branches=counters.branches,
            divergent_branches=counters.divergent_branches,
            barriers=counters.barriers,
            atomics=counters.atomics,
            registers=used["registers"],
            shared=used["shared"] + launch.shared,
            stack=used["stack"],
            spill_stores=used["spill_stores"],
            spill_loads=used["spill_loads"],
        )

    def _traffic(
        self, kernel: Kernel, values: tuple[bytes, ...], counters: Counters
    ) -> tuple[BufferTraffic, ...]:
        spread = _broadcast(kernel)
        places: dict[int, list[int]] = {}
        for place in range(len(kernel.buffers)):
            (pointer,) = struct.unpack("<Q", values[place])
            places.setdefault(pointer >> RANGE_BITS, []).append(place)
        found = []
        for (address, written), traffic in counters.traffic.items():
            # Tables of constants that the kernel brings along have no place.
            here = places.get(address >> RANGE_BITS, [])
            name = ", ".join(kernel.buffers[place].name for place in here) or "constants"
            broadcast = not written and all(place in spread for place in here)
            found.append(_of(name, written, traffic, broadcast))
        return tuple(found)


def _entry(code: bytes) -> str:
    found = re.search(rb"\.entry (\w+)", code)
    assert found is not None
    return found[1].decode()


def _of(name: str, written: bool, traffic: Traffic, broadcast: bool) -> BufferTraffic:
    kept = broadcast and traffic.distinct <= _CACHED_SECTORS
    return BufferTraffic(
        name, written, traffic.l1, traffic.l2, traffic.dram, traffic.distinct, kept
    )


def _broadcast(kernel: Kernel) -> set[int]:
    """Return the buffers whose every load is the same along some dimension of the space."""
    wide = {dim for dim, extent in enumerate(kernel.extents) if extent > 1}
    fixed: dict[int, bool] = {}
    for statement in walk(kernel.body):
        if isinstance(statement, Load):
            repeats = bool(wide - set(statement.index.dims))
            fixed[statement.buffer] = fixed.get(statement.buffer, True) and repeats
    return {buffer for buffer, repeats in fixed.items() if repeats}
