"""A compiled program: the steps of one call, and where their values live meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minijit.graph.events import emit, subscribers
from minijit.graph.primitive import Primitive
from minijit.graph.tree import TreeDef, unflatten
from minijit.runtime.captured import Captured

if TYPE_CHECKING:
    from minijit.backends.base import Backend, Launcher
    from minijit.lowering.source import KernelSource

__all__ = ["EagerStep", "KernelStep", "Plan", "Slot"]

Slot = int
"""The place of a value while the plan runs: arguments first, then constants, then the rest."""


@dataclasses.dataclass(frozen=True, slots=True)
class KernelStep:
    """Launch one kernel.

    Attributes:
        source: Its source, for people and for the cache.
        launcher: Runs it.
        inputs: Slots of its input buffers.
        outputs: Slots of its output buffers.
        allocators: What allocates each of them before the launch.
        arguments: Slots of its scalars.
        released: Slots whose values nothing needs afterwards.
    """

    source: KernelSource
    launcher: Launcher
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    allocators: tuple[Callable[[], Any], ...]
    arguments: tuple[Slot, ...]
    released: tuple[Slot, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class EagerStep:
    """Let the array library compute one equation.

    Attributes:
        primitive: What to compute.
        params: Its static parameters.
        operands: A slot for each operand, or a NumPy scalar for a literal.
        outputs: Slots of the results.
        stored: Whether kernels read the results, so that they must be contiguous.
        released: Slots whose values nothing needs afterwards.
    """

    primitive: Primitive
    params: dict[str, Any]
    operands: tuple[Slot | np.generic, ...]
    outputs: tuple[Slot, ...]
    stored: bool
    released: tuple[Slot, ...] = ()


class Plan:
    """The steps of a compiled signature; :attr:`run` maps flat arguments to flat results."""

    def __init__(
        self,
        backend: Backend,
        steps: Sequence[KernelStep | EagerStep],
        slots: int,
        arguments: int,
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
            slots: How many values there are.
            arguments: How many of them the caller gives.
            consts: Values of the slots after the arguments.
            captured: What must not have changed when the plan runs.
            results: Slots that are returned.
            name: The function's name, for messages.
            check_nans: Whether a NaN among the results is an error.
        """
        self.backend = backend
        self.steps = tuple(steps)
        self._arguments = arguments
        self._blank = [None] * (slots - arguments - len(consts))
        self._consts = list(consts)
        self._results = tuple(results)
        self._name = name
        self.copies = 0
        """How many arrays were copied to the device because they lived elsewhere."""
        run: Callable[[Sequence[Any]], list[Any]]
        run = self._run_single if self._is_single() else self._run
        if check_nans:
            run = self._without_nans(run)
        if captured:
            run = _checking(captured, run)
        self.run = run

    @property
    def sources(self) -> tuple[KernelSource, ...]:
        """Sources of all kernels, in order."""
        return tuple(step.source for step in self.steps if isinstance(step, KernelStep))

    @property
    def eager_steps(self) -> int:
        """How many steps the array library runs at each call."""
        return sum(isinstance(step, EagerStep) for step in self.steps)

    def _run(self, args: Sequence[Any]) -> list[Any]:
        values = [*args, *self._consts, *self._blank]
        for step in self.steps:
            if isinstance(step, KernelStep):
                self._launch(step, values)
            else:
                self._compute(step, values)
            for slot in step.released:
                values[slot] = None
        return [self.backend.result(values[slot]) for slot in self._results]

    def _launch(self, step: KernelStep, values: list[Any]) -> None:
        for slot, allocate in zip(step.outputs, step.allocators, strict=True):
            values[slot] = allocate()
        step.launcher(
            (
                *(values[slot] for slot in step.inputs),
                *(values[slot] for slot in step.outputs),
                *(values[slot] for slot in step.arguments),
            )
        )
        if subscribers:
            emit("launch", kernel=step.source.kernel.name)

    def _compute(self, step: EagerStep, values: list[Any]) -> None:
        xp = self.backend.xp
        operands = [values[o] if isinstance(o, int) else o for o in step.operands]
        result = step.primitive.eager(xp, *operands, **step.params)
        results = result if step.primitive.multiple_results else (result,)
        for slot, value in zip(step.outputs, results, strict=True):
            values[slot] = (
                xp.ascontiguousarray(value).reshape(value.shape) if step.stored else value
            )
        emit("eager", primitive=step.primitive.name)

    def _without_nans(
        self, run: Callable[[Sequence[Any]], list[Any]]
    ) -> Callable[[Sequence[Any]], list[Any]]:
        def checked(args: Sequence[Any]) -> list[Any]:
            results = run(args)
            for position, array in enumerate(results):
                if array.dtype.kind == "f" and bool((array != array).any()):
                    raise FloatingPointError(
                        f"result {position} of {self._name!r} holds NaN (debug_nans is on; run "
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
        inputs, scalars = step.inputs, step.arguments
        launcher, name = step.launcher, step.source.kernel.name
        # Not when an argument goes unused: it would be taken for the output.
        in_order = not scalars and inputs == tuple(range(self._arguments))

        def one(args: Sequence[Any]) -> Any:
            output = allocate()
            if in_order:
                launcher((*args, output))
            else:
                launcher((*[args[i] for i in inputs], output, *[args[i] for i in scalars]))
            if subscribers:
                emit("launch", kernel=name)
            return output

        return one

    def _is_single(self) -> bool:
        """Whether the plan is one kernel over arguments that writes exactly the results."""
        if len(self.steps) != 1 or not isinstance(self.steps[0], KernelStep) or self._consts:
            return False
        return self.steps[0].outputs == self._results

    def _run_single(self, args: Sequence[Any]) -> list[Any]:
        """Run a plan of one kernel: no table of values is needed."""
        (step,) = self.steps
        assert isinstance(step, KernelStep)
        outputs = [allocate() for allocate in step.allocators]
        step.launcher(
            (*[args[i] for i in step.inputs], *outputs, *[args[i] for i in step.arguments])
        )
        if subscribers:
            emit("launch", kernel=step.source.kernel.name)
        return outputs


def _checking(
    captured: Captured, run: Callable[[Sequence[Any]], list[Any]]
) -> Callable[[Sequence[Any]], list[Any]]:
    def checked(args: Sequence[Any]) -> list[Any]:
        captured.check()
        return run(args)

    return checked
