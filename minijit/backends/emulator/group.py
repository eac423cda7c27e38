"""What the instructions of a group of threads do beyond arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.backends.emulator import warp
from minijit.backends.emulator.atomics import apply_atomic
from minijit.backends.emulator.errors import (
    BarrierError,
    EmulationError,
    MemoryAccessError,
)
from minijit.backends.emulator.global_access import GlobalAccess
from minijit.backends.emulator.layout import SHARED_WINDOW
from minijit.backends.emulator.memory import RANGE_BITS, Fault
from minijit.backends.emulator.operation import Array
from minijit.backends.emulator.ptx import Instruction
from minijit.backends.emulator.system_calls import SystemCalls

__all__ = ["Group"]

_WHOLE_WARP = 0xFFFFFFFF


class Group(GlobalAccess, SystemCalls):
    """Lanes with all that a kernel can ask of them; compiled blocks call these methods."""

    __slots__ = ()

    def param(self, name: str, offset: int, kind: Any) -> Array:
        """Return a value that the launch passed."""
        return np.frombuffer(self.batch.params[name], kind, 1, offset)

    def trap(self, item: Instruction, guard: Array | None) -> None:
        """Complain about a thread that stops the kernel."""
        if guard is None or guard.any():
            lane = 0 if guard is None else int(np.argmax(guard))
            # Traps of PTX have no modifiers: one is the reason of a trap that the inliner put.
            reason = next(iter(item.modifiers), "the kernel stops itself (trap)")
            self._fail(item, EmulationError, lane, reason)

    # Generic addresses.

    def _windows(self, addresses: Array) -> list[tuple[str, Array | None, int]]:
        """Return the spaces of addresses, with the threads of each (None for all)."""
        number = addresses >> np.uint64(RANGE_BITS)
        names = {1: "shared", 2: "local"}
        first = int(number[0])
        if (number == number[0]).all():
            return [(names.get(first, "global"), None, first << 36 if first in names else 0)]
        parts: list[tuple[str, Array | None, int]] = []
        for code, name in names.items():
            if (number == code).any():
                parts.append((name, number == code, code << 36))
        if (number > 2).any():
            parts.append(("global", number > 2, 0))
        return parts

    def load_generic(
        self, item: Instruction, addresses: Array, width: int, count: int, guard: Array | None
    ) -> list[Array]:
        """Read at generic addresses."""
        results: list[Array] = []
        for space, mask, base in self._windows(addresses):
            both = mask if guard is None or mask is None else mask & guard
            both = guard if mask is None else both
            load = getattr(self, f"load_{space}")
            values = load(item, addresses - np.uint64(base), width, count, both)
            if mask is None:
                return list(values)
            if not results:
                results = [np.zeros(self.size, v.dtype) for v in values]
            for result, value in zip(results, values, strict=True):
                np.copyto(result, value, where=mask)
        return results

    def store_generic(
        self,
        item: Instruction,
        addresses: Array,
        width: int,
        values: tuple[Array, ...],
        guard: Array | None,
    ) -> None:
        """Write at generic addresses."""
        for space, mask, base in self._windows(addresses):
            both = mask if guard is None or mask is None else mask & guard
            both = guard if mask is None else both
            store = getattr(self, f"store_{space}")
            store(item, addresses - np.uint64(base), width, values, both)

    def atomic(
        self,
        item: Instruction,
        space: str,
        name: str,
        addresses: Array,
        values: tuple[Array, ...],
        guard: Array | None,
        wanted: bool,
    ) -> Array | None:
        """Update memory; return what each thread found if that is ``wanted``."""
        chosen = self._chosen(guard)
        if chosen is not None and not chosen.size:
            return np.zeros(1, values[0].dtype) if wanted else None
        addresses = self._each(addresses, chosen)
        values = tuple(self._each(value, chosen) for value in values)
        kind = values[0].dtype
        width = kind.itemsize
        if space == "generic":
            space = "shared" if int(addresses[0] >> np.uint64(RANGE_BITS)) == 1 else "global"
            if space == "shared":
                addresses = addresses - np.uint64(SHARED_WINDOW)
        if self.batch.counters is not None:
            self.batch.counters.atomics += addresses.size
        try:
            if space == "shared":
                spread = np.zeros(self.size, np.uint64)
                spread[slice(None) if chosen is None else chosen] = addresses
                starts, threads, warps = self._shared(item, spread, width, chosen)
                view = self.batch.shared.atomic(starts, threads, warps, width, name == "cas")
                places = starts // width
            elif space == "global":
                memory = self.batch.memory
                buffer, places = memory.locate(addresses, width)
                memory.check_written(buffer, places, width)
                if not buffer.writable:
                    raise Fault(MemoryAccessError, 0, "a write to read-only memory")
                view = buffer.view(width)
                self._count(buffer, places, width, chosen, True)
            else:
                raise Fault(MemoryAccessError, 0, f"an atomic operation in {space} memory")
        except Fault as fault:
            self._failed(item, fault, chosen)
        except LookupError:
            other = Fault(MemoryAccessError, 0, "one atomic instruction on several buffers")
            self._failed(item, other, chosen)
        found = apply_atomic(name, view.view(kind), places, values, wanted)
        if found is not None and chosen is not None:
            full = np.zeros(self.size, kind)
            full[chosen] = found
            return full
        return found

    # Meetings.

    def _where(self) -> tuple[Array, Array]:
        return self.pick(self.batch.lane), self.pick(self.batch.warp)

    def _members(self, item: Instruction, masks: Array) -> Array:
        """Return which of the threads that a mask names exist; all that do are here.

        A thread must name itself, and those that it names must name the same ones.
        """
        if masks.size == 1 and masks[0] == _WHOLE_WARP and self.batch.alive is None:
            return masks
        lanes, warps = self._where()
        named = masks >> lanes.astype(np.uint32) & np.uint32(1)
        if not named.all():
            lane = int(np.argmin(named))
            message = f"the mask {masks[lane % masks.size]:#x} lacks the thread itself"
            self._fail(item, BarrierError, lane, message)
        members: Array = masks & warp.ballots(np.ones(lanes.shape, np.bool_), lanes, warps)
        if masks.size > 1:
            agreeing, _ = warp.matches("any", masks, members, lanes, warps)
            if (agreeing != members).any():
                lane = int(np.argmax(agreeing != members))
                message = f"the mask {masks[lane]:#x} names threads that name another mask"
                self._fail(item, BarrierError, lane, message)
        return members

    def shuffle(
        self, item: Instruction, values: Array, by: Array, clamp: Array, members: Array
    ) -> tuple[Array, Array]:
        """Exchange values between the threads of a warp."""
        mode = next(m for m in item.modifiers if m in ("up", "down", "bfly", "idx"))
        lanes, warps = self._where()
        members = self._members(item, members)
        whole = self.lanes is None
        try:
            return warp.exchange(mode, values, by, clamp, members, lanes, warps, whole)
        except Fault as fault:
            self._failed(item, fault, None)

    def vote(self, item: Instruction, value: Array, members: Array) -> tuple[Array]:
        """Vote."""
        mode = next(m for m in item.modifiers if m in ("ballot", "any", "all", "uni"))
        return (warp.vote(mode, value, self._members(item, members), *self._where()),)

    def match(self, item: Instruction, value: Array, members: Array) -> tuple[Array, Array]:
        """Find threads with the same value."""
        mode = "all" if "all" in item.modifiers else "any"
        return warp.matches(mode, value, self._members(item, members), *self._where())

    def reduce(self, item: Instruction, value: Array, members: Array) -> tuple[Array]:
        """Combine the values of a warp."""
        name = next(m for m in item.modifiers if m in ("add", "min", "max", "and", "or", "xor"))
        return (warp.reductions(name, value, self._members(item, members), *self._where()),)

    def active_mask(self) -> Array:
        """Return the threads of each warp that are here."""
        lanes, warps = self._where()
        return warp.ballots(np.ones(lanes.shape, np.bool_), lanes, warps)

    def warp_barrier(self, item: Instruction, members: Array) -> None:
        """Order what the threads of each mask did before against what they do after."""
        members = self._members(item, members)
        self.batch.shared.warp_barrier(self.pick(self.batch.warp), members)

    def barrier_vote(self, item: Instruction, value: Array) -> Array:
        """Combine a predicate over each block."""
        blocks = self.pick(self.batch.block)
        value = np.broadcast_to(value, blocks.shape)
        count = np.bincount(blocks, value, minlength=len(self.batch.numbers)).astype(np.int64)
        present = np.bincount(blocks, minlength=len(self.batch.numbers))
        if "popc" in item.modifiers:
            return count[blocks].astype(np.uint32)
        result = count == present if "and" in item.modifiers else count > 0
        return result[blocks]
