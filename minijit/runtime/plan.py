"""A compiled program: the steps of one call, and where their values live meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from minijit.graph.events import subscribers
from minijit.graph.tree import TreeDef, unflatten
from minijit.runtime.captured import Captured
from minijit.runtime.launchers import loaded_binary
from minijit.runtime.steps import KernelStep, Slot, Step, picker

if TYPE_CHECKING:
    from minijit.backends.base import Backend
    from minijit.graph.aval import ShapedArray
    from minijit.graph.layout import Layout
    from minijit.lowering.source import KernelSource

__all__ = ["Plan"]

_STEP_BYTES = 4096
"""What a step holds besides source and machine code: kernel IR, launch arguments, allocators."""


class Plan:
    """The steps of a compiled signature; :attr:`run` maps flat arguments to flat results."""

    def __init__(
        self,
        backend: Backend,
        steps: Sequence[Step],
        avals: Sequence[ShapedArray],
        layouts: Sequence[Layout],
        consts: Sequence[Any],
        captured: Captured,
        results: Sequence[Slot],
        name: str,
        check_nans: bool,
    ) -> None:
        """Prepare the steps for running.

        Args:
            backend: Where the plan runs.
            steps: In order.
            avals: Type of the value in each slot.
            layouts: How the arguments lie in memory: the first slots, which the caller gives.
            consts: Values of the slots after the arguments.
            captured: What must not have changed when the plan runs.
            results: Slots that are returned.
            name: The function's name, for messages.
            check_nans: Whether a NaN among the results is an error.
        """
        self.backend = backend
        self.steps = tuple(steps)
        self.avals = tuple(avals)
        self.sizes = tuple(aval.nbytes for aval in avals)
        """Bytes of the value in each slot."""
        self.layouts = tuple(layouts)
        self.arguments = len(self.layouts)
        self.consts = list(consts)
        self.results = tuple(results)
        fresh = self.sizes[self.arguments + len(consts) :]
        backend.expect(fresh)
        self._blank = [None] * len(fresh)
        self._runs = [(step.prepared(backend), step.released) for step in self.steps]
        self.name = name
        self.code_bytes = sum(
            len(loaded_binary(step.launcher).code) for step in steps if isinstance(step, KernelStep)
        )
        """Machine code of its own kernels."""
        self.compile_seconds = 0.0
        """What it took to get it; filled in by whoever did."""
        self.copies = 0
        """How many arrays were copied to the device because they lived elsewhere."""
        self._captured = captured
        self._check_nans = check_nans

    @property
    def run(self) -> Callable[[Sequence[Any]], list[Any]]:
        """A function from flat arguments to flat results.

        It is made anew, since a plan that kept it would keep itself, and all that it captured.
        """
        run: Callable[[Sequence[Any]], list[Any]]
        run = self._run_single if self._is_single() else self._run
        if self._check_nans:
            run = self._without_nans(run)
        return _checking(self._captured, run) if self._captured else run

    @property
    def every_step(self) -> Iterator[Step]:
        """All steps in order, each followed by those of the bodies and branches that it runs."""
        for step in self.steps:
            yield step
            for plan in step.plans:
                yield from plan.every_step

    @property
    def kernels(self) -> tuple[KernelStep, ...]:
        """The launches of kernels, in order, those of bodies and branches among them."""
        return tuple(step for step in self.every_step if isinstance(step, KernelStep))

    @property
    def sources(self) -> tuple[KernelSource, ...]:
        """Sources of all kernels, in order."""
        return tuple(step.source() for step in self.kernels)

    @property
    def traffic(self) -> int:
        """Bytes of the arrays that kernels read and write in one call, as far as that is known.

        Of branches it counts the costliest, of a loop that ends when a condition fails one step.
        """
        return sum(step.traffic for step in self.steps)

    @property
    def nbytes(self) -> int:
        """What the plan holds in memory: machine code, sources, and an estimate of the rest."""
        own = sum(
            _STEP_BYTES + (step.text_bytes if isinstance(step, KernelStep) else 0)
            for step in self.steps
        )
        inner = sum(plan.nbytes for step in self.steps for plan in step.plans)
        return self.code_bytes + own + inner

    @property
    def all_code_bytes(self) -> int:
        """Machine code of all kernels, those of bodies and branches among them."""
        inner = (plan.all_code_bytes for step in self.steps for plan in step.plans)
        return self.code_bytes + sum(inner)

    def _run(self, args: Sequence[Any]) -> list[Any]:
        values = [*args, *self.consts, *self._blank]
        for run, released in self._runs:
            run(values)
            for slot in released:
                values[slot] = None
        return [self.backend.result(values[slot]) for slot in self.results]

    def _without_nans(
        self, run: Callable[[Sequence[Any]], list[Any]]
    ) -> Callable[[Sequence[Any]], list[Any]]:
        def checked(args: Sequence[Any]) -> list[Any]:
            results = run(args)
            for position, array in enumerate(results):
                if array.dtype.kind == "f" and bool((array != array).any()):
                    raise FloatingPointError(
                        f"result {position} of {self.name!r} holds NaN (debug_nans is on; run "
                        "it under minijit.disable_jit() to find the operation)"
                    )
            return results

        return checked

    def returning(self, out_tree: TreeDef) -> Callable[[Sequence[Any]], Any]:
        """Return a function from flat arguments to the result of structure ``out_tree``."""
        run = self.run
        if not out_tree.is_leaf():
            return lambda args: unflatten(out_tree, run(args))
        if not (self._is_single() and run == self._run_single):
            return lambda args: run(args)[0]
        # The commonest plan of all: one kernel, one array.
        (step,) = self.steps
        assert isinstance(step, KernelStep)
        (allocate,) = step.allocators
        launcher = step.launcher
        places = (*step.inputs, self.arguments, *step.arguments)

        def in_order(args: Sequence[Any]) -> Any:
            output = allocate()
            launcher((*args, output))
            if subscribers:
                step.announce()
            return output

        if places == tuple(range(self.arguments + 1)):
            return in_order
        pick = picker(places)

        def one(args: Sequence[Any]) -> Any:
            output = allocate()
            launcher(pick((*args, output)))
            if subscribers:
                step.announce()
            return output

        return one

    def _is_single(self) -> bool:
        """Whether the plan is one kernel over arguments that writes exactly the results."""
        if len(self.steps) != 1 or not isinstance(self.steps[0], KernelStep) or self.consts:
            return False
        return self.steps[0].outputs == self.results

    def _run_single(self, args: Sequence[Any]) -> list[Any]:
        """Run a plan of one kernel: no table of values is needed."""
        (step,) = self.steps
        assert isinstance(step, KernelStep)
        outputs = [allocate() for allocate in step.allocators]
        step.launcher(
            (*[args[i] for i in step.inputs], *outputs, *[args[i] for i in step.arguments])
        )
        if subscribers:
            step.announce()
        return outputs


def _checking(
    captured: Captured, run: Callable[[Sequence[Any]], list[Any]]
) -> Callable[[Sequence[Any]], list[Any]]:
    def checked(args: Sequence[Any]) -> list[Any]:
        captured.check()
        return run(args)

    return checked
