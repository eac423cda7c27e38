"""Loops and branches that the host drives, since no kernel can hold them.

A loop allocates what it needs before its first step: two sets of buffers for what it carries, from
one of which a step reads while it writes to the other, and the whole arrays that it collects, whose
rows the steps write in place. A step is then a list of launches whose arguments are ready.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from minijit.graph.events import emit
from minijit.runtime.plan import Plan
from minijit.runtime.repeat import Repeated
from minijit.runtime.steps import Slot, contiguous, slots_among

if TYPE_CHECKING:
    from minijit.backends.base import Backend

__all__ = ["BranchStep", "LoopStep"]

Operands = tuple[Slot | np.generic, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class BranchStep:
    """Read the number of a branch and run its plan.

    Attributes:
        operands: The number, which is within range, then the operands of the branches.
        outputs: Slots of the results.
        loose: Which operands may have any strides and must be made contiguous.
        branches: A plan for each.
        released: Slots whose values nothing needs afterwards.
    """

    counted: ClassVar[str] = "host_branches"

    operands: Operands
    outputs: tuple[Slot, ...]
    loose: frozenset[int]
    branches: tuple[Plan, ...]
    released: tuple[Slot, ...] = ()

    @property
    def used(self) -> tuple[Slot, ...]:
        """Slots that are read."""
        return slots_among(self.operands)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The branches."""
        return self.branches

    @property
    def traffic(self) -> int:
        """Bytes of the costliest branch."""
        return max(branch.traffic for branch in self.branches)

    def run(self, values: list[Any], backend: Backend) -> None:
        """Run the branch that is taken."""
        index, *rest = _operands(self.operands, self.loose, values, backend)
        results = self.branches[int(index)].run(rest)
        for slot, result in zip(self.outputs, results, strict=True):
            values[slot] = result
        emit("host_branch")


@dataclasses.dataclass(frozen=True, slots=True)
class LoopStep:
    """Run a body again and again.

    Attributes:
        operands: Constants of the condition, constants of the body, first carries, and arrays whose
            rows are taken one a step.
        outputs: Slots of the last carries, then of what is collected.
        loose: Which operands may have any strides and must be made contiguous.
        consts: How many operands are constants of the condition, and of the body.
        carries: Allocate one of the carries each.
        streams: Allocate one of the collected arrays each.
        body: Takes constants, carries and rows; returns the next carries and what is collected.
        condition: Takes its constants and the carries; returns whether to go on. None when the
            number of steps is known.
        steps: Which row each step takes.
        released: Slots whose values nothing needs afterwards.
    """

    counted: ClassVar[str] = "host_loops"

    operands: Operands
    outputs: tuple[Slot, ...]
    loose: frozenset[int]
    consts: tuple[int, int]
    carries: tuple[Callable[[], Any], ...]
    streams: tuple[Callable[[], Any], ...]
    body: Plan
    condition: Plan | None
    steps: range
    released: tuple[Slot, ...] = ()

    @property
    def used(self) -> tuple[Slot, ...]:
        """Slots that are read."""
        return slots_among(self.operands)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The body, and the condition where there is one."""
        return (self.body,) if self.condition is None else (self.condition, self.body)

    @property
    def traffic(self) -> int:
        """Bytes of all steps, of one where only the condition knows how many there are."""
        if self.condition is not None:
            return self.condition.traffic + self.body.traffic
        return len(self.steps) * self.body.traffic

    def run(self, values: list[Any], backend: Backend) -> None:
        """Run the loop."""
        operands = _operands(self.operands, self.loose, values, backend)
        asked, fixed = self.consts
        start = asked + fixed + len(self.carries)
        # The first step, of even number, reads what is carried from the odd buffers.
        buffers = [[allocate() for allocate in self.carries] for _ in range(2)]
        even, odd = ([backend.plain(buffer) for buffer in half] for half in buffers)
        for buffer, init in zip(odd, operands[asked + fixed : start], strict=True):
            buffer[...] = init
        turns, scratch = ((odd, even), (even, odd)), dict[Slot, Any]()
        consts = operands[asked : asked + fixed]
        collected = [allocate() for allocate in self.streams]
        streams = [*operands[start:], *map(backend.plain, collected)]
        bodies = [
            Repeated(self.body, backend, [*consts, *read], written, scratch, streams)
            for read, written in turns
        ]
        with np.errstate(all="ignore"):
            if self.condition is None:
                done = len(self.steps)
                for step, row in enumerate(self.steps):
                    bodies[step & 1].run(row)
            else:
                asking, holds = dict[Slot, Any](), backend.xp.empty((), np.bool_)
                known = operands[:asked]
                conditions = [
                    Repeated(self.condition, backend, [*known, *read], [holds], asking)
                    for read, _ in turns
                ]
                done = 0
                conditions[0].run()
                while holds:
                    bodies[done & 1].run()
                    done += 1
                    conditions[done & 1].run()
        last = buffers[(done + 1) % 2]
        for slot, result in zip(self.outputs, (*last, *collected), strict=True):
            values[slot] = result
        emit("host_loop", steps=done)


def _operands(
    operands: Operands, loose: frozenset[int], values: list[Any], backend: Backend
) -> list[Any]:
    """Return the operands; what the library has made gets the layout that plans expect."""
    found = [backend.plain(values[o] if isinstance(o, int) else o) for o in operands]
    for place in loose:
        found[place] = contiguous(backend.xp, found[place])
    return found
