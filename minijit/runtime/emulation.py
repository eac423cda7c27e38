"""Runs a traced program once on an emulated GPU of its own and reports what every launch cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.backends.emulator.measure import MeasuringBackend
from minijit.backends.emulator.report import KernelReport, LaunchReport, LibraryStep
from minijit.graph.aval import ShapedArray
from minijit.graph.tree import unflatten
from minijit.runtime.memory_cache import Program
from minijit.runtime.pipeline import compile_plan
from minijit.runtime.placement import Placed
from minijit.runtime.plan import EagerStep

__all__ = ["emulate"]


def emulate(
    program: Program, leaves: Sequence[Any], compute_capability: tuple[int, int]
) -> KernelReport:
    """Compile ``program`` for CUDA, run it on ``leaves``, and return what was counted.

    The program is lowered and compiled anew for this one run; no cache is asked or filled.

    Raises:
        TypeError: an argument is a type without values.
        EmulationError: a kernel does what a GPU forbids.
    """
    if any(isinstance(leaf, ShapedArray) for leaf in leaves):
        raise TypeError("a run on the emulated device needs arrays, not types that stand for them")
    backend = MeasuringBackend(compute_capability)
    inputs = Placed.on(backend, leaves)
    plan = compile_plan(program.jaxpr, inputs.layouts, backend)
    results = [np.array(result) for result in plan.run(inputs.values)]
    launches = iter(backend.reports())
    steps: list[LaunchReport | LibraryStep] = [
        LibraryStep(step.primitive.name) if isinstance(step, EagerStep) else next(launches)
        for step in plan.steps
    ]
    # An array that is passed or captured twice is read from one place.
    moved = {id(a): a.nbytes for a in (*leaves, *program.jaxpr.consts) if hasattr(a, "strides")}
    total = sum(moved.values()) + sum(result.nbytes for result in results)
    outputs = unflatten(program.out_tree, results)
    return KernelReport(compute_capability, tuple(steps), total, outputs)
