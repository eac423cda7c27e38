"""A plan that runs again and again on memory of its own: its steps as calls that need nothing more.

Its steps keep the memory that they wrote the time before, so that nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minijit.graph.events import emit, subscribers
from minijit.runtime.plan import Plan
from minijit.runtime.steps import EagerStep, KernelStep, Slot, Step

if TYPE_CHECKING:
    from minijit.backends.base import Backend

__all__ = ["Repeated"]


class Repeated:
    """A plan whose results go where they are told to, as often as it is run."""

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        arguments: Sequence[Any],
        results: Sequence[Any],
        scratch: dict[Slot, Any],
    ) -> None:
        """Prepare the steps.

        Args:
            plan: What to run.
            backend: Where.
            arguments: The first arguments; :meth:`run` is given the others.
            results: Where the first results go; :meth:`run` is told about the others.
            scratch: Memory for what lies between; filled here, for others that run in turn with
                this one to use as well.
        """
        given, told = len(arguments), len(results)
        self._backend = backend
        self._table: list[Any] = [*arguments, *[None] * (plan.slots - given)]
        self._table[plan.arguments : plan.arguments + len(plan.consts)] = plan.consts
        self._scratch = scratch
        self._results = frozenset(plan.results)
        self._late = (*range(given, plan.arguments), *plan.results[told:])
        self._moving = set(self._late)
        for slot, place in zip(plan.results, results, strict=False):
            self._table[slot] = place
        self._calls = [self._call(step) for step in plan.steps]

    def run(self, rows: Sequence[Any] = ()) -> None:
        """Run all steps.

        Args:
            rows: The arguments, then the places of results, that were not known at first.
        """
        table = self._table
        for slot, row in zip(self._late, rows, strict=True):
            table[slot] = row
        for call in self._calls:
            call()

    def _call(self, step: Step) -> Callable[[], None]:
        if isinstance(step, KernelStep):
            self._allocate(step)
            return self._launch(step)
        if isinstance(step, EagerStep) and step.primitive.into is not None:
            self._allocate(step)
            return self._compute(step)
        return self._copy(step)

    def _allocate(self, step: KernelStep | EagerStep) -> None:
        """Find memory for what a step writes that is no result."""
        for slot, allocate in zip(step.outputs, step.allocators, strict=True):
            if slot not in self._results:
                if slot not in self._scratch:
                    self._scratch[slot] = allocate()
                self._table[slot] = self._scratch[slot]

    def _launch(self, step: KernelStep) -> Callable[[], None]:
        table, launcher, name = self._table, step.launcher, step.source.kernel.name
        slots = (*step.inputs, *step.outputs, *step.arguments)
        ready = None
        if self._moving.isdisjoint(slots):
            ready = tuple(table[slot] for slot in slots)

        def launch() -> None:
            launcher(ready or tuple([table[slot] for slot in slots]))
            if subscribers:
                emit("launch", kernel=name)

        return launch

    def _compute(self, step: EagerStep) -> Callable[[], None]:
        """Return what lets the array library write to memory that is there."""
        table, xp, params = self._table, self._backend.xp, step.params
        into, name, operands = step.primitive.into, step.primitive.name, step.operands
        assert into is not None
        (out,) = step.outputs

        def compute() -> None:
            found = [table[o] if isinstance(o, int) else o for o in operands]
            into(xp, table[out], *found, **params)
            if subscribers:
                emit("eager", primitive=name)

        return compute

    def _copy(self, step: Step) -> Callable[[], None]:
        """Return what runs a step as it is and copies its results to where they belong."""
        table, backend = self._table, self._backend
        kept = [slot for slot in step.outputs if slot in self._results]
        self._moving.update(slot for slot in step.outputs if slot not in self._results)

        def copy() -> None:
            places = [table[slot] for slot in kept]
            step.run(table, backend)
            for slot, place in zip(kept, places, strict=True):
                place[...] = table[slot]
                table[slot] = place

        return copy
