"""A plan that runs again and again on memory of its own: its steps as calls that need nothing more.

Its steps keep the memory that they wrote the time before, so that nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from minijit.graph.events import subscribers
from minijit.runtime.plan import Plan
from minijit.runtime.steps import EagerStep, KernelStep, Slot, Step, slots_among

if TYPE_CHECKING:
    from minijit.backends.base import Backend

__all__ = ["Repeated"]

_Call = Callable[[], object]


class Repeated:
    """A plan whose results go where they are told to, as often as it is run.

    Its launches are announced to those who subscribed to events before it was made.
    """

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        arguments: Sequence[Any],
        results: Sequence[Any],
        scratch: dict[Slot, Any],
        streams: Sequence[Any] = (),
    ) -> None:
        """Prepare the steps.

        Args:
            plan: What to run.
            backend: Where.
            arguments: The first arguments.
            results: Where the first results go.
            scratch: Memory for what lies between; filled here, for others that run in turn with
                this one to use as well.
            streams: Arrays of which a row each is the argument, then the place of the result, of
                one run: the other arguments, then the other results.
        """
        given, told = len(arguments), len(results)
        self._backend = backend
        self._table: list[Any] = [*arguments, *[None] * (len(plan.sizes) - given)]
        self._table[plan.arguments : plan.arguments + len(plan.consts)] = plan.consts
        self._scratch = scratch
        self._results = frozenset(plan.results)
        late = (*range(given, plan.arguments), *plan.results[told:])
        self._streams = tuple(zip(late, streams, strict=True))
        self._moving = set(late)
        for slot, place in zip(plan.results, results, strict=False):
            self._table[slot] = place
        self.calls = [self._call(step) for step in plan.steps]
        """The steps, which announce nothing; for streams the rows have to be set before."""
        self._announcing = self.calls
        if subscribers:
            self._announcing = list(map(_announcing, plan.steps, self.calls))

    def run(self, row: int = 0) -> None:
        """Run all steps, on this row of the streams."""
        table, place = self._table, (row, ...)
        for slot, stream in self._streams:
            table[slot] = stream[place]
        for call in self._announcing:
            call()

    def _call(self, step: Step) -> _Call:
        if isinstance(step, KernelStep):
            self._allocate(step)
            return self._launch(step)
        if isinstance(step, EagerStep) and step.into is not None:
            self._allocate(step)
            return self._compute(step, step.into)
        return self._copy(step)

    def _allocate(self, step: KernelStep | EagerStep) -> None:
        """Find memory for what a step writes that is no result."""
        for slot, allocate in zip(step.outputs, step.allocators, strict=True):
            if slot not in self._results:
                if slot not in self._scratch:
                    self._scratch[slot] = self._backend.plain(allocate())
                self._table[slot] = self._scratch[slot]

    def _launch(self, step: KernelStep) -> _Call:
        table, launcher, slots = self._table, step.launcher, step.operands
        if self._moving.isdisjoint(slots):
            return partial(launcher, tuple([table[slot] for slot in slots]))
        if len(slots) == 1:  # of which itemgetter makes no tuple
            (slot,) = slots
            return lambda: launcher((table[slot],))
        gather = itemgetter(*slots)
        return lambda: launcher(gather(table))

    def _compute(self, step: EagerStep, into: Callable[..., Any]) -> _Call:
        """Return what lets the array library write to memory that is there."""
        table, operands = self._table, step.operands
        (out,) = step.outputs

        def found() -> list[Any]:
            return [table[o] if isinstance(o, int) else o for o in operands]

        if self._moving.isdisjoint((*slots_among(operands), out)):
            return partial(into, *found(), out=table[out])
        return lambda: into(*found(), out=table[out])

    def _copy(self, step: Step) -> _Call:
        """Return what runs a step as it is and copies its results to where they belong."""
        table, run = self._table, step.prepared(self._backend)
        kept = [slot for slot in step.outputs if slot in self._results]
        self._moving.update(slot for slot in step.outputs if slot not in self._results)

        def copy() -> None:
            places = [table[slot] for slot in kept]
            run(table)
            for slot, place in zip(kept, places, strict=True):
                place[...] = table[slot]
                table[slot] = place

        return copy


def _announcing(step: Step, call: _Call) -> _Call:
    if not isinstance(step, KernelStep | EagerStep) or _is_copied(step):
        return call  # which runs the step as it is, and that announces itself

    def announcing() -> None:
        call()
        step.announce()

    return announcing


def _is_copied(step: Step) -> bool:
    """Whether a step makes new results, which are copied to where they belong."""
    return not isinstance(step, KernelStep) and not (isinstance(step, EagerStep) and step.into)
