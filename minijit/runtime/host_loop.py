"""Loops and branches that the host drives, since no kernel can hold them.

A loop allocates what it needs before its first step: two sets of buffers for what it carries, from
one of which a step reads while it writes to the other, and the whole arrays that it collects, whose
rows the steps write in place. A step is then a list of launches whose arguments are ready.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minijit.graph.events import emit, subscribers
from minijit.runtime.plan import Plan
from minijit.runtime.steps import EagerStep, KernelStep, Slot, Step, contiguous

if TYPE_CHECKING:
    from minijit.backends.base import Backend

__all__ = ["BranchStep", "LoopStep"]

Operands = tuple[Slot | np.generic, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class BranchStep:
    """Read the number of a branch and run its plan.

    Attributes:
        operands: The number, then the operands of the branches.
        outputs: Slots of the results.
        loose: Which operands may have any strides and must be made contiguous.
        branches: A plan for each.
        released: Slots whose values nothing needs afterwards.
    """

    operands: Operands
    outputs: tuple[Slot, ...]
    loose: frozenset[int]
    branches: tuple[Plan, ...]
    released: tuple[Slot, ...] = ()

    @property
    def used(self) -> tuple[Slot, ...]:
        """Slots that are read."""
        return tuple(operand for operand in self.operands if isinstance(operand, int))

    def run(self, values: list[Any], backend: Backend) -> None:
        """Run the branch that is taken."""
        index, *rest = _operands(self.operands, self.loose, values, backend)
        chosen = self.branches[min(max(int(index), 0), len(self.branches) - 1)]
        for slot, result in zip(self.outputs, chosen.run(rest), strict=True):
            values[slot] = contiguous(backend.xp, result)
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
        return tuple(operand for operand in self.operands if isinstance(operand, int))

    def run(self, values: list[Any], backend: Backend) -> None:
        """Run the loop."""
        xp = backend.xp
        operands = _operands(self.operands, self.loose, values, backend)
        asked, fixed = self.consts
        start = asked + fixed + len(self.carries)
        # The first step, of even number, reads what is carried from the odd buffers.
        buffers = [(allocate(), allocate()) for allocate in self.carries]
        for (_, odd), init in zip(buffers, operands[asked + fixed : start], strict=True):
            odd[...] = init
        collected = [allocate() for allocate in self.streams]
        rows = operands[start:]
        count = len(buffers)
        body = [
            _Body(
                self.body,
                backend,
                [*operands[asked : asked + fixed], *(pair[1 - turn] for pair in buffers)],
                [pair[turn] for pair in buffers],
            )
            for turn in (0, 1)
        ]
        done = 0
        with np.errstate(all="ignore"):
            if self.condition is not None:
                holds = [
                    _Body(
                        self.condition,
                        backend,
                        [*operands[:asked], *(pair[1 - turn] for pair in buffers)],
                        [xp.empty((), np.bool_)],
                    )
                    for turn in (0, 1)
                ]
                while holds[done & 1].answer():
                    body[done & 1].step()
                    done += 1
            else:
                first = fixed + count
                for row in self.steps:
                    turn = body[done & 1]
                    for place, x in enumerate(rows, first):
                        turn.table[place] = x[row, ...]
                    for place, y in enumerate(collected, count):
                        turn.places[place] = y[row, ...]
                    turn.step()
                    done += 1
        last = [pair[(done + 1) & 1] for pair in buffers]
        for slot, result in zip(self.outputs, (*last, *collected), strict=True):
            values[slot] = result
        emit("host_loop", steps=done)


def _operands(
    operands: Operands, loose: frozenset[int], values: list[Any], backend: Backend
) -> list[Any]:
    """Return the operands; what the library has made gets the layout that plans expect."""
    found = [values[o] if isinstance(o, int) else o for o in operands]
    for place in loose:
        found[place] = contiguous(backend.xp, found[place])
    return found


class _Body:
    """A plan on memory of its own, whose steps run again and again.

    Attributes:
        table: The values by their slots; the caller puts the rows of a step there.
        places: Where each result goes; the caller puts rows of what is collected there.
    """

    def __init__(
        self, plan: Plan, backend: Backend, arguments: Sequence[Any], results: Sequence[Any]
    ) -> None:
        """Prepare the steps.

        Args:
            plan: What to run.
            backend: Where.
            arguments: The first arguments; those after them change from step to step.
            results: Where the first results go; the places of the others change.
        """
        self.backend = backend
        self.table: list[Any] = [*arguments, *[None] * (plan.slots - len(arguments))]
        first = plan.arguments
        self.table[first : first + len(plan.consts)] = plan.consts
        self.places: list[Any] = [*results, *[None] * (len(plan.results) - len(results))]
        self._result_of = {slot: place for place, slot in enumerate(plan.results)}
        self._changing = set(range(len(arguments), first))
        self._changing.update(plan.results[len(results) :])
        self._answer = plan.results[0] if plan.results else 0
        for slot, place in self._result_of.items():
            if place < len(results):
                self.table[slot] = results[place]
        self._moving = [
            (slot, place) for slot, place in self._result_of.items() if place >= len(results)
        ]
        self._actions = [self._action(step) for step in plan.steps]

    def step(self) -> None:
        """Run all steps once."""
        table, places = self.table, self.places
        for slot, place in self._moving:
            table[slot] = places[place]
        for action in self._actions:
            action()

    def answer(self) -> bool:
        """Run all steps once and return the one result, a bool."""
        self.step()
        return bool(self.table[self._answer])

    def _action(self, step: Step) -> Callable[[], None]:
        if isinstance(step, KernelStep):
            return self._launch(step)
        if isinstance(step, EagerStep) and step.primitive.into is not None:
            return self._compute(step)
        return self._other(step)

    def _launch(self, step: KernelStep) -> Callable[[], None]:
        table, launcher, name = self.table, step.launcher, step.source.kernel.name
        for slot, allocate in zip(step.outputs, step.allocators, strict=True):
            if slot not in self._result_of:
                table[slot] = allocate()
        slots = (*step.inputs, *step.outputs, *step.arguments)
        ready = None
        if not self._changing.intersection(slots):
            ready = tuple(table[slot] for slot in slots)

        def launch() -> None:
            launcher(ready or tuple([table[slot] for slot in slots]))
            if subscribers:
                emit("launch", kernel=name)

        return launch

    def _compute(self, step: EagerStep) -> Callable[[], None]:
        """Return what lets the array library write to memory that is there."""
        table, xp, params = self.table, self.backend.xp, step.params
        into, name = step.primitive.into, step.primitive.name
        assert into is not None
        (out,) = step.outputs
        if out not in self._result_of:
            # The first step makes the array, the others write to it.
            table[out] = None
        operands = step.operands

        def compute() -> None:
            found = [table[o] if isinstance(o, int) else o for o in operands]
            table[out] = into(xp, table[out], *found, **params)
            if subscribers:
                emit("eager", primitive=name)

        self._changing.add(out)
        return compute

    def _other(self, step: Step) -> Callable[[], None]:
        """Return what runs a step as it is and copies its results to where they belong."""
        table, backend = self.table, self.backend
        self._changing.update(step.outputs)
        kept = [(slot, self._result_of[slot]) for slot in step.outputs if slot in self._result_of]
        places = self.places

        def run() -> None:
            step.run(table, backend)
            for slot, place in kept:
                places[place][...] = table[slot]
                table[slot] = places[place]

        return run
