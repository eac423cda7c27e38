"""Threads of a batch that stand at the same instruction; faults that name one of them."""

from __future__ import annotations

import dataclasses
from typing import NoReturn

import numpy as np

from minijit.backends.emulator.batch import Batch
from minijit.backends.emulator.memory import Fault
from minijit.backends.emulator.operation import Array
from minijit.backends.emulator.ptx import Instruction

__all__ = ["At", "Lanes"]


@dataclasses.dataclass(slots=True)
class At(Exception):
    """A fault of one lane of the batch at one instruction."""

    kind: type[Exception]
    instruction: Instruction
    lane: int
    message: str


class Lanes:
    """Lanes of a batch, ``lanes`` in ascending order, or None for all of it."""

    __slots__ = ("batch", "lanes", "size")

    def __init__(self, batch: Batch, lanes: Array | None) -> None:
        """Look at ``lanes``."""
        self.batch, self.lanes = batch, lanes
        self.size = batch.size if lanes is None else lanes.size

    def pick(self, values: Array) -> Array:
        """Return this group's part of an array over the batch."""
        return values if self.lanes is None else values[self.lanes]

    def _fail(self, item: Instruction, kind: type[Exception], lane: int, message: str) -> NoReturn:
        number = lane if self.lanes is None else int(self.lanes[min(lane, self.size - 1)])
        raise At(kind, item, number, message)

    def _failed(self, item: Instruction, fault: Fault, chosen: Array | None) -> NoReturn:
        lane = fault.lane if chosen is None else int(chosen[min(fault.lane, chosen.size - 1)])
        self._fail(item, fault.kind, lane, str(fault))

    def _chosen(self, guard: Array | None) -> Array | None:
        """Return the threads whose guard holds, None for all."""
        if guard is None or guard.all():
            return None
        return np.nonzero(np.broadcast_to(guard, (self.size,)))[0]

    def _each(self, values: Array, chosen: Array | None) -> Array:
        """Return one value for each of the chosen threads; one alone is that of all."""
        if values.size == 1:
            return np.broadcast_to(values, (self.size if chosen is None else chosen.size,))
        return values if chosen is None else values[chosen]
