"""Runs a traced program once on an emulated GPU of its own and reports what every launch cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from minijit.backends.emulator.measure import MeasuringBackend
from minijit.backends.emulator.report import KernelReport, LaunchReport, LibraryStep
from minijit.graph.aval import ShapedArray
from minijit.graph.events import subscribe
from minijit.graph.jaxpr import Jaxpr, Var
from minijit.graph.primitive import Kind, find_primitive
from minijit.graph.tree import unflatten
from minijit.runtime.binaries import compile_anew
from minijit.runtime.memory_cache import Program
from minijit.runtime.pipeline import compile_plan, optimize
from minijit.runtime.placement import Placed

__all__ = ["emulate"]


def emulate(
    program: Program, leaves: Sequence[Any], compute_capability: tuple[int, int]
) -> KernelReport:
    """Compile ``program`` for CUDA, run it on ``leaves``, and return what was counted.

    The program is lowered and compiled anew for this one run; no cache is asked or filled.

    Raises:
        TypeError: an argument is a type without values, or the capability is no pair of numbers.
        EmulationError: a kernel does what a GPU forbids.
    """
    if any(isinstance(leaf, ShapedArray) for leaf in leaves):
        raise TypeError("a run on the emulated device needs arrays, not types that stand for them")
    backend = MeasuringBackend(_checked(compute_capability))
    inputs = Placed.on(backend, leaves)
    plan = compile_plan(
        program.jaxpr, inputs.layouts, backend, build=partial(compile_anew, backend)
    )
    # As they happen: a loop that the host drives launches its kernels at each step.
    order: list[str | None] = []

    def note(event: str, data: Mapping[str, Any]) -> None:
        if event in ("launch", "eager"):
            name = data.get("primitive")
            # A user's whole kernel is launched as those of the compiler are.
            launched = name is not None and find_primitive(name).kernel is not None
            order.append(None if launched else name)
        elif event == "graph":
            order.extend([None] * data["launches"])

    with subscribe(note):
        results = [np.array(result) for result in plan.run(inputs.values)]
    launches = iter(backend.reports())
    steps: list[LaunchReport | LibraryStep] = [
        next(launches) if name is None else LibraryStep(name) for name in order
    ]
    total = _program_bytes(optimize(program.jaxpr), leaves)
    outputs = unflatten(program.out_tree, results)
    return KernelReport(compute_capability, tuple(steps), total, outputs)


def _checked(capability: object) -> tuple[int, int]:
    match capability:
        case (int(major), int(minor)):
            return major, minor
    raise TypeError(
        f"compute_capability is a pair of integers, such as (9, 0) for 9.0, not {capability!r}"
    )


def _program_bytes(jaxpr: Jaxpr, leaves: Sequence[Any]) -> int:
    """Return the bytes of what the program has to read, each element once, and has to write."""
    asked = _elements_asked_for(jaxpr)
    # An array that is passed or captured twice is read from one place.
    read: dict[int, int] = {}
    values = (*leaves, *jaxpr.consts)
    for var, value in zip((*jaxpr.invars, *jaxpr.constvars), values, strict=True):
        if not hasattr(value, "strides") or isinstance(value, np.generic):
            continue
        there = math.prod(
            extent for extent, stride in zip(value.shape, value.strides, strict=True) if stride
        )
        size = min(asked.get(var, 0), there) * value.dtype.itemsize
        read[id(value)] = max(read.get(id(value), 0), size)
    written = sum(aval.size * aval.dtype.itemsize for aval in jaxpr.out_avals)
    return sum(read.values()) + written


def _elements_asked_for(jaxpr: Jaxpr) -> dict[Var, int]:
    """Return how many elements of each value are needed at least; what is missing is not used.

    A view asks for as many as are needed of it, every other operation for all of its operands.
    """
    asked = {var: var.aval.size for var in jaxpr.outvars if isinstance(var, Var)}
    for eqn in reversed(jaxpr.eqns):
        needed = max((asked.get(var, 0) for var in eqn.outvars), default=0)
        for var in eqn.invars:
            if isinstance(var, Var):
                size = var.aval.size
                size = min(size, needed) if eqn.primitive.kind is Kind.VIEW else size
                asked[var] = max(asked.get(var, 0), size)
    return asked
