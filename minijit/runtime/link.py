"""From what a plan does to one that runs: every step gets its memory, a plan its steps.

What is linked was lowered in this process, or read from a file where another one had written it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minijit.backends.base import Backend, Launcher
from minijit.graph.aval import ShapedArray
from minijit.graph.layout import Layout
from minijit.graph.primitive import Primitive
from minijit.runtime.captured import Captured
from minijit.runtime.custom import custom_step, kernel_binary
from minijit.runtime.plan import Plan
from minijit.runtime.steps import EagerStep, KernelStep, LowerAgain, Operands, Slot, Step

__all__ = ["Linker"]


class Linker:
    """Makes the steps of one plan, then the plan.

    Attributes:
        backend: Where it runs.
        avals: Type of the value in each slot.
    """

    def __init__(self, backend: Backend, avals: Iterable[ShapedArray] = ()) -> None:
        """Start with these slots; more may be added to ``avals``."""
        self.backend = backend
        self.avals = list(avals)

    def allocators(self, slots: Iterable[Slot]) -> tuple[Callable[[], Any], ...]:
        """Return what allocates the value of each slot."""
        avals = (self.avals[slot] for slot in slots)
        return tuple(self.backend.allocator(aval.shape, aval.dtype) for aval in avals)

    def kernel(
        self,
        name: str,
        source: LowerAgain,
        text_bytes: int,
        launcher: Launcher,
        inputs: tuple[Slot, ...],
        outputs: tuple[Slot, ...],
        arguments: tuple[Slot, ...],
    ) -> KernelStep:
        """Return the step that launches a kernel; see :class:`KernelStep`."""
        traffic = sum(self.avals[slot].nbytes for slot in inputs + outputs)
        allocators = self.allocators(outputs)
        return KernelStep(
            name, source, text_bytes, traffic, launcher, inputs, outputs, allocators, arguments
        )

    def library(
        self,
        primitive: Primitive,
        params: dict[str, Any],
        operands: Operands,
        outputs: tuple[Slot, ...],
        stored: bool,
    ) -> EagerStep:
        """Return the step in which the array library computes, or a user's own kernel.

        See :class:`EagerStep`.
        """
        given = list(map(self._aval, operands))
        if primitive.kernel is not None:
            made = [self.avals[slot] for slot in outputs]
            build = partial(kernel_binary, self.backend, primitive.kernel)
            custom = self.backend.custom(primitive.kernel, given, made, params, build)
            if custom is not None:
                return custom_step(self.backend, primitive, params, custom, operands, outputs)
        into = None
        if primitive.into is not None:
            into = primitive.into(self.backend.xp, *given, **params)
        allocators = self.allocators(outputs)
        return EagerStep(primitive, params, into, operands, outputs, allocators, stored)

    def _aval(self, operand: Slot | np.generic) -> ShapedArray:
        if isinstance(operand, int):
            return self.avals[operand]
        return ShapedArray((), operand.dtype)

    def plan(
        self,
        name: str,
        steps: Sequence[Step],
        layouts: Sequence[Layout],
        consts: Sequence[Any],
        captured: Captured,
        results: Sequence[Slot],
        check_nans: bool,
    ) -> Plan:
        """Return the plan; see :class:`Plan`."""
        kept = {*results, *range(len(layouts) + len(consts))}
        released = _released(steps, kept)
        return Plan(
            self.backend, released, self.avals, layouts, consts, captured, results, name, check_nans
        )


def _released(steps: Sequence[Step], kept: set[Slot]) -> list[Step]:
    """Note at each step which values nothing needs after it, so that their memory serves again."""
    released: list[Step] = []
    seen = set(kept)
    for step in reversed(steps):
        used = {*step.used, *step.outputs}
        released.append(dataclasses.replace(step, released=tuple(sorted(used - seen))))  # type: ignore[type-var]
        seen |= used
    return released[::-1]
