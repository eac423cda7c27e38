"""Runs a kernel: groups of threads through basic blocks, brought together again where they meet.

Of all groups the one with the smallest rank runs next, which is the deepest call and then the
earliest block; what was scattered by a branch is together again at the block where both ways end.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from minijit.backends.emulator.batch import Batch
from minijit.backends.emulator.blocks import EXIT, reads
from minijit.backends.emulator.codegen import CompiledBlock
from minijit.backends.emulator.errors import (
    BarrierError,
    HungKernelError,
    UninitialisedReadError,
)
from minijit.backends.emulator.group import Group
from minijit.backends.emulator.lanes import At
from minijit.backends.emulator.operation import Array
from minijit.backends.emulator.ptx import Instruction
from minijit.backends.emulator.warp import ballots

__all__ = ["Machine"]

# So many steps in which no thread ends; then the scheduler serves the groups in turn.
_PATIENCE = 20_000
_FAIRNESS = 16


class Machine:
    """One batch on its way through a kernel."""

    def __init__(self, blocks: tuple[CompiledBlock, ...], batch: Batch, limit: int) -> None:
        """Put all threads of ``batch`` before the first block; ``limit`` steps are allowed."""
        self.blocks, self.batch, self.limit = blocks, batch, limit
        self.registers: dict[str, Array] = {}
        # Which threads have written a register, where others that have not may come to read it.
        self.partial: dict[str, Array] = {}
        self.waiting: dict[int, Array | None] = {0: batch.alive}
        self.steps = self.number = 0
        self.there = _bits_of_warps(batch)
        self.ended = batch.size - (batch.size if batch.alive is None else batch.alive.size)

    def run(self) -> None:
        """Run until every thread has ended.

        Raises:
            At: a thread did something wrong.
        """
        rank = [compiled.block.rank for compiled in self.blocks]
        while self.waiting:
            self.steps += 1
            if self.steps > self.limit:
                self._hung()
            ready = [n for n in self.waiting if self.blocks[n].meeting is None]
            if not ready:
                self._meet()
                continue
            number = min(ready, key=rank.__getitem__)
            if self.steps > _PATIENCE and self.steps % _FAIRNESS == 0:
                # A thread may wait for one that never comes to run, as in a spin lock.
                number = ready[self.steps // _FAIRNESS % len(ready)]
            self._step(number, self.waiting.pop(number))

    # Meetings.

    def _meet(self) -> None:
        """Let go on what has come together."""
        whole = len(self.waiting) == 1 and self.ended == 0
        moved = False
        for number in sorted(self.waiting, key=lambda n: self.blocks[n].block.rank):
            lanes = self.waiting[number]
            item = self.blocks[number].meeting
            assert item is not None
            is_barrier = item.name in ("bar", "barrier") and "warp" not in item.modifiers
            together: Array | None = lanes
            if item.name == "call":
                # All of the grid is in one batch.
                together = self._whole_grid(lanes)
                is_barrier = True
            elif whole:
                pass
            elif item.name == "activemask":
                together = lanes
            elif is_barrier:
                together = self._whole_blocks(lanes)
            else:
                together = self._whole_exchanges(number, lanes)
            if together is not None and not together.size:
                continue
            if together is lanes:
                del self.waiting[number]
            else:
                assert lanes is not None
                assert together is not None
                self.waiting[number] = np.setdiff1d(lanes, together, assume_unique=True)
            if is_barrier:
                self._pass_barrier(together)
            self._step(number, together)
            moved = True
            break
        if not moved:
            self._stuck()

    def _pick(self, values: Array, lanes: Array | None) -> Array:
        return values if lanes is None else values[lanes]

    def _whole_grid(self, lanes: Array | None) -> Array | None:
        alive = self.batch.size if self.batch.alive is None else self.batch.alive.size
        return lanes if lanes is None or lanes.size == alive else lanes[:0]

    def _whole_blocks(self, lanes: Array | None) -> Array | None:
        if lanes is None or lanes is self.batch.alive:
            return lanes
        blocks = self._pick(self.batch.block, lanes)
        count = np.bincount(blocks, minlength=len(self.batch.numbers))
        complete = count == self.batch.threads
        if complete[blocks].all():
            return lanes
        assert lanes is not None
        found: Array = lanes[complete[blocks]]
        return found

    def _whole_exchanges(self, number: int, lanes: Array | None) -> Array | None:
        """Return the lanes whose partners are all here."""
        compiled = self.blocks[number]
        if lanes is None:
            return lanes
        members = self._members(compiled, lanes)
        present = ballots(np.ones(lanes.shape, np.bool_), *(
            self._pick(x, lanes) for x in (self.batch.lane, self.batch.warp)
        ))  # fmt: skip
        missing = np.broadcast_to(members & ~present, lanes.shape)
        if missing.any():
            # A mask may name threads that the last warp of a block does not have.
            missing = missing & self.there[self.batch.warp[lanes]]
        here = missing == 0
        return lanes if here.all() else lanes[here]

    def _members(self, compiled: CompiledBlock, lanes: Array) -> Array:
        item = compiled.meeting
        assert item is not None
        mask = item.operands[-1]
        value = compiled.constant_or_register(mask)
        if isinstance(value, str):
            return self._value(compiled, value, lanes)
        return np.array([value & 0xFFFFFFFF], np.uint32)

    def _pass_barrier(self, lanes: Array | None) -> None:
        if lanes is None or lanes is self.batch.alive:
            blocks = np.arange(len(self.batch.numbers))
        else:
            blocks = np.nonzero(np.bincount(self.batch.block[lanes]))[0]
        self.batch.shared.barrier(blocks)
        if self.batch.counters is not None:
            self.batch.counters.barriers += blocks.size

    def _stuck(self) -> None:
        number = min(self.waiting, key=lambda n: self.blocks[n].block.rank)
        lanes = self.waiting[number]
        item = self.blocks[number].meeting
        assert item is not None
        lane = 0 if lanes is None else int(lanes[0])
        block = self.batch.block[lane]
        here = lanes if lanes is not None else np.arange(self.batch.size)
        count = int((self.batch.block[here] == block).sum())
        raise At(
            BarrierError, item, lane,
            f"{item.opcode} is reached by {count} of the block's {self.batch.threads} threads, "
            "and the others never come",
        )  # fmt: skip

    def _hung(self) -> None:
        number, lanes = next(iter(self.waiting.items()))
        lane = 0 if lanes is None else int(lanes[0])
        message = f"still running after {self.limit} steps"
        raise At(HungKernelError, self._item(number), lane, message)

    def _item(self, number: int) -> Instruction:
        """Return the first instruction that runs from block ``number`` on."""
        while True:
            block = self.blocks[number].block
            if block.first is not None:
                return block.first
            number = block.next

    # Blocks.

    def _value(self, compiled: CompiledBlock, name: str, lanes: Array | None) -> Array:
        value = self.registers.get(name)
        if value is None:
            if "." in name or name[1:2].isalpha():
                try:
                    value = self.batch.special(name)
                except KeyError:
                    value = None
            if value is None:
                return self._uninitialised(compiled, name, lanes)
        if name in self.partial and name not in compiled.soft:
            written = self._pick(self.partial[name], lanes)
            if not written.all():
                place = int(np.argmin(written))
                self._unwritten(compiled, name, place if lanes is None else int(lanes[place]))
        if lanes is not None and value.size != 1:
            value = value[lanes]
        return value

    def _uninitialised(self, compiled: CompiledBlock, name: str, lanes: Array | None) -> Array:
        if name not in compiled.soft:
            self._unwritten(compiled, name, 0 if lanes is None else int(lanes[0]))
        # Any value will do: the kernel does not look at it.
        return np.zeros(1, compiled.soft[name])

    def _unwritten(self, compiled: CompiledBlock, name: str, lane: int) -> NoReturn:
        block = compiled.block
        items = [*block.instructions, *([block.branch] if block.branch else [])]
        reader = next(i for i in items if name in {register.name for register in reads(i)})
        raise At(UninitialisedReadError, reader, lane, f"register {name} was never written")

    def _step(self, number: int, lanes: Array | None) -> None:
        self.number = number
        compiled = self.blocks[number]
        block = compiled.block
        group = Group(self.batch, lanes)
        arguments = [self._value(compiled, name, lanes) for name in compiled.inputs]
        condition, *results = compiled.run(group, *arguments)
        counters = self.batch.counters
        if counters is not None:
            self._count(compiled, group)
        if self.waiting:
            elsewhere = self._live_elsewhere()
            for name, value in zip(compiled.outputs, results, strict=True):
                self._write(name, value, lanes, name in elsewhere)
        elif lanes is None:
            self.registers.update(zip(compiled.outputs, results, strict=True))
        else:
            for name, value in zip(compiled.outputs, results, strict=True):
                self._write(name, value, lanes, False)
        if condition is None:
            self._go(block.next if block.branch is None else block.taken, lanes)
            return
        if condition.size == 1:
            self._go(block.taken if condition[0] else block.next, lanes)
            return
        if counters is not None:
            counters.branch(condition, group.pick(self.batch.warp))
        taken = np.nonzero(condition)[0]
        if taken.size in (0, condition.size):
            self._go(block.taken if taken.size else block.next, lanes)
            return
        rest = np.nonzero(~condition)[0]
        for target, part in ((block.taken, taken), (block.next, rest)):
            self._go(target, part if lanes is None else lanes[part])

    def _count(self, compiled: CompiledBlock, group: Group) -> None:
        counters = self.batch.counters
        assert counters is not None
        length = compiled.block.length
        alive = self.batch.alive
        threads = group.size
        counters.thread_instructions += length * threads
        if group.lanes is None or group.lanes is alive:
            warps = len(self.batch.numbers) * self.batch.warps_per_block
        else:
            warps = int(np.unique(self.batch.warp[group.lanes]).size)
        counters.warp_instructions += length * warps

    def _live_elsewhere(self) -> frozenset[str]:
        live: frozenset[str] = frozenset()
        for number in self.waiting:
            live |= self.blocks[number].block.live_in
        return live

    def _write(self, name: str, value: Array, lanes: Array | None, shared: bool) -> None:
        if lanes is None or (value.size == 1 and not shared):
            self.registers[name] = value
            self.partial.pop(name, None)
            return
        old = self.registers.get(name)
        if not shared:
            self.partial.pop(name, None)
        elif old is None:
            self.partial[name] = np.zeros(self.batch.size, np.bool_)
        if name in self.partial:
            self.partial[name][lanes] = True
        if not shared or old is None:
            full = np.zeros(self.batch.size, value.dtype)
        elif old.size == 1:
            if value.size == 1 and old[0] == value[0]:
                return
            full = np.repeat(old, self.batch.size)
        else:
            full = old.copy()
        full[lanes] = value
        self.registers[name] = full

    def _go(self, target: int, lanes: Array | None) -> None:
        if target == EXIT:
            self.ended += self.batch.size if lanes is None else lanes.size
            return
        before = self.waiting.get(target, _NONE)
        if before is _NONE:
            self.waiting[target] = lanes
            return
        assert before is not None
        assert lanes is not None
        batch = self.batch
        if batch.alive is not None and before.size + lanes.size == batch.alive.size:
            self.waiting[target] = batch.alive
        elif before.size + lanes.size == batch.size:
            self.waiting[target] = None
        else:
            # Two runs in order: a stable sort merges them.
            merged = np.concatenate((before, lanes))
            merged.sort(kind="stable")
            self.waiting[target] = merged


def _bits_of_warps(batch: Batch) -> Array:
    """Return a mask for each warp of the threads that it has."""
    alive = np.ones(batch.size, np.bool_)
    if batch.alive is not None:
        alive[:] = False
        alive[batch.alive] = True
    packed = np.packbits(alive.reshape(-1, 32), axis=1, bitorder="little")
    return packed.view(np.uint32)[:, 0]


_NONE: Array = np.zeros(0, np.int64)
