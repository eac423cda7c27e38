"""Runs a traced program once on an emulated GPU of its own and reports what every launch cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minijit.backends.emulator.measure import MeasuringBackend
from minijit.backends.emulator.report import KernelReport, LaunchReport, LibraryStep
from minijit.graph.aval import ShapedArray
from minijit.graph.events import subscribe
from minijit.graph.tree import unflatten
from minijit.runtime.memory_cache import Program
from minijit.runtime.pipeline import compile_plan
from minijit.runtime.placement import Placed

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
    plan = compile_plan(program.jaxpr, inputs.layouts, backend, build=backend.compile)
    # As they happen: a loop that the host drives launches its kernels at each step.
    order: list[str | None] = []

    def note(event: str, data: Mapping[str, Any]) -> None:
        if event in ("launch", "eager"):
            order.append(data.get("primitive"))
        elif event == "graph":
            order.extend([None] * data["launches"])

    with subscribe(note):
        results = [np.array(result) for result in plan.run(inputs.values)]
    launches = iter(backend.reports())
    steps: list[LaunchReport | LibraryStep] = [
        next(launches) if name is None else LibraryStep(name) for name in order
    ]
    # An array that is passed or captured twice is read from one place.
    moved = {id(a): a.nbytes for a in (*leaves, *program.jaxpr.consts) if hasattr(a, "strides")}
    total = sum(moved.values()) + sum(result.nbytes for result in results)
    outputs = unflatten(program.out_tree, results)
    return KernelReport(compute_capability, tuple(steps), total, outputs)
