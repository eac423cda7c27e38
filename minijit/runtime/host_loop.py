"""Loops and branches that the host drives, since no kernel can hold them.

A loop allocates what it needs once: sets of buffers for what it carries, from one of which a step
reads while it writes to the next, and the whole arrays that it collects, whose rows the steps write
in place. A step is then a list of launches whose arguments are ready.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from minijit.graph.events import emit
from minijit.runtime.drive import drive_counted, drive_while
from minijit.runtime.link import Linker
from minijit.runtime.plan import Plan
from minijit.runtime.repeat import Repeated
from minijit.runtime.steps import HostWork, Operands, Run, Slot, contiguous, slots_among
from minijit.runtime.tactics import Tactics

if TYPE_CHECKING:
    from minijit.backends.base import Backend

__all__ = ["BranchStep", "Condition", "LoopStep"]


@dataclasses.dataclass(frozen=True, slots=True)
class BranchStep:
    """Read the number of a branch and run its plan.

    Attributes:
        operands: The number, which is within range, then the operands of the branches.
        outputs: Slots of the results.
        loose: Which operands may have any strides and must be made contiguous.
        branches: A plan for each.
        released: Slots whose values nothing needs afterwards.
        work: What the host did so far.
    """

    counted: ClassVar[str] = "host_branches"

    operands: Operands
    outputs: tuple[Slot, ...]
    loose: frozenset[int]
    branches: tuple[Plan, ...]
    released: tuple[Slot, ...] = ()
    work: HostWork = dataclasses.field(default_factory=HostWork)

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

    def prepared(self, backend: Backend) -> Run:
        """Return what runs the branch that is taken."""
        return partial(self._run, backend)

    def _run(self, backend: Backend, values: list[Any]) -> None:
        index, *rest = _operands(self.operands, self.loose, values, backend)
        results = self.branches[int(index)].run(rest)
        for slot, result in zip(self.outputs, results, strict=True):
            values[slot] = result
        self.work.add(host_reads=1)
        emit("host_branch")


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """Whether a loop goes on.

    Attributes:
        plan: Takes its constants and the carries; returns the one bool.
        flags: Allocates what it gives, one for each set of buffers of the carries.
    """

    plan: Plan
    flags: Callable[[], Any]


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
        until: When it ends; None when the number of steps is known.
        steps: Which row each step takes.
        tactics: How far the host goes at once.
        released: Slots whose values nothing needs afterwards.
        work: What the host did so far.
    """

    counted: ClassVar[str] = "host_loops"

    operands: Operands
    outputs: tuple[Slot, ...]
    loose: frozenset[int]
    consts: tuple[int, int]
    carries: tuple[Callable[[], Any], ...]
    streams: tuple[Callable[[], Any], ...]
    body: Plan
    until: Condition | None
    steps: range
    tactics: Tactics
    released: tuple[Slot, ...] = ()
    work: HostWork = dataclasses.field(default_factory=HostWork)

    @classmethod
    def linked(
        cls,
        linker: Linker,
        operands: Operands,
        outputs: tuple[Slot, ...],
        loose: frozenset[int],
        consts: tuple[int, int],
        carries: int,
        body: Plan,
        condition: Plan | None,
        steps: range,
        tactics: Tactics,
    ) -> LoopStep:
        """Return the step with its memory; ``carries`` of the outputs are carried."""
        until = None
        if condition is not None:
            # One for each set of buffers.
            flags = linker.backend.allocator((max(tactics.ahead, 2),), np.dtype(np.bool_))
            until = Condition(condition, flags)
        carried, collected = map(linker.allocators, (outputs[:carries], outputs[carries:]))
        return cls(
            operands, outputs, loose, consts, carried, collected, body, until, steps, tactics
        )

    @property
    def used(self) -> tuple[Slot, ...]:
        """Slots that are read."""
        return slots_among(self.operands)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The body, and the condition where there is one."""
        return (self.body,) if self.until is None else (self.until.plan, self.body)

    @property
    def traffic(self) -> int:
        """Bytes of all steps, of one where only the condition knows how many there are."""
        if self.until is not None:
            return self.until.plan.traffic + self.body.traffic
        return len(self.steps) * self.body.traffic

    def prepared(self, backend: Backend) -> Run:
        """Return what runs the loop."""
        return partial(self._run, backend)

    def _run(self, backend: Backend, values: list[Any]) -> None:
        operands = _operands(self.operands, self.loose, values, backend)
        asked, fixed = self.consts
        start = asked + fixed + len(self.carries)
        size = max(self.tactics.ahead, 2)
        collected = [allocate() for allocate in self.streams]
        streams = [*operands[start:], *map(backend.plain, collected)]
        between, asking = dict[Slot, Any](), dict[Slot, Any]()
        buffers: list[list[Any]] = []

        def carries(place: int) -> list[Any]:
            if place % size == len(buffers):
                buffers.append([allocate() for allocate in self.carries])
            return list(map(backend.plain, buffers[place % size]))

        def body(place: int) -> Repeated:
            given = [*operands[asked : asked + fixed], *carries(place)]
            return Repeated(self.body, backend, given, carries(place + 1), between, streams)

        for buffer, init in zip(carries(0), operands[asked + fixed : start], strict=True):
            buffer[...] = init
        with np.errstate(all="ignore"):
            if self.until is None:
                done = drive_counted(body, self.steps, backend, self.tactics.in_graph)
            else:
                plan, flags = self.until.plan, backend.plain(self.until.flags())

                def condition(place: int) -> Repeated:
                    given = [*operands[:asked], *carries(place)]
                    return Repeated(plan, backend, given, [flags[place, ...]], asking)

                read = backend.reader(flags)
                done = drive_while(body, condition, read, size, self.tactics.ahead)
        last = buffers[done.steps % size]
        for slot, result in zip(self.outputs, (*last, *collected), strict=True):
            values[slot] = result
        self.work.add(host_steps=done.steps, host_reads=done.reads, graph_launches=done.graphs)
        emit("host_loop", steps=done.steps)


def _operands(
    operands: Operands, loose: frozenset[int], values: list[Any], backend: Backend
) -> list[Any]:
    """Return the operands; what the library has made gets the layout that plans expect."""
    found = [backend.plain(values[o] if isinstance(o, int) else o) for o in operands]
    for place in loose:
        found[place] = contiguous(backend.xp, found[place])
    return found
